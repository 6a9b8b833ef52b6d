package submit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// purgeCalls answers the first call for a large run. A keeper removes the rest before the second one, and the id has another run,
// which is open or has ended.
type purgeCalls struct {
	engine.Backend
	engine.RunControl
	closedAt time.Time
	other    error
	calls    []enginerpc.PurgeFlowCall
}

func (c *purgeCalls) PurgeFlow(_ context.Context, call enginerpc.PurgeFlowCall) (enginerpc.PurgeFlowReply, error) {
	c.calls = append(c.calls, call)
	if len(c.calls) > 1 {
		return enginerpc.PurgeFlowReply{}, c.other
	}
	return enginerpc.PurgeFlowReply{Status: enginerpc.StatusOK, More: true, ClosedAt: c.closedAt}, nil
}

// The calls that continue a purge name the end of the run that it began with, so another run with the same id is kept.
func TestPurgeKeepsTheNextRun(t *testing.T) {
	t.Parallel()
	ended := time.UnixMilli(1_700_000_000_000)
	for _, other := range []enginecore.Code{enginecore.ErrChangedMeanwhile, errorcode.FlowNotTerminal} {
		calls := &purgeCalls{closedAt: ended, other: &enginecore.Error{Function: "ffx_purge_flow", Code: other}}
		s := &Submitter{session: &engine.Session{Backend: calls}, Completions: newCompletionListener(&engine.Session{})}
		require.NoError(t, s.Purge(t.Context(), "order", "1", "id", keyspace.Partition{}, time.Time{}))
		require.Len(t, calls.calls, 2)
		require.Zero(t, calls.calls[0].ClosedAt)
		require.Equal(t, ended, calls.calls[1].ClosedAt)
	}
}
