package graphtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Timers run in the case of a condition that has them, and are skipped in the others.
func TestTimersInBranches(t *testing.T) {
	t.Parallel()
	f := flow.New[listing, string]("paced")
	kind := flow.Switch(f.Input(), "kind", func(l listing) listingKind { return listingKind(l.Kind) }, image, video)
	large := flow.When(f.Input(), "large", isLarge)
	short := flow.Sleep(f, "short", time.Millisecond, kind.Case(image), large)
	long := flow.Sleep(f, "long", 24*time.Hour, kind.Case(video), large.Not())
	flow.Return(f, flow.Node(f, "say", sayNode, f.Input(), flow.AfterAny(short, long)))
	def := fixture.Build(t, f)
	require.Contains(t, def.Outline(), "sleeps for 24h0m0s")
	require.Contains(t, def.Mermaid(), "video")
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.KeepingWorker(t, append(def.Handlers(), sayNode), runtime.WorkerConfig{Concurrency: 8})
		result, d := runToSuccess(t, b, def, listing{Size: 1000, Kind: string(image)})
		require.Equal(t, "say", result)
		require.Equal(t, fabrictype.NodeSucceeded, fixture.Node(t, d, "short").State)
		require.Equal(t, fabrictype.NodeSkipped, fixture.Node(t, d, "long").State)
		require.Contains(t, fixture.Node(t, d, "long").Reason, "condition")

		run, err := runtime.Start(enginetest.Context(t), b.Client, def, listing{Size: 1, Kind: string(video)})
		require.NoError(t, err)
		eventuallyState(t, run, "long", fabrictype.NodeSuspended)
		require.NoError(t, run.SkipTimer(enginetest.Context(t), "long"))
		_, d = successOf(t, run)
		require.Equal(t, fabrictype.NodeSkipped, fixture.Node(t, d, "short").State)
		b.Settle(t)
	})
}

// The zero value of an option changes nothing.
func TestZeroOptionsOfEdges(t *testing.T) {
	t.Parallel()
	f := flow.New[string, string]("zero")
	flow.Return(f, flow.Node(f, "a", passText, f.Input(), flow.JoinOption{}, flow.OrderOption{}, activity.Lane("default")))
	fixture.Build(t, f)
}
