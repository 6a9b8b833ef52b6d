package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// measured is an engine with a server that listens, and no workers.
func measured(b *testing.B, kind testserver.Kind) (*runtime.Client, *httpclient.Client) {
	b.Helper()
	bench := enginetest.New(b, kind)
	require.NoError(b, bench.Client.Publish(enginetest.Context(b), runtime.Publication{Flow: orders(b)}))
	s, err := server.New(server.Config{Engine: bench.Engine, Logger: (&logged{}).logger(), RequestsPerSecond: -1})
	require.NoError(b, err)
	b.Cleanup(s.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	b.Cleanup(func() { cancel(); <-ended })
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	b.Cleanup(transport.CloseIdleConnections)
	client, err := httpclient.New("http://"+listener.Addr().String(), httpclient.Config{HTTPClient: &http.Client{Transport: transport}})
	require.NoError(b, err)
	return bench.Client, client
}

// processorTime reports the time of processors that each operation took, of client, server and an embedded engine
// together. Unlike the time that passes, it does not depend on other load of the machine.
func processorTime(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-us/op") }
}

var benchInput = json.RawMessage(`{"item":"book","count":1}`)

// BenchmarkCall compares one call at a time by HTTP with the same call in process.
func BenchmarkCall(b *testing.B) {
	for _, kind := range testserver.Kinds(b) {
		direct, remote := measured(b, kind)
		ctx := context.Background()
		_, err := direct.Flow("order").Start(ctx, benchInput, runtime.WithID("one"))
		require.NoError(b, err)
		b.Run(string(kind)+"/describe/process", func(b *testing.B) {
			defer processorTime(b)()
			for b.Loop() {
				_, err := direct.Run("order", "one").Describe(ctx)
				require.NoError(b, err)
			}
		})
		b.Run(string(kind)+"/describe/http", func(b *testing.B) {
			defer processorTime(b)()
			for b.Loop() {
				_, err := remote.GetRun(ctx, "order", "one", api.GetRunInput{})
				require.NoError(b, err)
			}
		})
		b.Run(string(kind)+"/start/process", func(b *testing.B) {
			defer processorTime(b)()
			for b.Loop() {
				_, err := direct.Flow("order").Start(ctx, benchInput)
				require.NoError(b, err)
			}
		})
		b.Run(string(kind)+"/start/http", func(b *testing.B) {
			defer processorTime(b)()
			for b.Loop() {
				_, err := remote.StartRun(ctx, "order", api.NewRun{Input: benchInput}, nil)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkStarts starts runs at the same time, 64 for each processor. The client shares the processors with the
// server.
func BenchmarkStarts(b *testing.B) {
	for _, kind := range testserver.Kinds(b) {
		direct, remote := measured(b, kind)
		for name, start := range map[string]func(context.Context) error{
			"process": func(ctx context.Context) error {
				_, err := direct.Flow("order").Start(ctx, benchInput)
				return err
			},
			"http": func(ctx context.Context) error {
				_, err := remote.StartRun(ctx, "order", api.NewRun{Input: benchInput}, nil)
				return err
			},
		} {
			b.Run(fmt.Sprintf("%s/%s", kind, name), func(b *testing.B) {
				b.SetParallelism(64)
				defer processorTime(b)()
				var failed atomic.Int64
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if start(context.Background()) != nil {
							failed.Add(1)
						}
					}
				})
				require.Zero(b, failed.Load())
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "starts/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

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
