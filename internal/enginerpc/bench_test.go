package enginerpc

import (
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// completion is a call as a worker makes them most.
func completion() CompleteCall {
	return CompleteCall{
		Partition: keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}, ExecutionID: keyspace.NewExecutionID(keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}),
		LeaseID: "550e8400-e29b-41d4-a716-446655440000", LeaseEpoch: 1, AttemptID: "550e8400-e29b-41d4-a716-446655440000",
		Result: make([]byte, 200),
		ClaimRequest: ClaimRequest{
			LaneID: "default", WorkerID: "w", WorkerInstanceID: "w-1", ClaimID: "550e8400-e29b-41d4-a716-446655440000",
			Count: 1, LeaseTTL: 10 * time.Second, Kinds: "\na\nb\n",
		},
	}
}

// encodePooled encodes a call as Do does.
func encodePooled(pool *wirePool, k Keys, c CompleteCall) error {
	w := pool.get(k, c.info().name, 0)
	defer pool.put(w)
	c.encode(w)
	return w.err
}

func BenchmarkEncodeComplete(b *testing.B) {
	k, c := testKeys(b), completion()
	var pool wirePool
	b.ReportAllocs()
	for b.Loop() {
		if err := encodePooled(&pool, k, c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeClaim(b *testing.B) {
	for _, g := range goldenReplies() {
		if _, ok := g.want.(ClaimReply); !ok {
			continue
		}
		m := reply(b, g.reply)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.decode(m); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkVersionRoundTrip(b *testing.B) {
	conn := shared(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Version(b.Context(), VersionCall{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExecutionIDFor(b *testing.B) {
	p, flow := keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}, keyspace.FlowIDFor("default", "flow", "run")
	b.ReportAllocs()
	for b.Loop() {
		if keyspace.ExecutionIDFor(p, flow, "node") == "" {
			b.Fatal("no id")
		}
	}
}
