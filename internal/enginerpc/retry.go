package enginerpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

type (
	message  = rueidis.RedisMessage
	commands = []rueidis.Completed
)

// verdict is the permitted reaction to a failed try.
type verdict uint8

const (
	giveUp verdict = iota
	tryAgain
	loadLibrary
)

const (
	firstPause = 2 * time.Millisecond
	maxPause   = 250 * time.Millisecond
	// A full server gets room when something is purged or an operator steps in, which takes longer.
	fullPause = time.Second
)

// send runs one call until it is answered, may not be repeated, or time is up.
func (conn *Conn) send(ctx context.Context, info callInfo, w *wire) (message, error) {
	if caller := callerOf(ctx); caller.Err() != nil {
		return message{}, fmt.Errorf("the engine was not called: %w", causeOf(caller))
	}
	return conn.sendAfter(ctx, info, w, nil)
}

// sendAfter works like send, for a call whose last try failed with before, if it is not nil.
func (conn *Conn) sendAfter(ctx context.Context, info callInfo, w *wire, before error) (message, error) {
	return conn.repeat(ctx, info, func() (message, error) {
		return conn.once(ctx, w)
	}, before)
}

// Repeat sends a command that is safe to repeat, until it is answered or time is up, as calls are sent again. It
// returns the same errors as calls.
func (conn *Conn) Repeat(ctx context.Context, command string, build func(rueidis.Builder) rueidis.Completed) error {
	if err := conn.connected(); err != nil {
		return err
	}
	_, err := conn.repeat(ctx, callInfo{name: command, repeatable: true}, func() (message, error) {
		return conn.client.Do(ctx, build(conn.client.B())).ToMessage()
	}, nil)
	return err
}

// repeat calls send until it is answered, may not be repeated, or time is up.
func (conn *Conn) repeat(
	ctx context.Context, info callInfo, send func() (message, error), before error,
) (message, error) {
	deadline := time.Now().Add(conn.retryFor)
	pause := firstPause
	loaded := false
	for {
		m, err := send()
		if err == nil {
			return m, nil
		}
		verdict, fault := judge(ctx, info, err)
		if verdict == loadLibrary && !loaded {
			err := conn.restoreLibrary(ctx)
			if err == nil {
				loaded = true
				continue
			}
			if fault = libraryGone(ctx, err); ctx.Err() == nil && errors.Is(fault, enginecore.ErrUnavailable) {
				verdict = tryAgain // the server that has lost it has just been restarted
			}
		}
		if before != nil && IsUnanswered(fault) {
			fault = withBefore(fault, before)
		}
		if verdict != tryAgain || time.Now().Add(pause).After(deadline) {
			return message{}, named(info.name, fault)
		}
		if !pauseFor(ctx, pause/2+rand.N(pause/2+1)) {
			return message{}, named(info.name, withBefore(endedContext(callerOf(ctx)), fault))
		}
		before = fault
		limit := maxPause
		if errors.Is(fault, enginecore.ErrFull) {
			limit = fullPause
		}
		pause = min(2*pause, limit)
	}
}

// withBefore adds the error of the previous try, which shows why the call took so long, to the error of a call whose
// context has ended. For a call with an unknown outcome it is text alone, so that the error does not match the previous
// error, whose outcome is known.
func withBefore(ended, before error) error {
	if errors.Is(ended, enginecore.ErrOutcomeUnknown) {
		return fmt.Errorf("%w; before that: %v", ended, before)
	}
	return fmt.Errorf("%w; before that: %w", ended, before)
}

// libraryGone is the error of a call whose function the server does not have, where the library could not be loaded.
func libraryGone(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; before that: its function is gone from the server", endedContext(ctx))
	case errors.Is(err, enginecore.ErrNotReachable):
		err = fmt.Errorf("%w: %w", enginecore.ErrUnavailable, err)
	}
	return fmt.Errorf("its function is gone from the server: %w", err)
}

