package script

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
	"github.com/flowfabric/flowfabric-go/internal/luameter"
)

// Host runs the commands that functions call.
type Host interface {
	// Call runs one command, whose words are args, and reports whether it changed data. args may be used until the next
	// call. fault is not empty when the command cannot be called at all; then it is the text of the error.
	Call(args []string, readOnly bool) (reply resp.Reply, wrote bool, fault string)
}

// Options configures New.
type Options struct {
	Host   Host
	Logger *slog.Logger
	// Random returns a number in [0, n). It is the source of math.random.
	Random func(n int) int
	// Timeout is how long a function may run until it is reported, and interrupted if it has written nothing.
	Timeout time.Duration
	// Version and VersionNumber are redis.REDIS_VERSION and redis.REDIS_VERSION_NUM.
	Version       string
	VersionNumber int
	// Meter counts the work of functions, which then run as they are written, without checks of their time. Defaults to
	// nil: nothing is counted.
	Meter *luameter.Meter
}

// Interpreter is one persistent Lua state with the libraries that were loaded into it. Only one goroutine may use it at
// a time.
type Interpreter struct {
	host      Host
	logger    *slog.Logger
	random    func(n int) int
	L         *lua.LState
	libraries map[string]*Library
	functions map[string]*Function
	budget    scriptBudget

	// globals is _G: empty and read-only, it resolves names in loadScope while a library loads and in runScope
	// afterwards.
	globals, globalsMeta *lua.LTable
	loadScope, runScope  *lua.LTable
	// env is the environment of code: globals with, while functions run, the names that prepare makes code read.
	env    *lua.LTable
	direct map[string]lua.LValue // those names
	// protected maps each read-only table to the real one.
	protected map[*lua.LTable]*lua.LTable
	null      *lua.LUserData
	loading   *Library
	handler   *lua.LFunction

	numbers       numberPool
	structFormats map[string]*structFormat
	scratch       []byte // memory for the next result of a library function

	meter *luameter.Meter // nil without Options.Meter

	// The function that runs.
	args     []string
	readOnly bool
	wrote    bool
	running  string
}

// Library is a set of functions that is loaded and removed as a whole.
type Library struct {
	Name, Code string
	Functions  []*Function
}

// Function is a function that FCALL can call.
type Function struct {
	Name, Description string
	Flags             []string
	NoWrites          bool // it may not call commands that write
	callback          *lua.LFunction
}

// New returns an interpreter without libraries.
func New(o Options) *Interpreter {
	l := &Interpreter{
		host:      o.Host,
		logger:    o.Logger,
		random:    o.Random,
		libraries: map[string]*Library{},
		functions: map[string]*Function{},
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
	l.budget = scriptBudget{l: l, limit: o.Timeout}
	l.null = l.L.NewUserData()
	l.openLibraries(o)
	if o.Meter != nil {
		l.count(o.Meter)
	}
	return l
}

// Close releases the state.
func (l *Interpreter) Close() { l.L.Close() }

// Function returns a function by its name, nil when there is none.
func (l *Interpreter) Function(name string) *Function { return l.functions[name] }

// Libraries returns the libraries in the order of their names.
func (l *Interpreter) Libraries() []*Library {
	return slices.SortedFunc(maps.Values(l.libraries), func(a, b *Library) int { return strings.Compare(a.Name, b.Name) })
}

// NumFunctions returns the number of functions of all libraries.
func (l *Interpreter) NumFunctions() int { return len(l.functions) }

// Run calls a function and returns its reply.
func (l *Interpreter) Run(fn *Function, keys, args []string) resp.Reply {
	L := l.L
	if l.meter != nil {
		l.meter.Call()
	}
	l.readOnly, l.wrote, l.running = fn.NoWrites, false, fn.Name
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

func (l *Interpreter) strings(items []string) *lua.LTable {
	t := l.L.CreateTable(len(items), 0)
	for i, s := range items {
		t.RawSetInt(i+1, lua.LString(s))
		if l.meter != nil {
			l.meter.Text()
		}
	}
	return t
}

// failed turns an error of the running function into its reply.
func (l *Interpreter) failed(err error) resp.Reply {
	l.L.SetTop(0)
	text, where := l.describe(err)
	if where != "" {
		text += " script: " + l.running + ", on @" + where + "."
	}
	return resp.Error(text)
}

// describe returns the text of a Lua error, which begins with a code, and "user_function:LINE" when that is known.
func (l *Interpreter) describe(err error) (text, where string) {
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

func (l *Interpreter) errorTable(text string) *lua.LTable {
	t := l.L.CreateTable(0, 2)
	t.RawSetString("err", lua.LString(text))
	return t
}

// chunkName is the name of a library's source in error positions.
const chunkName = "user_function"

// raise throws a Lua error with the position of the Lua code that called the running Go function. It does not go
// through the state's own RaiseError, which would cut locals of all outer functions off from the closures that share
// them.
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
