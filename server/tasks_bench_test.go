package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// BenchmarkTaskOverHTTP is a worker that claims and completes one node after the other.
func BenchmarkTaskOverHTTP(b *testing.B) {
	ctx := context.Background()
	engine, err := runtime.Open(ctx, "", runtime.OpenConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer engine.Close()
	s, err := server.New(server.Config{Engine: engine, RequestsPerSecond: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	listener := httptest.NewServer(s.Handler())
	defer listener.Close()
	remote, err := httpclient.New(listener.URL, httpclient.Config{})
	if err != nil {
		b.Fatal(err)
	}
	client, err := runtime.NewClient(engine)
	if err != nil {
		b.Fatal(err)
	}
	work := activity.Declare[int, int]("work")
	for i := range b.N {
		if _, err := runtime.Do(ctx, client, work, i, runtime.WithID(fmt.Sprint(i))); err != nil {
			b.Fatal(err)
		}
	}
	var claim api.ClaimTaskInput
	claim.Worker, claim.Activities, claim.Wait.Duration = "bench", []string{"work"}, 10e9
	b.ResetTimer()
	for range b.N {
		claimed, err := remote.ClaimTask(ctx, claim)
		if err != nil || claimed.Task == nil {
			b.Fatal("no task", err)
		}
		if err := remote.CompleteTask(ctx, claimed.Task.Token, json.RawMessage("1")); err != nil {
			b.Fatal(err)
		}
	}
}
