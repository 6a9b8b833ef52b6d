package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// errUnanswered marks errors of calls to which no answer came before the context of their caller ended.
var errUnanswered = errors.New("not answered before the context ended")

// IsUnanswered reports whether a call or command failed because its context ended before an answer came. Whether the
// engine is available is not known then.
func IsUnanswered(err error) bool { return errors.Is(err, errUnanswered) }

// Unanswered returns the error of a command that ctx ended: it wraps the cause of ctx, and also
// enginecore.ErrUnavailable if err has another reason than the end of ctx. It returns nil if err is a reply of the
// server, or ctx has not ended.
func Unanswered(ctx context.Context, err error) error {
	if _, replied := rueidis.IsRedisErr(err); replied || !hasEnded(ctx, err) {
		return nil
	}
	return unanswered(ctx, err, true)
}

// unanswered returns the error of a call whose context has ended. err is the client's error, which is left out where it
// has the same reason. harmless means that the call may be repeated, so that other errors mean that the engine is
// unavailable.
func unanswered(ctx context.Context, err error, harmless bool) error {
	ended := endedContext(ctx)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, os.ErrDeadlineExceeded):
		return ended
	case errors.Is(err, rueidis.ErrClosing):
		err = enginecore.ErrClosed
	}
	if harmless {
		return fmt.Errorf("%w; before that: %w: %w", ended, enginecore.ErrUnavailable, err)
	}
	return fmt.Errorf("%w; before that: %w", ended, err)
}

// hasEnded reports whether the context of a call that failed with err has ended. The client sets the deadline of ctx on
// the connection, too, whose timer may be the first to fire.
func hasEnded(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	if !ok || time.Now().Before(deadline) || !late {
		return false
	}
	<-ctx.Done()
	return true
}

// endedContext returns the error of a call whose context has ended.
func endedContext(ctx context.Context) error {
	return fmt.Errorf("%w: %w", errUnanswered, causeOf(ctx))
}

// causeOf returns the cause of a context that has ended, which also matches ctx.Err().
func causeOf(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return &contextCause{cause, ctx.Err()}
}

// contextCause is the cause of a context's end, with the error of the context.
type contextCause struct {
	error
	ended error
}

func (e *contextCause) Unwrap() []error { return []error{e.error, e.ended} }

// answerPatience is how long a call that leases executions waits for its reply after its caller has left.
const answerPatience = 5 * time.Second

// UntilAnswered makes a call that may lease executions to this process. If ctx ends while the server has the call,
// UntilAnswered returns the cause, and the call still waits for its reply: without it, an execution that is leased to
// the process would wait until its lease expires. Once ctx has ended, the call is not sent again.
func UntilAnswered[R any](ctx context.Context, send func(context.Context) (R, error)) (R, error) {
	if ctx.Done() == nil {
		return send(ctx)
	}
	type answer struct {
		reply R
		err   error
	}
	answers := make(chan answer, 1)
	longer, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	sending := &outlasting{Context: longer, caller: ctx}
	go func() {
		defer giveUp(nil)
		reply, err := send(sending)
		answers <- answer{reply, err}
	}()
	select {
	case a := <-answers:
		return a.reply, a.err
	case <-ctx.Done():
		if sending.stop() {
			a := <-answers
			return a.reply, a.err
		}
		cause := context.Cause(ctx)
		time.AfterFunc(answerPatience, func() { giveUp(cause) })
		var none R
		return none, cause
	}
}

// outlasting is the context of a call that may wait for its reply longer than its caller.
type outlasting struct {
	context.Context
	caller  context.Context //nolint:containedctx // this is a context
	pausing atomic.Bool     // the server does not have the call, which will be sent again
}

// outlastingKey is the key of an outlasting among the values of contexts that derive from it.
type outlastingKey struct{}

// Value implements context.Context.
func (o *outlasting) Value(key any) any {
	if key == (outlastingKey{}) {
		return o
	}
	return o.Context.Value(key)
}

// stop keeps a call that pauses from being sent again, and reports whether it pauses.
func (o *outlasting) stop() bool { return o.pausing.CompareAndSwap(true, false) }

// callerOf returns the context of the caller of a call: no call is sent once it has ended.
func callerOf(ctx context.Context) context.Context {
	if o, ok := ctx.Value(outlastingKey{}).(*outlasting); ok {
		return o.caller
	}
	return ctx
}
