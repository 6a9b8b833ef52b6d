package enginerpc_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/runrecord"
)

// A run of one node on the engine in this process: store its graph, submit it, claim the node, complete it, read the
// result.
func Example() {
	ctx := context.Background()
	inProcess, err := embedded.Open(ctx, embedded.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := inProcess.Close(); err != nil {
			log.Print(err)
		}
	}()
	client, err := rueidis.NewClient(inProcess.ClientOption())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	engine, err := enginerpc.Connect(ctx, client, enginerpc.Options{})
	if err != nil {
		log.Fatal(err)
	}

	flow := keyspace.FlowIDFor("example", "greet", "run-1")
	partition, err := engine.FlowPartition(flow)
	if err != nil {
		log.Fatal(err)
	}
	// The graph is stored once; its runs name it by a hash of 32 characters that the caller chooses.
	const graph = "5d41402abc4b2a76b9719d911017c592"
	_, err = engine.PutGraph(ctx, enginerpc.PutGraphCall{
		Partition: partition, Graph: graph, First: 1, Last: true, Result: 1, Definition: []byte(`{}`),
		Nodes: []enginerpc.PutGraphNode{{
			Name: "hello", Kind: "example.hello", LaneID: "default", UsesFlowInput: true, Policy: []byte(`{}`), Tags: []byte(`{}`),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	submitted, err := engine.Submit(ctx, enginerpc.SubmitCall{
		Partition: partition, Class: runrecord.Class{Graph: graph, GraphHash: "graph", FlowName: "greet", Namespace: "example"}.Encode(),
		Runs: []enginerpc.SubmitRun{{FlowID: flow, Record: runrecord.Record{RunID: "run-1"}.Encode(), Input: []byte("world")}},
	})
	if err != nil {
		log.Fatal(err)
	} else if outcome := submitted.Outcomes[0]; outcome.Code != string(enginerpc.StatusOK) {
		log.Fatalf("the run was not created: %s", outcome.Code)
	}

	me := enginerpc.ClaimRequest{
		LaneID: "default", WorkerID: "worker", WorkerInstanceID: "worker-1",
		ClaimID: "6e1f9a52-3f0f-4b7e-9a07-7a4c8a3a5d10", Count: 1, LeaseTTL: 10 * time.Second, Kinds: "\nexample.hello\n",
	}
	claimed, err := engine.Claim(ctx, enginerpc.ClaimCall{Partition: partition, ClaimRequest: me})
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range claimed.Executions {
		me.Count = 0 // no further work
		_, err := engine.Complete(ctx, enginerpc.CompleteCall{
			Partition: partition, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch,
			AttemptID: x.AttemptID, Result: append([]byte("hello "), x.FlowInput...), ClaimRequest: me,
		})
		if errors.Is(err, errorcode.LeaseExpired) {
			log.Fatal("too slow: another worker has the node now")
		} else if err != nil {
			log.Fatal(err)
		}
	}

	result, err := engine.FlowResult(ctx, enginerpc.FlowResultCall{Partition: partition, FlowID: flow})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", result.State, result.Result)
	// Output: completed: hello world
}
