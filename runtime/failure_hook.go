package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

const (
	// failureHookHold is how long a worker holds a hook without renewing it, which it does every third of that.
	failureHookHold = 30 * time.Second
	// quietFailureHookHold is that time in a quiet session, whose virtual time would pay for the renewals.
	quietFailureHookHold = time.Hour
	// A function that returns an error is called again after these times, each twice the one before.
	failureHookPause, maxFailureHookPause = time.Second, time.Minute
	// failureHookMargin is how much older the stored cursor may be than the time at which it was stored.
	failureHookMargin = time.Minute
	// failureHookRelease bounds the call by which a worker that stops hands a hook over.
	failureHookRelease = 2 * time.Second
)

// errHookLost ends the call of a hook that the worker no longer holds.
var errHookLost = errors.New("another worker calls OnRunFailed now")

// failureHook calls WorkerConfig.OnRunFailed for each run that fails while this worker holds the hook. Of the workers
// of a name in a namespace, one holds it; the engine stores how far that one has come.
type failureHook struct {
	client *Client
	name   string
	holder enginecore.WorkerInstanceID
	call   func(context.Context, *RunError) error
	hold   time.Duration
}

// newFailureHook returns the hook of a worker. The error is ErrNotInContract for an engine without a feed.
func newFailureHook(e *Engine, config WorkerConfig, holder enginecore.WorkerInstanceID) (*failureHook, error) {
	if _, err := e.session.Library("the feed of all runs"); err != nil {
		return nil, err
	}
	client, err := NewClient(e)
	if err != nil {
		return nil, err
	}
	hold := failureHookHold
	if e.session.Quiet {
		hold = quietFailureHookHold
	}
	return &failureHook{
		client: client, name: cmp.Or(config.Name, defaultWorkerName), holder: holder, call: config.OnRunFailed,
		hold: cmp.Or(e.session.Intervals.FailureHold, hold),
	}, nil
}

// run holds the hook whenever no other worker does, until ctx ends.
func (h *failureHook) run(ctx context.Context) {
	defer h.client.Close()
	for ctx.Err() == nil {
		reply, err := h.renew(ctx, "")
		if err == nil && reply.Held {
			err = h.follow(ctx, reply)
			h.release(ctx)
		}
		pause := failureHookPause
		switch {
		case ctx.Err() != nil || errors.Is(err, enginecore.ErrClosed):
			return
		case err == nil && !reply.Held:
			pause = time.Duration(reply.FreeInMs)*time.Millisecond + rand.N(h.hold/4)
		case !errors.Is(err, errHookLost):
			h.client.session.Logger.LogAttrs(ctx, slog.LevelWarn,
				"flowfabric: the worker could not follow the runs that fail and retries", observe.EventFailureHookAway.Attr(),
				slog.String("worker", h.name), slog.Any("error", err))
		}
		sleep.For(ctx, pause)
	}
}

// renew takes or renews the hold, and stores a cursor unless it is empty.
func (h *failureHook) renew(ctx context.Context, cursor string) (enginerpc.HoldFailureHookReply, error) {
	return h.client.session.Core.HoldFailureHook(ctx, enginerpc.HoldFailureHookCall{
		Partition: engine.Directory(), Namespace: string(h.client.session.Namespace), Hook: h.name, Holder: h.holder,
		HoldMs: h.hold.Milliseconds(), Cursor: cursor,
	})
}

// release lets another worker hold the hook.
func (h *failureHook) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failureHookRelease)
	defer cancel()
	// Without it, others wait until the hold is over.
	_, _ = h.client.session.Core.HoldFailureHook(ctx, enginerpc.HoldFailureHookCall{
		Partition: engine.Directory(), Namespace: string(h.client.session.Namespace), Hook: h.name, Holder: h.holder,
	})
}

