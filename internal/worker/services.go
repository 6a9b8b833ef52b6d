package worker

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// services is what the tasks, leases and permits of a run share: the worker, its connection to the engine, and the
// components that send calls for several tasks. It does not know the run.
type services struct {
	// worker is the worker that runs, Session its connection to the engine.
	worker  *Worker
	session *engine.Session
	core    *enginerpc.Conn
	// base has the values of the context of Worker.Run. It ends when Run returns, so that no call outlives it.
	base  context.Context
	plans submit.PlanCache
	// definitions are those of the parents of child runs.
	definitions definitions
	// spanNames are the names of the spans of attempts, by the kinds that the worker has functions for.
	spanNames map[string]string
	// background runs calls that messages and replies trigger.
	background backgroundTasks
	// completer reports how executions end.
	completer *completer
	// permits acquires the permits of executions under limits.
	permits permitQueue
	// budgets sends what activities use of budgets.
	budgets *budgetBatcher
	// batches gathers the executions of batch activities.
	batches activitycontext.BatchSpace
	// uncertain is set by a failed call, after which the engine may have leases that this worker does not know.
	uncertain atomic.Bool
	// woken has a value when the lease manager may have something to do again.
	woken chan struct{}
}

// spanName returns the name of the span of an attempt at an execution of a kind.
func (s *services) spanName(kind string) string {
	if name, known := s.spanNames[kind]; known {
		return name
	}
	return spanPrefix + kind
}

const spanPrefix = "flowfabric.activity "

// spanNamesOf returns the names of the spans of attempts by the kinds of executions that handlers are for.
func spanNamesOf(handlers map[string]activity.Handler) map[string]string {
	names := make(map[string]string, len(handlers))
	for kind := range handlers {
		names[kind] = spanPrefix + kind
	}
	return names
}

// markUncertain makes the next renewal compare the leases with those of the engine.
func (s *services) markUncertain() {
	s.uncertain.Store(true)
	engine.TrySend(s.woken)
}

// warnOfShortLease logs a warning if a lease can expire before a silent connection is closed.
func (s *services) warnOfShortLease(ctx context.Context) {
	if lease, silence := s.worker.config.Lease, s.session.Silence; 3*silence > lease {
		s.session.Logger.LogAttrs(ctx, slog.LevelWarn,
			"flowfabric: the worker's lease is short: a silent connection may cost it its leases; "+
				"a smaller write_timeout in the engine's URL closes such a connection sooner", engine.EventLeaseShort.Attr(),
			slog.Duration("lease", lease), slog.Duration("detection_time", silence))
	}
}
