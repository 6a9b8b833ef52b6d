package embedded

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// chunkName is what error positions call the source of a library.
const chunkName = "user_function"

// luaEngine is the one persistent Lua state. The gate guards it.
type luaEngine struct {
	e         *Engine
	L         *lua.LState
	libraries map[string]*library
	functions map[string]*function
	budget    scriptBudget

	// globals is the environment of library code: empty and read-only, it resolves names in loadScope while a library
	// loads and in runScope afterwards.
	globals, globalsMeta *lua.LTable
	loadScope, runScope  *lua.LTable
	// protected are the read-only tables, with the real one behind each.
	protected map[*lua.LTable]*lua.LTable
	null      *lua.LUserData
	loading   *library
	handler   *lua.LFunction

	// The function that runs.
	call     call
	args     []string
	readOnly bool
	wrote    bool
	running  string
}

type library struct {
	name, code string
	functions  []*function
}

type function struct {
	name, description string
	flags             []string
	noWrites          bool
	callback          *lua.LFunction
}

func newLuaEngine(e *Engine, limit time.Duration) *luaEngine {
	l := &luaEngine{
		e:         e,
		libraries: map[string]*library{},
		functions: map[string]*function{},
		protected: map[*lua.LTable]*lua.LTable{},
	}
	l.L = lua.NewState(lua.Options{
		SkipOpenLibs: true,
		// unpack of thousands of values and deep recursion work as they do on a server.
		RegistrySize:     16 << 10,
		RegistryMaxSize:  256 << 10,
		RegistryGrowStep: 16 << 10,
		CallStackSize:    4 << 10,
	})
	l.call = call{Call: command.Call{Store: &e.store, Script: true}, e: e}
	l.budget = scriptBudget{l: l, limit: limit}
	l.null = l.L.NewUserData()
	l.openLibraries()
	l.L.SetContext(&l.budget)
	return l
}

func (l *luaEngine) close() { l.L.Close() }

// run calls a function and returns its reply.
func (l *luaEngine) run(fn *function, keys, args []string) resp.Reply {
	L := l.L
	l.readOnly, l.wrote, l.running = fn.noWrites, false, fn.name
	L.Push(fn.callback)
	L.Push(l.strings(keys))
	L.Push(l.strings(args))
	l.budget.begin()
	err := L.PCall(2, 1, nil)
	l.budget.end()
	if err != nil {
		return l.failed(err)
	}
	v := L.Get(-1)
	L.SetTop(0)
	reply, ok := l.toReply(v, 0)
	if !ok {
		return resp.Err("reached lua stack limit")
	}
	return reply
}

func (l *luaEngine) strings(items []string) *lua.LTable {
	t := l.L.CreateTable(len(items), 0)
	for i, s := range items {
		t.RawSetInt(i+1, lua.LString(s))
	}
	return t
}

// failed turns an error of the running function into its reply.
func (l *luaEngine) failed(err error) resp.Reply {
	l.L.SetTop(0)
	text, where := l.describe(err)
	if where != "" {
		text += " script: " + l.running + ", on @" + where + "."
	}
	return resp.Error(text)
}

// describe returns the text of a Lua error, which begins with a code, and "user_function:LINE" when that is known.
func (l *luaEngine) describe(err error) (text, where string) {
	ae, ok := err.(*lua.ApiError)
	if !ok {
		return "ERR " + err.Error(), ""
	}
	if i := strings.Index(ae.StackTrace, chunkName+":"); i >= 0 {
		where = ae.StackTrace[i:]
		end := len(chunkName) + 1
		for end < len(where) && numfmt.IsDigit(where[end]) {
			end++
		}
		where = where[:end]
	}
	if t, ok := ae.Object.(*lua.LTable); ok {
		switch v := t.RawGetString("err").(type) {
		case lua.LString:
			return string(v), where
		case lua.LNumber:
			return numfmt.FormatG14(float64(v)), where
		}
		return "ERR unknown error", where
	}
	return "ERR " + l.tostring(ae.Object), where
}

// raise throws a Lua error with the position of the Lua code that called the running Go function. It does not go through
// the state's own RaiseError, which would cut locals of all outer functions off from the closures that share them.
func raise(L *lua.LState, obj lua.LValue) {
	where := L.Where(1)
	if where == "" {
		where = "?"
	}
	panic(&lua.ApiError{Type: lua.ApiErrorRun, Object: obj, StackTrace: where})
}

