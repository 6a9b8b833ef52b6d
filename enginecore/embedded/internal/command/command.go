package command

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// Call is one command as it runs.
type Call struct {
	*keyspace.Store
	Args []string // Args[0] is the name as the caller spelled it
	// Script reports that a function runs the command.
	Script bool
	// CanWait reports that the caller can wait when the command sets Waits.
	CanWait bool
	// Waits is set by a command whose reply has to wait for a stream to grow.
	Waits *StreamRead
}

// Command is an entry of the table of commands.
type Command struct {
	Name  string // lower case
	Arity int    // words with the name; negative: at least that many
	Flags Flags
	Run   func(c *Call) resp.Reply
}

// Flags state when a command may run.
type Flags uint8

// The flags of a command.
const (
	Write    Flags = 1 << iota // may change data
	NoScript                   // not callable from functions
	Session                    // needs a connection
	NoMulti                    // runs at once even inside MULTI
	AnyTime                    // has nothing to do with data: runs while calls are refused
	PubSub                     // allowed to a RESP2 connection with subscriptions
)

// Texts of errors, without their code.
const (
	TextNotInt   = "value is not an integer or out of range"
	TextSyntax   = "syntax error"
	textOverflow = "increment or decrement would overflow"
)

// All returns the commands on data.
func All() []Command {
	return slices.Concat(stringCommands(), keyCommands(), hashCommands(), setCommands(), listCommands(), zsetCommands(),
		streamCommands())
}

// ArityOK reports whether a call may have that number of words, with the name.
func (cmd *Command) ArityOK(words int) bool {
	return words == cmd.Arity || cmd.Arity < 0 && words >= -cmd.Arity
}

// WrongArity is the reply to a call with another number of words.
func (cmd *Command) WrongArity() resp.Reply {
	return resp.Err("wrong number of arguments for '" + cmd.Name + "' command")
}

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

// wrongTypeReply is the reply for a key of another type.
func wrongTypeReply() resp.Reply { return resp.Error(wrongType) }

// addInt adds two integers; ok is false on overflow.
func addInt(a, b int64) (int64, bool) {
	sum := a + b
	return sum, (sum > a) == (b > 0) || b == 0
}

// rangeBounds turns inclusive indexes, negative from the end, into a half-open range of n items.
func rangeBounds(start, stop int64, n int) (lo, hi int) {
	if start < 0 {
		start += int64(n)
	}
	if stop < 0 {
		stop += int64(n)
	}
	start = max(start, 0)
	stop = min(stop, int64(n)-1)
	if start > stop {
		return 0, 0
	}
	return int(start), int(stop) + 1
}

// Is reports whether an option word equals name, which is upper case.
func Is(word, name string) bool { return len(word) == len(name) && strings.EqualFold(word, name) }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// deadline turns an expiry argument into Unix ms. unit is 1 for ms and 1000 for seconds; relative ones are added to
// now.
func (c *Call) deadline(arg string, unit int64, relative bool) (int64, resp.Reply, bool) {
	v, ok := numfmt.ParseInt(arg)
	if !ok {
		return 0, resp.Err(TextNotInt), false
	}
	bad := resp.Err("invalid expire time in '" + strings.ToLower(c.Args[0]) + "' command")
	if unit == 1000 {
		if v > math.MaxInt64/1000 || v < math.MinInt64/1000 {
			return 0, bad, false
		}
		v *= 1000
	}
	if relative {
		if v > math.MaxInt64-c.NowMs {
			return 0, bad, false
		}
		v += c.NowMs
	}
	return v, resp.Reply{}, true
}