// follow calls the function for all failures after the stored cursor until the hold is lost or ctx ends.
func (h *failureHook) follow(ctx context.Context, from enginerpc.HoldFailureHookReply) error {
	filter := FeedFilter{
		Kinds: []fabrictype.EventKind{
			fabrictype.EventRunFailed, fabrictype.EventRunExpired, fabrictype.EventRunCancelled,
		},
	}
	feed, err := h.client.Feed(ctx, filter, from.Cursor)
	if err != nil {
		return err
	}
	defer feed.Close()
	stored := from.StoredAt
	store := func() error {
		reply, err := h.renew(ctx, feed.Cursor())
		if err == nil && !reply.Held {
			err = errHookLost
		}
		stored = reply.StoredAt
		return err
	}
	if from.Cursor == "" {
		if err := store(); err != nil {
			return err
		}
	}
	for {
		waiting, cancel := context.WithTimeout(ctx, h.hold/3)
		err := h.handleAll(ctx, waiting, feed, &stored, store)
		cancel()
		if err == nil {
			err = store()
		}
		if err != nil {
			return err
		}
	}
}

// handleAll calls the function for the failures that the feed yields until waiting ends.
func (h *failureHook) handleAll(
	ctx, waiting context.Context, feed *Feed, stored *time.Time, store func() error,
) error {
	for failure, err := range feed.failures(waiting, ctx) {
		switch {
		case errors.Is(err, &fabrictype.EventsLostError{}):
			err = h.catchUp(ctx, stored.Add(-failureHookMargin))
		case err != nil && waiting.Err() != nil:
			return ctx.Err()
		case err == nil:
			err = h.handle(ctx, failure)
		}
		if err == nil {
			err = store()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// catchUp calls the function for the runs that have failed since a time of which the feed has dropped events.
func (h *failureHook) catchUp(ctx context.Context, since time.Time) error {
	query := RunQuery{
		States:       []fabrictype.RunState{fabrictype.RunFailed, fabrictype.RunExpired, fabrictype.RunCancelled},
		FinishedFrom: since, Sort: firstEndedFirst,
	}
	for run, err := range h.client.Runs(ctx, query) {
		if err != nil {
			return err
		}
		if run.State == fabrictype.RunCancelled && !h.client.submitter.CleanupFailed(
			ctx, enginecore.FlowID(run.FlowID), run.FailedNode,
		) {
			continue
		}
		failure := &RunError{Flow: run.Flow, Run: run.Run, Outcome: fabrictype.Outcome(run.State), Node: run.FailedNode}
		if err := h.handle(ctx, h.client.readFailure(ctx, enginecore.FlowID(run.FlowID), failure)); err != nil {
			return err
		}
	}
	return nil
}

// handle calls the function until it returns nil, and renews the hold in the meantime. The error is errHookLost or the
// error of ctx.
func (h *failureHook) handle(ctx context.Context, failure *RunError) error {
	holding, end := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		h.renewUntil(holding, end)
	}()
	defer func() {
		end(nil)
		<-renewed
	}()
	for pause := failureHookPause; ; pause = min(2*pause, maxFailureHookPause) {
		err := h.callOnce(holding, failure)
		if holding.Err() != nil {
			return context.Cause(holding)
		}
		if err == nil {
			return nil
		}
		h.client.session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: OnRunFailed failed and is called again",
			observe.EventFailureHookFailed.Attr(), slog.String("worker", h.name), slog.String("flow", failure.Flow),
			slog.String("run", failure.Run), slog.Any("error", err))
		sleep.For(holding, pause)
	}
}

// renewUntil renews the hold until ctx ends, and ends it when the hold is lost.
func (h *failureHook) renewUntil(ctx context.Context, end context.CancelCauseFunc) {
	last := time.Now()
	for sleep.For(ctx, h.hold/3); ctx.Err() == nil; sleep.For(ctx, h.hold/3) {
		reply, err := h.renew(ctx, "")
		switch {
		case err == nil && reply.Held:
			last = time.Now()
		case err == nil || time.Since(last) > h.hold:
			end(errHookLost)
		}
	}
}

// callOnce calls the function; a panic is an error.
func (h *failureHook) callOnce(ctx context.Context, failure *RunError) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return h.call(ctx, failure)
}
