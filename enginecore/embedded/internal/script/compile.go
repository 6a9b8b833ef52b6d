package script

import (
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// compiledLibraries caches the compiled form of the libraries that engines of this process have loaded last. A program
// mostly opens engines with the same library, and tests open many; compiling takes longer than the rest of Open. The
// interpreter does not change the compiled form, and all engines have the same names, so they share it.
var compiledLibraries struct {
	sync.Mutex
	protos map[string]*lua.FunctionProto // by source
}

// maxCompiled bounds the libraries that are remembered.
const maxCompiled = 4

// compileLibrary compiles the body of a library, if this process has not done so.
func (l *Interpreter) compileLibrary(body string) (*lua.FunctionProto, error) {
	c := &compiledLibraries
	c.Lock()
	defer c.Unlock()
	if proto := c.protos[body]; proto != nil {
		return proto, nil
	}
	proto, err := l.compile(body)
	if err != nil {
		return nil, err
	}
	if c.protos == nil || len(c.protos) >= maxCompiled {
		c.protos = make(map[string]*lua.FunctionProto)
	}
	c.protos[body] = proto
	return proto, nil
}

// compile compiles a program as prepare rewrites it.
func (l *Interpreter) compile(body string) (*lua.FunctionProto, error) {
	program, err := parse.Parse(strings.NewReader(body), chunkName)
	if err != nil {
		return nil, err
	}
	return lua.Compile(prepare(program, l.direct), chunkName)
}
