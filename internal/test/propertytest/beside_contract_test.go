package propertytest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// This project's library serves programs in contract mode and others at the same time, which share lanes: workers of
// both kinds run the nodes of runs in contract mode, and executions outside runs. Waits of nodes and the nodes of other
// runs are for programs of their own mode.
func TestContractMode_SharesLanesWithOtherPrograms(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind})
		config := runtime.OpenConfig{Partitions: 4}
		full := enginetest.Open(t, kind, server.URL(), enginetest.ContractPrefix, config)
		config.Backend = contract.Backend(contract.Config{PollInterval: 50 * time.Millisecond, ReconcileInterval: 300 * time.Millisecond})
		bound := enginetest.Open(t, kind, server.URL()+enginetest.ContractQuery, enginetest.ContractPrefix, config)
		f := newFleet(t, bound)
		f.foreign = func(n int) int { return n } // these nodes do not belong to another program here
		f.started = []string{"diamond", "foreign", "gated", "held"}
		handlers := []activity.Handler{f.add, f.flaky, fixture.Passing("work"), fixture.Passing("vendor"), fixture.Adder(), fixture.Passing("hold")}
		full.Keeper(t)
		bound.Keeper(t)
		var fulls []*runtime.Run[int]
		for i := range 60 {
			f.start(i)
			run, err := runtime.Start(f.ctx, full.Client, f.flows["diamond"], i)
			require.NoError(t, err)
			fulls = append(fulls, run)
			if i == 20 {
				full.Worker(t, handlers)
				bound.Worker(t, handlers)
			}
		}
		f.finish()
		for i, run := range fulls {
			result, err := run.Result(f.ctx)
			require.NoError(t, err)
			require.Equal(t, 2*i+3, result)
		}
		for i := range 20 {
			id, _, err := f.operator.CreateExecution(f.ctx, admin.ExecutionSpec{
				Kind: "add", Lane: enginetest.ProgramLane, Payload: []byte("1"),
			})
			require.NoError(t, err)
			enginetest.Eventually(t, func() string {
				if e, err := f.operator.Execution(f.ctx, id); err != nil || e.State != fabrictype.NodeSucceeded {
					return fmt.Sprintf("execution %d is %s, %v", i, e.State, err)
				}
				return ""
			})
		}
		full.Settle(t)
	})
}
