package runtime

import (
	"context"
	"fmt"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Do runs one activity as a run, without a flow: it starts a run of a flow with the activity as its only node. Flow and
// node have the name of the activity, so Client.Run(a.Name(), id) refers to the run, and lists, limits, retries, waits
// and everything else apply as to any run. It takes the options of Start and returns its errors, and an error that
// matches activity.ErrInvalid for an invalid activity. An activity of activity.Declare will do: a worker runs it.
//
// A flow of your own with the name of the activity shares its run ids.
func Do[In, Out any](
	ctx context.Context, c *Client, a *activity.Activity[In, Out], in In, opts ...StartOption,
) (*Run[Out], error) {
	if err := c.made(); err != nil {
		return nil, fmt.Errorf("run activity: %w", err)
	}
	def, err := singleFlow(&c.singles, a)
	if err != nil {
		return nil, fmt.Errorf("run activity %s: %w", a.Name(), err)
	}
	return Start(ctx, c, def, in, opts...)
}

// singleFlows keeps the definitions of flows that have one activity, by the activity. The zero value is empty.
type singleFlows struct {
	mu         sync.Mutex
	byActivity map[activity.Handler]any
}

// singleFlow returns the flow with an activity as its only node. There is room for as many as in a cache of compiled
// flows.
func singleFlow[In, Out any](s *singleFlows, a *activity.Activity[In, Out]) (*flow.Definition[In, Out], error) {
	s.mu.Lock()
	known, _ := s.byActivity[a].(*flow.Definition[In, Out])
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if err := a.Err(); err != nil {
		return nil, err
	}
	f := flow.New[In, Out](a.Name(), flow.WithCodec(a.Codec()))
	flow.Return(f, flow.Node(f, a.Name(), a, f.Input()))
	def, err := f.Build()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byActivity == nil || len(s.byActivity) >= submit.MaxCompiled {
		s.byActivity = make(map[activity.Handler]any)
	}
	s.byActivity[a] = def
	return def, nil
}