// raiseText throws a text with its position in front.
func raiseText(L *lua.LState, text string) {
	raise(L, lua.LString(position(L, 1)+text))
}

// position is "user_function:LINE: " for the caller at a level, or empty for Go code.
func position(L *lua.LState, level int) string {
	if where := L.Where(level); strings.HasPrefix(where, chunkName) {
		return where + " "
	}
	return ""
}

func (l *luaEngine) errorTable(text string) *lua.LTable {
	t := l.L.CreateTable(0, 2)
	t.RawSetString("err", lua.LString(text))
	return t
}

// redisCall implements redis.call and, when protected, redis.pcall.
func (l *luaEngine) redisCall(L *lua.LState, protected bool) int {
	reply, fault := l.command(L)
	if fault != "" {
		t := l.errorTable("ERR " + fault)
		if !protected {
			raise(L, t)
		}
		L.Push(t)
		return 1
	}
	if reply.Kind == resp.KindError {
		t := l.errorTable(reply.Str)
		t.RawSetString("ignore_error_stats_update", lua.LTrue)
		if !protected {
			raise(L, t)
		}
		L.Push(t)
		return 1
	}
	L.Push(l.fromReply(&reply))
	return 1
}

// command runs the command on the Lua stack. A fault is a misuse that the command itself never saw.
func (l *luaEngine) command(L *lua.LState) (reply resp.Reply, fault string) {
	l.budget.spend(64)
	n := L.GetTop()
	if n == 0 {
		return resp.Reply{}, "Please specify at least one argument for this redis lib call"
	}
	args := l.args[:0]
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			args = append(args, string(v))
		case lua.LNumber:
			args = append(args, numfmt.FormatNumber(float64(v)))
		default:
			return resp.Reply{}, "Lua redis lib command arguments must be strings or integers"
		}
	}
	l.args = args
	cmd := l.e.command(args[0])
	switch {
	case cmd == nil:
		return resp.Reply{}, "Unknown Redis command called from script"
	case !cmd.ArityOK(n):
		return resp.Reply{}, "Wrong number of args calling Redis command from script"
	case cmd.Flags&command.NoScript != 0:
		return resp.Reply{}, "This Redis command is not allowed from script"
	case cmd.Flags&command.Write != 0 && l.readOnly:
		return resp.Reply{}, "Write commands are not allowed from read-only scripts."
	}
	l.call.Args = args
	reply = l.e.run(&l.call, cmd)
	if cap(l.args) > 4096 {
		l.args = nil
	}
	return reply, ""
}

// registerRedis fills the table "redis" of running functions and of loading libraries.
func (l *luaEngine) registerRedis(run, load *lua.LTable) {
	L := l.L
	both := func(name string, v lua.LValue) {
		run.RawSetString(name, v)
		load.RawSetString(name, v)
	}
	run.RawSetString("call", L.NewFunction(func(L *lua.LState) int { return l.redisCall(L, false) }))
	run.RawSetString("pcall", L.NewFunction(func(L *lua.LState) int { return l.redisCall(L, true) }))
	run.RawSetString("sha1hex", L.NewFunction(l.redisSHA1))
	run.RawSetString("error_reply", L.NewFunction(func(L *lua.LState) int {
		text, ok := oneString(L)
		if !ok {
			L.Push(l.errorTable("ERR wrong number or type of arguments"))
			return 1
		}
		L.Push(l.errorTable(errorReplyText(text)))
		return 1
	}))
	run.RawSetString("status_reply", L.NewFunction(func(L *lua.LState) int {
		text, ok := oneString(L)
		if !ok {
			L.Push(l.errorTable("ERR wrong number or type of arguments"))
			return 1
		}
		t := L.CreateTable(0, 1)
		t.RawSetString("ok", lua.LString(text))
		L.Push(t)
		return 1
	}))
	run.RawSetString("setresp", L.NewFunction(func(L *lua.LState) int {
		if v, ok := L.Get(1).(lua.LNumber); L.GetTop() != 1 || !ok || v != 2 {
			raise(L, l.errorTable("ERR RESP version must be 2."))
		}
		return 0
	}))
	both("log", L.NewFunction(l.redisLog))
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		both(name, lua.LNumber(i))
	}
	both("REDIS_VERSION", lua.LString(serverVersion))
	both("REDIS_VERSION_NUM", lua.LNumber(serverVersionNum))
	load.RawSetString("register_function", L.NewFunction(l.registerFunction))
}