// sleep waits and reports whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// pauseFor pauses before a call is sent again, and reports whether its caller still waits for it.
func pauseFor(ctx context.Context, d time.Duration) bool {
	o, ok := ctx.Value(outlastingKey{}).(*outlasting)
	if !ok {
		return sleep(ctx, d)
	}
	o.pausing.Store(true)
	return sleep(o.caller, d) && o.stop()
}

// notNow are beginnings of server errors by which nothing has happened.
var notNow = [...]string{
	"TRYAGAIN", "CLUSTERDOWN", loading, "MASTERDOWN", "BUSY ", "READONLY", "UNBLOCKED", "NOREPLICAS",
}

// loading begins the error of a server that is still reading its data.
const loading = "LOADING"

// ofReplica are beginnings of server errors that only a replica gives, or a primary that becomes one.
var ofReplica = [...]string{"READONLY", "MASTERDOWN", "UNBLOCKED"}

// IsReplicaError reports whether an error text of a server is one that only a replica gives.
func IsReplicaError(text string) bool { return hasPrefixOf(text, ofReplica[:]) }

// ErrReplica marks a connection that leads to a replica, which takes no writes and may have older data than its
// primary. Outside of clusters such a connection is not used.
var ErrReplica = fmt.Errorf("%w: the server is a replica, not the primary", enginecore.ErrUnavailable)

// unready is the error of a server that cannot serve at the moment. It wraps enginecore.ErrUnavailable.
type unready struct{ text string }

func (e *unready) Error() string { return enginecore.ErrUnavailable.Error() + ": " + e.text }

func (e *unready) Unwrap() error { return enginecore.ErrUnavailable }

// unreadyError returns an unready if the text of a server's error means that it cannot serve at the moment, else nil.
func unreadyError(text string) error {
	if hasPrefixOf(text, notNow[:]) || slices.ContainsFunc(slotMoving[:], func(s string) bool {
		return strings.Contains(text, s)
	}) {
		return &unready{text}
	}
	return nil
}

func hasPrefixOf(text string, beginnings []string) bool {
	return slices.ContainsFunc(beginnings, func(s string) bool { return strings.HasPrefix(text, s) })
}

// full are beginnings of server errors by which it takes in nothing for want of memory or of persistence. Servers check
// for both before a function begins and again before its first write, never after that.
var full = [...]string{"OOM ", "MISCONF "}

// fullError returns an error if the text of a server's error means that it takes no more data, else nil.
func fullError(text string) error {
	for _, s := range full {
		if strings.HasPrefix(text, s) {
			return &unavailable{fmt.Errorf("%w: %s", enginecore.ErrFull, text)}
		}
	}
	return nil
}

// unavailable matches enginecore.ErrUnavailable, which its text does not name, since the text is more specific.
type unavailable struct{ error }

func (e *unavailable) Unwrap() []error { return []error{e.error, enginecore.ErrUnavailable} }

// slotMoving are errors that the generated prologue provokes before the first write while a slot moves or the
// cluster is not whole.
var slotMoving = [...]string{
	"Script attempted to access a non local key in a cluster node",
	"undeclared keys were accessed during rehashing of the slot", // of Valkey where not all keys have arrived
	"Script attempted to execute a command while the cluster is down",
	"Script attempted to execute a write command while the cluster is down",
}

// classify turns an error of the client into the engine's error and decides whether to try again.
func classify(ctx context.Context, info callInfo, err error) (verdict, error) {
	verdict, fault := judge(ctx, info, err)
	return verdict, named(info.name, fault)
}

