package enginerpc

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// Status is the second element of a successful reply.
type Status string

// replyForm is the envelope of a function's replies.
type replyForm uint8

const (
	formStandard replyForm = iota // an integer, then status and values
	formBare                      // status and values
	formRaw                       // one string
)

// callInfo has the properties of a function that the connection needs.
type callInfo struct {
	name       string
	readOnly   bool // writes nothing
	repeatable bool // safe to send again with the same arguments
	open       bool // replies may have further values, added by a newer library
	form       replyForm
}

// Call is one call of a library function with its arguments; R is its reply. The generated …Call types
// implement it, and no others can.
type Call[R any] interface {
	info() callInfo
	encode(*wire)
	decode(*fields) R
}

// FunctionName is the name of the library function that a call runs.
func FunctionName[R any](c Call[R]) string { return c.info().name }

// Wire returns the function's name, KEYS and ARGV of a call, as they are sent. It is meant for tests and
// diagnostics.
func Wire[R any](k Keys, c Call[R]) (function string, keys, args []string, err error) {
	w, err := encodeInline(k, c)
	return w.name, w.list, w.args, err
}

// encodeInline encodes a call whose arguments have all values, however large.
func encodeInline[R any](k Keys, c Call[R]) (*wire, error) {
	return encodeTo(&wire{keys: k, name: c.info().name, inline: true}, c)
}

func encodeTo[R any](w *wire, c Call[R]) (*wire, error) {
	c.encode(w)
	return w, w.err
}

// wirePool keeps wires whose calls are over, so that a call needs no new lists of keys and arguments.
type wirePool struct{ pool sync.Pool }

// maxPooledArgs bounds the lists that are kept for calls to come. Longer lists belong to rare large calls.
const maxPooledArgs = 1024

func (p *wirePool) get(k Keys, function string, partitions int) *wire {
	w, _ := p.pool.Get().(*wire)
	if w == nil {
		w = new(wire)
	}
	w.keys, w.name, w.partitions = k, function, partitions
	return w
}

// put takes back a wire that is no longer in use.
func (p *wirePool) put(w *wire) {
	if cap(w.list) > maxPooledArgs || cap(w.args) > maxPooledArgs {
		return
	}
	clear(w.list)
	clear(w.args)
	clear(w.sent)
	*w = wire{list: w.list[:0], args: w.args[:0], sent: w.sent[:0]}
	p.pool.Put(w)
}

// Command builds the command of a call for use with the client directly, for example in a DoMulti together
// with plain commands. Such a call is neither retried nor is a missing library loaded. A command is used
// once, and the values of users in it stay as they are. Decode reads its result.
func Command[R any](conn *Conn, c Call[R]) (rueidis.Completed, error) {
	if err := conn.permit(c.info().name); err != nil {
		return rueidis.Completed{}, err
	}
	w, err := encodeInline(conn.keys, c)
	if err != nil {
		return rueidis.Completed{}, err
	}
	return w.command(conn.client.B()), nil
}

func (w *wire) command(b rueidis.Builder) rueidis.Completed {
	if len(w.list) == 0 {
		return b.Fcall().Function(w.name).Numkeys(0).Arg(w.args...).Build()
	}
	keys := w.list
	if len(keys) == 1 && strings.HasPrefix(w.name, compositePrefix) {
		// While a slot moves, a node that imports it would run a call with one key on the part of its data that has
		// arrived. It refuses one with two keys of which any is absent, and the call is sent again until the slot has
		// arrived.
		keys = append(keys, w.keys.execNoop(w.tag))
		w.list = keys[:1] // a wire that is used again has room for both
	}
	return b.Fcall().Function(w.name).Numkeys(int64(len(keys))).Key(keys...).Arg(w.args...).Build()
}

// Decode reads the result of a command that Command built from c.
func Decode[R any](ctx context.Context, c Call[R], result rueidis.RedisResult) (R, error) {
	info := c.info()
	m, err := result.ToMessage()
	if err != nil {
		var zero R
		_, err = classify(ctx, info, err)
		return zero, err
	}
	return decodeReply(info, m, c.decode)
}

// Do runs a call. The methods named after the calls use it.
//
// Where the server's error shows that nothing has happened yet (loading, failing over, moving the slot) the call is
// sent again after a short pause, and so it is after a broken connection if it only reads or is safe to repeat; the
// pauses grow to a quarter of a second and end with ctx or after Options.RetryFor. A library that the server has lost
// is loaded again. Errors are *Error for refusals, *CallError, *DecodeError, *ServerError, or wrap ErrUnavailable,
// ErrOutcomeUnknown, or ErrIncompatibleLibrary, after which Outdated is closed. Where ctx ended before an answer came,
// they wrap its cause, and ErrUnavailable only if an earlier try failed for another reason.
func Do[R any, C Call[R]](ctx context.Context, conn *Conn, c C) (R, error) {
	var zero R
	info := c.info()
	if err := conn.permit(info.name); err != nil {
		return zero, err
	}
	w := conn.wires.get(conn.keys, info.name, conn.partitioning.Flow)
	w.payloads = conn.payloads
	defer conn.wires.put(w)
	c.encode(w)
	if w.err != nil {
		return zero, w.err
	}
	if conn.contractOnly {
		if err := conn.enterLaneOf(ctx, c); err != nil {
			return zero, fmt.Errorf("the engine was not called: %w", err)
		}
	}
	before, err := conn.historyBefore(ctx, info, w)
	if err != nil {
		return zero, err
	}
	var reply R
	var claimed []ClaimedExecution
	for tries := 1; ; tries++ {
		m, err := conn.send(ctx, info, w)
		if err != nil {
			return zero, err
		}
		reply, claimed, err = readAll(ctx, conn, info, m, c.decode, w.sent)
		if err == nil && before != "" && wrote(reply) {
			if m, err = conn.replication.confirm(ctx, info, w, before, m); err != nil {
				return zero, err
			}
			reply, claimed, err = readAll(ctx, conn, info, m, c.decode, w.sent)
		}
		if err == nil {
			break
		}
		if err != errGone || tries == missingTries || !info.readOnly && !info.repeatable {
			return zero, named(info.name, err)
		}
	}
	if len(claimed) > 0 {
		err = conn.describe(ctx, claimed)
	}
	if err != nil {
		return zero, err
	}
	return reply, nil
}
