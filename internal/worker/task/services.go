package task

import (
	"context"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/budget"
	"github.com/flowfabric/flowfabric-go/internal/worker/child"
	"github.com/flowfabric/flowfabric-go/internal/worker/output"
	"github.com/flowfabric/flowfabric-go/internal/worker/permit"
)

// Services contains the components that all tasks of a worker run use: the components of their attempts, the
// activities that the worker runs, and components that only tasks use.
type Services struct {
	attempt.Shared
	handlers map[string]activity.Handler
	// Around runs functions in place of Handler.Invoke; nil if nothing is around them.
	Around func(context.Context, activity.Handler, []byte) ([]byte, error)
	// Logs defines which lines of the logs of activities are stored.
	Logs output.LogConfig
	// spanNames are the names of the spans of attempts, by the kinds that the worker has functions for.
	spanNames map[string]string
	Plans     submit.PlanCache
	// definitions are the graphs of the parents of child runs.
	definitions child.Definitions
	// Permits acquires the permits of executions under limits.
	Permits *permit.Permits
	// Budgets sends the usage of budgets by activities.
	Budgets *budget.Batcher
	misfits misfits
	// Batches gathers the executions of batch activities.
	Batches activitycontext.BatchSpace
}

// Use sets the activities that the tasks run.
func (s *Services) Use(handlers map[string]activity.Handler) {
	s.handlers, s.spanNames = handlers, make(map[string]string, len(handlers))
	for kind := range handlers {
		s.spanNames[kind] = spanPrefix + kind
	}
}

// spanName returns the name of the span of an attempt at an execution of a kind.
func (s *Services) spanName(kind string) string {
	if name, known := s.spanNames[kind]; known {
		return name
	}
	return spanPrefix + kind
}

const spanPrefix = "flowfabric.activity "
