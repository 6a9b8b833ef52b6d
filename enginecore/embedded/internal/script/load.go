package script

import (
	"fmt"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
)

const textBadName = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"

// libraryError returns the server's error text for a library that does not load.
type libraryError string

// Error is the server's text.
func (e libraryError) Error() string { return string(e) }

// Load compiles and registers a library and returns its name. A failed load changes nothing.
func (l *Interpreter) Load(code string, replace bool) (string, error) {
	name, body, err := parseMetadata(code)
	if err != nil {
		return "", err
	}
	old := l.libraries[name]
	if old != nil && !replace {
		return "", libraryError(fmt.Sprintf("Library '%s' already exists", name))
	}
	lib := &Library{Name: name, Code: code}
	if err := l.runLibrary(lib, body); err != nil {
		return "", err
	}
	if len(lib.Functions) == 0 {
		return "", libraryError("No functions registered")
	}
	for _, fn := range lib.Functions {
		if other := l.functions[fn.Name]; other != nil && !old.has(other) {
			return "", libraryError(fmt.Sprintf("Function %s already exists", fn.Name))
		}
	}
	if old != nil {
		l.Unload(name)
	}
	l.libraries[name] = lib
	for _, fn := range lib.Functions {
		l.functions[fn.Name] = fn
	}
	return name, nil
}

func (lib *Library) has(fn *Function) bool {
	if lib == nil {
		return false
	}
	for _, f := range lib.Functions {
		if f == fn {
			return true
		}
	}
	return false
}

// Unload removes a library and reports whether there was one.
func (l *Interpreter) Unload(name string) bool {
	lib := l.libraries[name]
	if lib == nil {
		return false
	}
	for _, fn := range lib.Functions {
		delete(l.functions, fn.Name)
	}
	delete(l.libraries, name)
	return true
}

// parseMetadata reads the first line of a library. In body an empty line replaces it, so that error positions match the
// source.
func parseMetadata(code string) (name, body string, err error) {
	if !strings.HasPrefix(code, "#!") {
		return "", "", libraryError("Missing library metadata")
	}
	line, rest, ok := strings.Cut(code, "\n")
	if !ok {
		return "", "", libraryError("Invalid library metadata")
	}
	words := strings.Fields(line[2:])
	if len(words) == 0 || !strings.EqualFold(words[0], "lua") {
		engine := ""
		if len(words) > 0 {
			engine = words[0]
		}
		return "", "", libraryError(fmt.Sprintf("Engine '%s' not found", engine))
	}
	named := false
	for _, word := range words[1:] {
		value, ok := strings.CutPrefix(word, "name=")
		if !ok {
			return "", "", libraryError(fmt.Sprintf("Invalid metadata value given: %s", word))
		}
		if named {
			return "", "", libraryError("Invalid metadata value, name argument was given multiple times")
		}
		name, named = value, true
	}
	if !named {
		return "", "", libraryError("Library name was not given")
	}
	if !validName(name) {
		return "", "", libraryError(textBadName)
	}
	return name, "\n" + rest, nil
}

func validName(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '_' && !numfmt.IsAlnum(s[i]) {
			return false
		}
	}
	return s != ""
}

