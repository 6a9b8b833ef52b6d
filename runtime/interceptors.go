package runtime

import (
	"context"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Use returns a client whose operations (interceptor.Operation) pass the interceptors: the first is the outermost, and
// interceptors of an earlier Use are outside of these. References and runs that it returns have them, too. The clients
// share everything else, and closing one closes both. An interceptor that is nil, or returns nil, makes operations
// return ErrInvalid.
func (c *Client) Use(interceptors ...interceptor.Client) *Client {
	if c == nil {
		return nil
	}
	return &Client{
		clientState: c.clientState, actor: c.actor, interceptors: slices.Concat(c.interceptors, interceptors),
	}
}

// isIntercepted reports whether operations go through interceptors.
func (c *Client) isIntercepted() bool { return c != nil && len(c.interceptors) > 0 }

// intercept performs an operation through the interceptors.
func (c *Client) intercept(ctx context.Context, call interceptor.ClientCall, do func(context.Context) error) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	done := false
	run := func(ctx context.Context, _ *interceptor.ClientCall) error {
		if err := checkContext(ctx); err != nil {
			return err
		}
		done = true
		return do(ctx)
	}
	for i, interceptor := range slices.Backward(c.interceptors) {
		if interceptor == nil {
			return invalid("interceptor %d of the client is nil", i+1)
		}
		if run = interceptor(run); run == nil {
			return invalid("interceptor %d of the client returned no function", i+1)
		}
	}
	err := run(ctx, &call)
	if err == nil && !done {
		return invalid("an interceptor of the client left the operation %s out without an error", call.Operation)
	}
	return err
}

// plain returns the client without its interceptors.
func (c *Client) plain() *Client { return &Client{clientState: c.clientState, actor: c.actor} }

// plain returns the reference with a client without interceptors.
func (r *RunRef) plain() *RunRef {
	ref := *r
	ref.client = r.client.plain()
	return &ref
}

// isIntercepted reports whether operations on the run go through interceptors.
func (r *RunRef) isIntercepted() bool { return r != nil && r.fault == nil && r.client.isIntercepted() }

// intercept performs an operation on the run through the interceptors of its client.
func (r *RunRef) intercept(
	ctx context.Context, o interceptor.Operation, node string, do func(context.Context, *RunRef) error,
) error {
	call := interceptor.ClientCall{Operation: o, Flow: r.at.Flow, Run: r.at.ID, Node: node}
	return r.client.intercept(ctx, call, func(ctx context.Context) error { return do(ctx, r.plain()) })
}

// submit starts the run of a plan, through the interceptors if there are some.
func (c *Client) submit(ctx context.Context, plan *submit.RunPlan) (existed bool, err error) {
	if !c.isIntercepted() {
		return c.submitter.Submit(ctx, plan)
	}
	return c.submitIntercepted(ctx, plan)
}

// submitIntercepted is a separate function, so that the variables that it captures cost other starts nothing.
func (c *Client) submitIntercepted(ctx context.Context, plan *submit.RunPlan) (existed bool, err error) {
	call := interceptor.ClientCall{Operation: interceptor.Start, Flow: plan.Flow, Run: plan.Run, Input: plan.Input}
	err = c.intercept(ctx, call, func(ctx context.Context) (err error) {
		existed, err = c.submitter.Submit(ctx, plan)
		return err
	})
	return existed, err
}

// startsAtATime is how many starts of a StartMany go through interceptors at a time.
const startsAtATime = 64

// submitMany starts the runs of plans, through the interceptors if there are some.
func (c *Client) submitMany(ctx context.Context, plans []*submit.RunPlan) []submit.Outcome {
	if !c.isIntercepted() {
		return c.submitter.SubmitMany(ctx, plans)
	}
	outcomes := make([]submit.Outcome, len(plans))
	slots := make(chan struct{}, startsAtATime)
	var group sync.WaitGroup
	for i, plan := range plans {
		if plan == nil {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			outcomes[i].Existed, outcomes[i].Err = c.submitIntercepted(ctx, plan)
		})
	}
	group.Wait()
	return outcomes
}

// intercepted returns how a worker runs functions; nil if it has no interceptors.
func intercepted(list []interceptor.Activity) func(context.Context, activity.Handler, []byte) ([]byte, error) {
	if len(list) == 0 {
		return nil
	}
	return func(ctx context.Context, handler activity.Handler, input []byte) ([]byte, error) {
		run := func(ctx context.Context, call *interceptor.ActivityCall) ([]byte, error) {
			return handler.Invoke(ctx, call.Input)
		}
		for i := len(list) - 1; i >= 0; i-- {
			run = list[i](run)
		}
		info, _ := activity.Info(ctx)
		return run(ctx, &interceptor.ActivityCall{Info: info, Input: input})
	}
}
