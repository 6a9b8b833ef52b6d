// Package mcpserver offers the operations of a FlowFabric server to language models, over the Model Context Protocol:
// a tool for each operation of the HTTP API, with a schema of its input. Tools only read unless Config allows more.
//
//	server, err := mcpserver.New(mcpserver.Config{Client: client})
//	err = server.Run(ctx, &mcp.StdioTransport{})
//
// The rights of the client's token bound the model as well.
package mcpserver
