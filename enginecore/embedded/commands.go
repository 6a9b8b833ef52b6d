package embedded

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// call is one command as it runs.
type call struct {
	*keyspace.Store
	e    *Engine
	args []string // args[0] is the name as the caller spelled it
	sess *session // nil outside of connections
	// script reports that a function runs the command.
	script bool
}

type command struct {
	name  string // lower case
	arity int    // words with the name; negative: at least that many
	flags commandFlags
	run   func(c *call) resp.Reply
}

// boundCommand is a command of one engine, with its statistics for INFO.
type boundCommand struct {
	command
	calls int64
	spent time.Duration // as a unit of its own, not within functions and transactions
}

type commandFlags uint8

const (
	cmdWrite    commandFlags = 1 << iota // may change data
	cmdNoScript                          // not callable from functions
	cmdSession                           // needs a connection
	cmdNoMulti                           // runs at once even inside MULTI
	cmdFunction                          // runs a function, which may or may not write
	cmdAnyTime                           // has nothing to do with data: runs while calls are refused
)

var (
	errScriptTimeout = errors.New("script timed out")
)

const (
	textNotInt   = "value is not an integer or out of range"
	textSyntax   = "syntax error"
	textOverflow = "increment or decrement would overflow"
)

// commandTable returns all commands by name in both usual spellings, so that finding one costs a single look-up.
func commandTable() map[string]*boundCommand {
	t := make(map[string]*boundCommand, 256)
	for _, group := range [][]command{
		stringCommands(), keyCommands(), hashCommands(), setCommands(), listCommands(), zsetCommands(),
		streamCommands(), serverCommands(), pubsubCommands(), functionCommands(),
	} {
		for i := range group {
			cmd := &boundCommand{command: group[i]}
			t[cmd.name] = cmd
			t[strings.ToUpper(cmd.name)] = cmd
		}
	}
	return t
}

func (e *Engine) command(name string) *boundCommand { return lookup(e.commands, name) }

// lookup finds a command by its name in any spelling.
func lookup(commands map[string]*boundCommand, name string) *boundCommand {
	if cmd, ok := commands[name]; ok {
		return cmd
	}
	return commands[strings.ToLower(name)]
}

func (cmd *command) arityOK(words int) bool {
	return words == cmd.arity || cmd.arity < 0 && words >= -cmd.arity
}

func (cmd *command) wrongArity() resp.Reply {
	return resp.Err("wrong number of arguments for '" + cmd.name + "' command")
}

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

// wrongTypeReply is the reply for a key of another type.
func wrongTypeReply() resp.Reply { return resp.Error(wrongType) }

// intArg reads an integer argument.
func intArg(s string) (int64, bool) { return numfmt.ParseInt(s) }

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

// is reports whether an option word equals name, which is upper case.
func is(word, name string) bool { return len(word) == len(name) && strings.EqualFold(word, name) }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// deadline turns an expiry argument into Unix ms. unit is 1 for ms and 1000 for seconds; relative ones are added to now.
func (c *call) deadline(arg string, unit int64, relative bool) (int64, resp.Reply, bool) {
	v, ok := intArg(arg)
	if !ok {
		return 0, resp.Err(textNotInt), false
	}
	bad := resp.Err("invalid expire time in '" + strings.ToLower(c.args[0]) + "' command")
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
