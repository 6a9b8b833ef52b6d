package script

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// redisCall implements redis.call and, when protected, redis.pcall.
func (l *Interpreter) redisCall(L *lua.LState, protected bool) int {
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
func (l *Interpreter) command(L *lua.LState) (reply resp.Reply, fault string) {
	l.budget.spend(commandCost)
	if l.budget.interrupted() {
		raiseText(L, errTimeout.Error())
	}
	if l.meter != nil {
		l.meter.Command()
	}
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
	reply, wrote, fault := l.host.Call(args, l.readOnly)
	l.wrote = l.wrote || wrote
	if cap(l.args) > 4096 {
		l.args = nil
	}
	return reply, fault
}

// registerRedis fills the table "redis" of running functions and of loading libraries.
func (l *Interpreter) registerRedis(o Options, run, load *lua.LTable) {
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
	both("REDIS_VERSION", lua.LString(o.Version))
	both("REDIS_VERSION_NUM", lua.LNumber(o.VersionNumber))
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

func (l *Interpreter) redisSHA1(L *lua.LState) int {
	if L.GetTop() != 1 {
		raise(L, l.errorTable("ERR wrong number of arguments"))
	}
	sum := sha1.Sum([]byte(l.toText(L.Get(1))))
	L.Push(lua.LString(hex.EncodeToString(sum[:])))
	return 1
}

func (l *Interpreter) redisLog(L *lua.LState) int {
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
	log := l.logger.Debug
	switch level {
	case 2:
		log = l.logger.Info
	case 3:
		log = l.logger.Warn
	}
	log(strings.Join(parts, " "), "event", "function.log", "function", l.running)
	return 0
}
