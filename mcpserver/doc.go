// Package mcpserver offers the operations of a FlowFabric server to language models, over the Model Context Protocol:
// a tool for each operation of package api, with a schema of its input. Tools only read unless Config says otherwise.
//
//	server, err := mcpserver.New(mcpserver.Config{Client: client})
//	err = server.Run(ctx, &mcp.StdioTransport{})
//
// What a model may see and do is bounded by the rights of the client's token, too.
package mcpserver
