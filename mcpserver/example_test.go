package mcpserver_test

import (
	"context"
	"fmt"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flowfabric/flowfabric-go/mcpserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// A program offers the operations of its engine as tools that only read. A separate server would use
// mcp.StdioTransport.
func Example() {
	ctx := context.Background()
	engine, err := runtime.Open(ctx, "", runtime.OpenConfig{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	api, err := server.New(server.Config{Engine: engine})
	if err != nil {
		log.Fatal(err)
	}
	defer api.Close()
	client, err := api.ClientAs("model")
	if err != nil {
		log.Fatal(err)
	}
	tools, err := mcpserver.New(mcpserver.Config{Client: client})
	if err != nil {
		log.Fatal(err)
	}
	serverSide, modelSide := mcp.NewInMemoryTransports()
	serving, err := tools.Connect(ctx, serverSide, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer serving.Close()

	session, err := mcp.NewClient(&mcp.Implementation{Name: "a program with a model"}, nil).Connect(ctx, modelSide, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "list-runs", Arguments: map[string]any{"limit": 5}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output: {"items":[]}
}
