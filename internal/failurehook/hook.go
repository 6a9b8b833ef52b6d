package failurehook

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
	"github.com/flowfabric/flowfabric-go/internal/engine/feeds"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/follow"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/runsearch"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

const (
	// holdTime is how long a worker holds a hook without renewing it, which it does every third of that.
	holdTime = 30 * time.Second
	// quietHoldTime is that time in a quiet session, whose virtual time would pay for the renewals.
	quietHoldTime = time.Hour
	// A function that returns an error is called again after these times, each twice the one before.
	retryPause, maxRetryPause = time.Second, time.Minute
	// margin is how much older the stored cursor may be than the time at which it was stored.
	margin = time.Minute
	// releaseTime bounds the call by which a worker that stops hands a hook over.
	releaseTime = 2 * time.Second
)

// errLost ends the call of a hook that the worker no longer holds.
var errLost = errors.New("another worker calls OnRunFailed now")

// Hook calls a function for each run that fails while a worker holds it. Of the workers of a name in a namespace, one
// holds it; the engine stores how far that one has come.
type Hook struct {
	session   *engine.Session
	submitter *submit.Submitter
	name      string
	holder    enginecore.WorkerInstanceID
	call      Function
	hold      time.Duration
}

// Function is called for each failure. When it returns an error, it is called again.
type Function func(context.Context, *submit.RunFailure) error

// New returns the hook of a worker. The error is [engine.ErrNotInContract] for an engine without a feed.
func New(s *engine.Session, name string, holder enginecore.WorkerInstanceID, call Function) (*Hook, error) {
	if _, err := s.Library("the feed of all runs"); err != nil {
		return nil, err
	}
	hold := holdTime
	if s.Quiet {
		hold = quietHoldTime
	}
	return &Hook{
		session: s, submitter: submit.NewSubmitter(s), name: name, holder: holder, call: call,
		hold: cmp.Or(s.Intervals.FailureHold, hold),
	}, nil
}

// Run holds the hook whenever no other worker does, until ctx ends. It may be called once.
func (h *Hook) Run(ctx context.Context) {
	defer h.submitter.Close()
	for ctx.Err() == nil {
		reply, err := h.renew(ctx, "")
		if err == nil && reply.Held {
			err = h.follow(ctx, reply)
			h.release(ctx)
		}
		pause := retryPause
		switch {
		case ctx.Err() != nil || errors.Is(err, enginecore.ErrClosed):
			return
		case err == nil && !reply.Held:
			pause = time.Duration(reply.FreeInMs)*time.Millisecond + rand.N(h.hold/4)
		case !errors.Is(err, errLost):
			h.session.Logger.LogAttrs(ctx, slog.LevelWarn,
				"flowfabric: the worker could not follow the runs that fail and retries", observe.EventFailureHookAway.Attr(),
				slog.String("worker", h.name), slog.Any("error", err))
		}
		sleep.For(ctx, pause)
	}
}

// renew takes or renews the hold, and stores a cursor unless it is empty.
func (h *Hook) renew(ctx context.Context, cursor string) (enginerpc.HoldFailureHookReply, error) {
	return h.session.Core.HoldFailureHook(ctx, enginerpc.HoldFailureHookCall{
		Partition: engine.Directory(), Namespace: string(h.session.Namespace), Hook: h.name, Holder: h.holder,
		HoldMs: h.hold.Milliseconds(), Cursor: cursor,
	})
}

// release lets another worker hold the hook.
func (h *Hook) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	// Without it, others wait until the hold is over.
	_, _ = h.session.Core.HoldFailureHook(ctx, enginerpc.HoldFailureHookCall{
		Partition: engine.Directory(), Namespace: string(h.session.Namespace), Hook: h.name, Holder: h.holder,
	})
}

// follow calls the function for all failures after the stored cursor until the hold is lost or ctx ends.
func (h *Hook) follow(ctx context.Context, from enginerpc.HoldFailureHookReply) error {
	filter := feeds.Filter{Kinds: []string{
		string(fabrictype.EventRunFailed), string(fabrictype.EventRunExpired), string(fabrictype.EventRunCancelled),
	}}
	feed, err := follow.NewFeed(ctx, h.session, filter, from.Cursor)
	if err != nil {
		return fmt.Errorf("feed of runs: %w", err)
	}
	defer feed.Close()
	stored := from.StoredAt
	store := func() error {
		reply, err := h.renew(ctx, feed.Cursor())
		if err == nil && !reply.Held {
			err = errLost
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
func (h *Hook) handleAll(
	ctx, waiting context.Context, feed *follow.Feed, stored *time.Time, store func() error,
) error {
	for failure, err := range feed.Failures(waiting, ctx, h.submitter) {
		switch {
		case errors.Is(err, &fabrictype.EventsLostError{}):
			err = h.catchUp(ctx, stored.Add(-margin))
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
func (h *Hook) catchUp(ctx context.Context, since time.Time) error {
	index, err := h.session.Library("run search")
	if err != nil {
		return err
	}
	query := runsearch.Query{ClosedFrom: since, ByEnd: true, OldestFirst: true}
	for _, state := range []fabrictype.RunState{
		fabrictype.RunFailed, fabrictype.RunExpired, fabrictype.RunCancelled,
	} {
		query.States = append(query.States, recordstate.StoredRunState(state))
	}
	search, err := runsearch.New(ctx, h.session, index, query, "", runsearch.Batch)
	if err != nil {
		return fmt.Errorf("find runs: %w", err)
	}
	for {
		run, found, err := search.NextRun(ctx)
		if err != nil {
			return fmt.Errorf("find runs: %w", err)
		}
		if !found {
			return nil
		}
		id := enginecore.FlowID(run.FlowID)
		if run.State == fabrictype.RunCancelled && !h.submitter.CleanupFailed(ctx, id, run.FailedNode) {
			continue
		}
		known := &submit.RunFailure{Flow: run.Flow, Run: run.Run, Outcome: string(run.State), Node: run.FailedNode}
		if err := h.handle(ctx, submit.ReadKnownFailure(ctx, h.session, id, known)); err != nil {
			return err
		}
	}
}

// handle calls the function until it returns nil, and renews the hold in the meantime. The error is errLost or the
// error of ctx.
func (h *Hook) handle(ctx context.Context, failure *submit.RunFailure) error {
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
	for pause := retryPause; ; pause = min(2*pause, maxRetryPause) {
		err := h.callOnce(holding, failure)
		if holding.Err() != nil {
			return context.Cause(holding)
		}
		if err == nil {
			return nil
		}
		h.session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: OnRunFailed failed and is called again",
			observe.EventFailureHookFailed.Attr(), slog.String("worker", h.name), slog.String("flow", failure.Flow),
			slog.String("run", failure.Run), slog.Any("error", err))
		sleep.For(holding, pause)
	}
}

// renewUntil renews the hold until ctx ends, and ends it when the hold is lost.
func (h *Hook) renewUntil(ctx context.Context, end context.CancelCauseFunc) {
	last := time.Now()
	for sleep.For(ctx, h.hold/3); ctx.Err() == nil; sleep.For(ctx, h.hold/3) {
		reply, err := h.renew(ctx, "")
		switch {
		case err == nil && reply.Held:
			last = time.Now()
		case err == nil || time.Since(last) > h.hold:
			end(errLost)
		}
	}
}

// callOnce calls the function; a panic is an error.
func (h *Hook) callOnce(ctx context.Context, failure *submit.RunFailure) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return h.call(ctx, failure)
}
