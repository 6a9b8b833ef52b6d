package activity

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Sleep waits until d has passed. A sleeping function occupies no worker: like Await, Sleep returns an error, which the
// function must return, as it is or wrapped. When the time has passed, the function runs again from its beginning,
// possibly on another worker, and this Sleep returns nil at once. The code before it runs again, too; use Step for work
// that must not be repeated.
//
//	if err := activity.Sleep(ctx, "cool-off", 48*time.Hour); err != nil {
//		return err
//	}
//
// d counts from the first time that the function comes to this Sleep; it is rounded up to whole milliseconds, and at
// most 10 years. With 0 or less, Sleep returns nil at once. RunRef.MoveTimer and SkipTimer of package runtime move and
// end the time. Names are as with Await, and a sleep counts as one of the 256 waits and steps of a function.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	fail := func(err error) error { return fmt.Errorf("sleep %q: %w", name, err) }
	if err := activityspec.CheckName(name); err != nil {
		return fail(NonRetryable(err))
	}
	timeout := activityspec.Milliseconds(d)
	if timeout > activityspec.MaxWait {
		return fail(NonRetryable(fmt.Errorf("%s, at most %s are allowed", d, activityspec.MaxWait)))
	}
	steps, ok := activitycontext.StepsFrom(ctx)
	if !ok {
		return fail(noExecution(ctx))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	step, err := nextWait(ctx, steps, name)
	if err != nil {
		return fail(err)
	}
	if d <= 0 {
		return nil
	}
	_, err = awaitStep(ctx, steps, name, step, activitycontext.Wait{
		Count: 1, Timeout: timeout, OnTimeout: string(ResumeOnTimeout), Sleep: true,
	})
	return err
}