// named puts the name of a function or command before an error that does not have it.
func named(name string, err error) error {
	switch err.(type) {
	case *enginecore.ServerError, *enginecore.DecodeError:
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// judge is classify without the name of the function.
func judge(ctx context.Context, info callInfo, err error) (verdict, error) {
	if server, ok := rueidis.IsRedisErr(err); ok {
		return judgeReply(info, server.Error())
	}
	if rueidis.IsRedisNil(err) {
		return giveUp, &enginecore.DecodeError{Function: info.name, Field: "", Problem: "nil in place of an array"}
	}
	var op *net.OpError
	unsent := errors.As(err, &op) && op.Op == "dial"
	harmless := info.repeatable || info.readOnly || unsent
	if hasEnded(ctx, err) {
		ended := unanswered(ctx, err, harmless)
		if !harmless {
			ended = fmt.Errorf("%w: %w", enginecore.ErrOutcomeUnknown, ended)
		}
		return giveUp, ended
	}
	closed := errors.Is(err, rueidis.ErrClosing)
	switch {
	case closed && harmless:
		return giveUp, &unavailable{enginecore.ErrClosed}
	case closed:
		return giveUp, fmt.Errorf("%w: %w", enginecore.ErrOutcomeUnknown, enginecore.ErrClosed)
	case harmless:
		return tryAgain, fmt.Errorf("%w: %w", enginecore.ErrUnavailable, err)
	}
	return giveUp, fmt.Errorf("%w: %w", enginecore.ErrOutcomeUnknown, err)
}

// judgeReply judges a call by the text of the server's error reply.
func judgeReply(info callInfo, text string) (verdict, error) {
	if err := unreadyError(text); err != nil {
		return tryAgain, err
	}
	if err := fullError(text); err != nil {
		return tryAgain, err
	}
	if strings.HasPrefix(text, "Function not found") {
		return loadLibrary, &enginecore.ServerError{Function: info.name, Message: text}
	}
	if IsUnauthorized(text) {
		return giveUp, fmt.Errorf("%w: %s", enginecore.ErrUnauthorized, text)
	}
	return giveUp, &enginecore.ServerError{Function: info.name, Message: text}
}

// CommandError classifies the error of a command that only reads or is safe to repeat, like the error of such a call.
func CommandError(ctx context.Context, command string, err error) error {
	if err == nil {
		return nil
	}
	_, wrapped := classify(ctx, callInfo{name: command, repeatable: true}, err)
	return wrapped
}

// IsUnauthorized reports whether an error text of a server refuses a login or a right.
func IsUnauthorized(text string) bool {
	return strings.HasPrefix(text, "NOAUTH") || strings.HasPrefix(text, "WRONGPASS") ||
		strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "ACL failure in script") || // Valkey
		strings.HasPrefix(text, "The user executing the script can't") || // Redis
		strings.Contains(text, "invalid password") ||
		strings.HasPrefix(text, "AUTH <password> called without any password")
}

// WhileUnready repeats do while its error means that a server is not ready: it loads its data, runs a long script, is a
// replica, or belongs to a cluster that is not whole. It ends when ctx does; without a deadline of ctx also after
// Options.RetryFor, unless a server loads, which ends by itself. Each time that it begins to wait, a line is logged.
func WhileUnready(ctx context.Context, o Options, do func() error) error {
	begun, pause := time.Now(), firstPause
	var before error
	for {
		err := do()
		if err == nil || !isUnready(err) && ctx.Err() == nil {
			return err
		}
		if !isUnready(err) && before != nil {
			return withBefore(endedContext(ctx), before)
		}
		if !isUnready(err) || ctx.Err() != nil {
			return err
		}
		deadline, bounded := ctx.Deadline()
		if !bounded {
			deadline = begun.Add(cmp.Or(o.RetryFor, defaultRetryFor))
		}
		if time.Now().Add(pause).After(deadline) && (bounded || !isLoading(err)) {
			return err
		}
		if before == nil && o.Logger != nil {
			o.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the server is not ready yet, and the program waits for it",
				slog.String("event", "server.unready"), slog.Any("error", err))
		}
		before = err
		if !sleep(ctx, pause) {
			return withBefore(endedContext(ctx), err)
		}
		pause = min(2*pause, maxPause)
	}
}

func isUnready(err error) bool {
	_, unready := errors.AsType[*unready](err)
	return unready || errors.Is(err, ErrReplica)
}

func isLoading(err error) bool {
	found, ok := errors.AsType[*unready](err)
	return ok && strings.HasPrefix(found.text, loading)
}