// oneString returns the only argument if it is a string or number.
func oneString(L *lua.LState) (string, bool) {
	if L.GetTop() != 1 {
		return "", false
	}
	s, ok := L.Get(1).(lua.LString)
	return string(s), ok
}

// errorReplyText gives a text without a code the general one.
func errorReplyText(text string) string {
	text = strings.TrimPrefix(text, "-")
	code, msg, ok := strings.Cut(text, " ")
	if !ok {
		return "ERR " + strings.Trim(text, "\r\n")
	}
	return code + " " + strings.Trim(msg, "\r\n")
}

func (l *luaEngine) redisSHA1(L *lua.LState) int {
	if L.GetTop() != 1 {
		raise(L, l.errorTable("ERR wrong number of arguments"))
	}
	sum := sha1.Sum([]byte(l.toText(L.Get(1))))
	L.Push(lua.LString(hex.EncodeToString(sum[:])))
	return 1
}

func (l *luaEngine) redisLog(L *lua.LState) int {
	if L.GetTop() < 2 {
		raise(L, l.errorTable("ERR redis.log() requires two arguments or more."))
	}
	level, ok := L.Get(1).(lua.LNumber)
	if !ok {
		raise(L, l.errorTable("ERR First argument must be a number (log level)."))
	}
	if level < 0 || level > 3 {
		raise(L, l.errorTable("ERR Invalid debug level."))
	}
	var parts []string
	for i := 2; i <= L.GetTop(); i++ {
		parts = append(parts, l.toText(L.Get(i)))
	}
	log := l.e.logger.Debug
	switch level {
	case 2:
		log = l.e.logger.Info
	case 3:
		log = l.e.logger.Warn
	}
	log(strings.Join(parts, " "), "function", l.running)
	return 0
}

// scriptBudget is the state's context. The state asks it for Done before every instruction, which makes it a clock for
// functions that never end: the channel that it returns is closed only to interrupt.
type scriptBudget struct {
	l     *luaEngine
	limit time.Duration

	spent   int
	start   time.Time
	warned  bool
	stopped chan struct{} // nil, or closed once the function has been interrupted
}

// budgetStep is the number of instructions between two checks of the clock.
const budgetStep = 8192

func (b *scriptBudget) begin() {
	b.spent, b.start, b.warned, b.stopped = 0, time.Time{}, false, nil
}

func (b *scriptBudget) end() { b.stopped = nil }

func (b *scriptBudget) spend(n int) { b.spent += n }

// Done implements context.Context. The interpreter asks it between instructions.
func (b *scriptBudget) Done() <-chan struct{} {
	if b.spent++; b.spent < budgetStep {
		return b.stopped
	}
	b.spent = 0
	b.check()
	return b.stopped
}

// check measures from its first call, some microseconds into the function.
func (b *scriptBudget) check() {
	now := time.Now()
	if b.start.IsZero() {
		b.start = now
		return
	}
	if b.warned || now.Sub(b.start) < b.limit {
		return
	}
	b.warned = true
	if b.l.wrote {
		b.l.e.logger.Warn("embedded: function runs too long and has written, so it goes on", "function", b.l.running, "limit", b.limit)
		return
	}
	b.l.e.logger.Warn("embedded: function ran too long and was interrupted", "function", b.l.running, "limit", b.limit)
	b.stopped = make(chan struct{})
	close(b.stopped)
}

func (b *scriptBudget) interrupted() bool { return b.stopped != nil }

// Err implements context.Context: why the script was stopped.
func (b *scriptBudget) Err() error {
	if b.stopped != nil {
		return errTimeout
	}
	return nil
}

// Deadline implements context.Context.
func (b *scriptBudget) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (b *scriptBudget) Value(any) any { return nil }

var errTimeout = errors.New("script timed out")

var _ context.Context = (*scriptBudget)(nil)
