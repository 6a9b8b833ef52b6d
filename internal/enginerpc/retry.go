package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

type (
	message  = rueidis.RedisMessage
	commands = []rueidis.Completed
)

// verdict says what may follow a failed try.
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
	if err := ctx.Err(); err != nil {
		return message{}, fmt.Errorf("%s: not sent: %w", info.name, err)
	}
	deadline := time.Now().Add(conn.retryFor)
	pause := firstPause
	loaded := false
	var before error // of the last try that the server refused
	for {
		m, err := conn.client.Do(ctx, w.command(conn.client.B())).ToMessage()
		if err == nil {
			return m, nil
		}
		verdict, wrapped := classify(info, err)
		if verdict == loadLibrary && !loaded {
			loaded = true
			if err := conn.restoreLibrary(ctx); err != nil {
				if errors.Is(err, enginecore.ErrNotReachable) {
					err = fmt.Errorf("%w: %w", enginecore.ErrUnavailable, err)
				}
				return message{}, fmt.Errorf("%s: its function is gone from the server: %w", info.name, err)
			}
			continue
		}
		if ctx.Err() != nil && before != nil && !errors.Is(wrapped, before) {
			// The caller's time is up. What kept the call until then says more.
			return message{}, fmt.Errorf("%w; before that: %w", wrapped, before)
		}
		if verdict != tryAgain || time.Now().Add(pause).After(deadline) {
			return message{}, wrapped
		}
		if !sleep(ctx, pause/2+rand.N(pause/2+1)) {
			return message{}, wrapped
		}
		limit := maxPause
		if errors.Is(wrapped, enginecore.ErrFull) {
			before, limit = enginecore.ErrFull, fullPause
		}
		pause = min(2*pause, limit)
	}
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

// notNow are beginnings of server errors by which nothing has happened.
var notNow = [...]string{"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "BUSY ", "READONLY", "NOREPLICAS"}

// full are beginnings of server errors by which it takes in nothing for want of memory or of persistence. Servers check
// for both before a function begins and again before its first write, never after that.
var full = [...]string{"OOM ", "MISCONF "}

// fullError is the error of a server that says so, or nil.
func fullError(text string) error {
	for _, s := range full {
		if strings.HasPrefix(text, s) {
			return fmt.Errorf("%w: %w: %s", enginecore.ErrFull, enginecore.ErrUnavailable, text)
		}
	}
	return nil
}

// slotMoving are errors that the generated prologue provokes before the first write while a slot moves or the
// cluster is not whole.
var slotMoving = [...]string{
	"Script attempted to access a non local key in a cluster node",
	"undeclared keys were accessed during rehashing of the slot", // what Valkey says where not all keys have arrived
	"Script attempted to execute a command while the cluster is down",
	"Script attempted to execute a write command while the cluster is down",
}

// classify turns an error of the client into the engine's error and says whether to go on.
func classify(info callInfo, err error) (verdict, error) {
	if server, ok := rueidis.IsRedisErr(err); ok {
		text := server.Error()
		for _, s := range notNow {
			if strings.HasPrefix(text, s) {
				return tryAgain, fmt.Errorf("%s: %w: %s", info.name, enginecore.ErrUnavailable, text)
			}
		}
		if err := fullError(text); err != nil {
			return tryAgain, fmt.Errorf("%s: %w", info.name, err)
		}
		for _, s := range slotMoving {
			if strings.Contains(text, s) {
				return tryAgain, fmt.Errorf("%s: %w: %s", info.name, enginecore.ErrUnavailable, text)
			}
		}
		if strings.HasPrefix(text, "Function not found") {
			return loadLibrary, &enginecore.ServerError{Function: info.name, Message: text}
		}
		if unauthorized(text) {
			return giveUp, fmt.Errorf("%s: %w: %s", info.name, enginecore.ErrUnauthorized, text)
		}
		return giveUp, &enginecore.ServerError{Function: info.name, Message: text}
	}
	if rueidis.IsRedisNil(err) {
		return giveUp, &enginecore.DecodeError{Function: info.name, Field: "", Problem: "nil in place of an array"}
	}
	if errors.Is(err, rueidis.ErrClosing) {
		if info.repeatable || info.readOnly {
			return giveUp, fmt.Errorf("%s: %w: %w: %w", info.name, enginecore.ErrUnavailable, enginecore.ErrClosed, err)
		}
		return giveUp, fmt.Errorf("%s: %w: %w: %w", info.name, enginecore.ErrOutcomeUnknown, enginecore.ErrClosed, err)
	}
	var op *net.OpError
	unsent := errors.As(err, &op) && op.Op == "dial"
	if info.repeatable || info.readOnly || unsent {
		return tryAgain, fmt.Errorf("%s: %w: %w", info.name, enginecore.ErrUnavailable, err)
	}
	return giveUp, fmt.Errorf("%s: %w: %w", info.name, enginecore.ErrOutcomeUnknown, err)
}

// CommandError classifies the error of a command that only reads or is safe to repeat, as those of such calls are.
func CommandError(command string, err error) error {
	if err == nil {
		return nil
	}
	_, wrapped := classify(callInfo{name: command, repeatable: true}, err)
	return wrapped
}

func unauthorized(text string) bool {
	return strings.HasPrefix(text, "NOAUTH") || strings.HasPrefix(text, "WRONGPASS") ||
		strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "ACL failure in script") || // Valkey
		strings.HasPrefix(text, "The user executing the script can't") || // Redis
		strings.Contains(text, "invalid password") ||
		strings.HasPrefix(text, "AUTH <password> called without any password")
}
