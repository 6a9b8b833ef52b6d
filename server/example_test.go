package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// A program serves the API of its engine; another one starts a run by the name of its flow, and waits for the result.
func Example() {
	ctx := context.Background()
	double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	f := flow.New[int, int]("doubling")
	flow.Return(f, flow.Node(f, "double", double, f.Input()))
	doubling, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{Activities: doubling.Handlers()})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()
	if err := local.Client().Publish(ctx, runtime.Publication{Flow: doubling}); err != nil {
		log.Fatal(err)
	}
	srv, err := server.New(server.Config{Engine: local.Engine()})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	listener := httptest.NewServer(srv.Handler()) // or srv.Run(ctx, "localhost:8080")
	defer listener.Close()

	client, err := httpclient.New(listener.URL, httpclient.Config{})
	if err != nil {
		log.Fatal(err)
	}
	run, err := client.StartRun(ctx, "doubling", api.NewRun{Input: []byte("21")}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range client.FollowRun(ctx, run.Flow, run.Run, "") {
		if err != nil {
			log.Fatal(err)
		}
	}
	result, err := client.GetResult(ctx, run.Flow, run.Run, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.State, string(result.Value.JSON))
	// Output: succeeded 42
}