// runLibrary executes the top level of a library, where only "redis" with register_function and a few constants exists.
func (l *Interpreter) runLibrary(lib *Library, body string) error {
	proto, err := l.compileLibrary(body)
	if err != nil {
		return libraryError("Error compiling function: " + oneLine(err.Error()))
	}
	fn := l.L.NewFunctionFromProto(proto)
	fn.Env = l.env

	l.loading = lib
	l.readOnly, l.wrote, l.running = false, false, lib.Name
	l.enterScope(l.loadScope)
	defer func() {
		l.loading = nil
		l.enterScope(l.runScope)
	}()
	l.L.Push(fn)
	l.budget.begin()
	err = l.L.PCall(0, 0, nil)
	l.budget.end()
	l.L.SetTop(0)
	if err != nil {
		text, _ := l.describe(err)
		return libraryError("Error registering functions: " + text)
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// registerFunction is redis.register_function, by position or with a table of named arguments.
func (l *Interpreter) registerFunction(L *lua.LState) int {
	fn, fault := l.functionArgs(L)
	if fault == "" {
		switch {
		case l.loading == nil:
			fault = "redis.register_function can only be called on FUNCTION LOAD command"
		case !validName(fn.Name):
			fault = textBadName
		}
	}
	if fault == "" {
		for _, other := range l.loading.Functions {
			if other.Name == fn.Name {
				fault = "Function already exists in the library"
			}
		}
	}
	if fault != "" {
		raise(L, l.errorTable("ERR "+fault))
	}
	l.loading.Functions = append(l.loading.Functions, fn)
	return 0
}

func (l *Interpreter) functionArgs(L *lua.LState) (*Function, string) {
	fn := &Function{}
	switch L.GetTop() {
	case 1:
		t, ok := L.Get(1).(*lua.LTable)
		if !ok {
			return nil, "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)."
		}
		return fn, l.namedArgs(fn, t)
	case 2:
		var ok bool
		if fn.Name, ok = l.stringArg(L.Get(1)); !ok {
			return nil, "first argument to redis.register_function must be a string"
		}
		if fn.callback, ok = L.Get(2).(*lua.LFunction); !ok {
			return nil, "second argument to redis.register_function must be a function"
		}
		return fn, ""
	}
	return nil, "wrong number of arguments to redis.register_function"
}

// stringArg accepts the same values as C's lua_isstring.
func (l *Interpreter) stringArg(v lua.LValue) (string, bool) {
	return l.toText(v), v.Type() == lua.LTString || v.Type() == lua.LTNumber
}

func (l *Interpreter) namedArgs(fn *Function, t *lua.LTable) (fault string) {
	t.ForEach(func(k, v lua.LValue) {
		if fault != "" {
			return
		}
		key, ok := k.(lua.LString)
		if !ok {
			fault = "named argument key given to redis.register_function is not a string"
			return
		}
		switch key {
		case "function_name":
			if fn.Name, ok = l.stringArg(v); !ok {
				fault = "function_name argument given to redis.register_function must be a string"
			}
		case "description":
			if fn.Description, ok = l.stringArg(v); !ok {
				fault = "description argument given to redis.register_function must be a string"
			}
		case "callback":
			if fn.callback, ok = v.(*lua.LFunction); !ok {
				fault = "callback argument given to redis.register_function must be a function"
			}
		case "flags":
			flags, ok := v.(*lua.LTable)
			if !ok {
				fault = "flags argument to redis.register_function must be a table representing function flags"
				return
			}
			fault = fn.setFlags(flags)
		default:
			fault = "unknown argument given to redis.register_function"
		}
	})
	switch {
	case fault != "":
	case fn.Name == "":
		fault = "redis.register_function must get a function name argument"
	case fn.callback == nil:
		fault = "redis.register_function must get a callback argument"
	}
	return fault
}

func (fn *Function) setFlags(flags *lua.LTable) string {
	for i := 1; ; i++ {
		v := flags.RawGetInt(i)
		if v == lua.LNil {
			return ""
		}
		flag, _ := v.(lua.LString)
		switch flag {
		case "no-writes":
			fn.NoWrites = true
		case "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys":
			// Nothing here runs out of memory limits, is stale or clustered.
		default:
			return "unknown flag given"
		}
		fn.Flags = append(fn.Flags, string(flag))
	}
}

// compiledLibraries caches the compiled form of the libraries that engines of this process have loaded last. A program
// mostly opens engines with the same library, and tests open many; compiling takes longer than the rest of Open. The
// interpreter does not change the compiled form, and all engines have the same names, so they share it.
var compiledLibraries struct {
	sync.Mutex
	protos map[compiledForm]*lua.FunctionProto
}

// compiledForm is a source, and whether it was compiled as it is written.
type compiledForm struct {
	source    string
	asWritten bool
}

// maxCompiled bounds the libraries that are remembered.
const maxCompiled = 4

// compileLibrary compiles the body of a library, if this process has not done so.
func (l *Interpreter) compileLibrary(body string) (*lua.FunctionProto, error) {
	c := &compiledLibraries
	c.Lock()
	defer c.Unlock()
	form := compiledForm{body, l.meter != nil}
	if proto := c.protos[form]; proto != nil {
		return proto, nil
	}
	proto, err := l.compile(body)
	if err != nil {
		return nil, err
	}
	if c.protos == nil || len(c.protos) >= maxCompiled {
		c.protos = make(map[compiledForm]*lua.FunctionProto)
	}
	c.protos[form] = proto
	return proto, nil
}

// compile compiles a program as prepare rewrites it, or as it is written if a meter counts its work.
func (l *Interpreter) compile(body string) (*lua.FunctionProto, error) {
	program, err := parse.Parse(strings.NewReader(body), chunkName)
	if err != nil {
		return nil, err
	}
	if l.meter == nil {
		program = prepare(program, l.direct)
	}
	return lua.Compile(program, chunkName)
}
