package enginetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// RunPlace is where the engine keeps a run, whether or not it was started.
type RunPlace struct {
	FlowID    enginecore.FlowID
	Partition keyspace.Partition
}

// Locate returns where the engine keeps a run of the default namespace.
func (b *Bench) Locate(tb testing.TB, flow, run string) RunPlace {
	tb.Helper()
	id := keyspace.FlowIDFor("default", flow, run)
	partition, err := engine.ConnOf(b.Engine.Internal()).FlowPartition(id)
	require.NoError(tb, err)
	return RunPlace{FlowID: id, Partition: partition}
}

// Node returns the id of a node of a run that was started.
func (b *Bench) Node(tb testing.TB, p RunPlace, node string) enginecore.ExecutionID {
	tb.Helper()
	if b.Contract() {
		return p.ExecutionID(node)
	}
	call := enginerpc.FindNodeCall{Partition: p.Partition, FlowID: p.FlowID, Node: node}
	reply, err := engine.ConnOf(b.Engine.Internal()).FindNode(Context(tb), call)
	require.NoError(tb, err)
	return reply.ExecutionID
}

// ExecutionID returns the id of a node of a run that is created call by call, as in contract mode.
func (p RunPlace) ExecutionID(node string) enginecore.ExecutionID {
	return keyspace.ExecutionIDFor(p.Partition, p.FlowID, node)
}
