package check

import (
	"reflect"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// serverGlobals exist when a function runs. While the library loads there is only redis.
var serverGlobals = wordSet(`redis cjson cmsgpack bit struct string table math os
	tonumber tostring ipairs pairs type unpack select error pcall xpcall next assert
	setmetatable getmetatable rawget rawset rawequal collectgarbage`)

// maxChunkLocals is how many local variables the file scope of the library may have: the embedded interpreter has 200
// registers for a function, and its expressions need some of them.
const maxChunkLocals = 195

func wordSet(list string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		out[w] = true
	}
	return out
}

// checkScopes reads the assembled library as the server will and reports names that nothing declares: globals that
// do not exist, uses of globals while loading, locals that hide modules, and fields of module tables that no line
// defines, or two define, or that are used before they are defined while the library loads. A hook may be defined
// twice: where it is declared, and where it is set.
func checkScopes(files []header.SourceFile, l *header.Library, p *header.Problems) *scopes {
	var text strings.Builder
	for _, f := range files {
		text.WriteString(f.Text)
	}
	statements, err := parse.Parse(strings.NewReader(text.String()), "library")
	if err != nil {
		p.Add(header.Position{File: "library", Line: 1}, "does not parse: %v", err)
		return nil
	}
	s := &scopes{
		problems:    p,
		files:       files,
		modules:     map[string]bool{},
		definitions: map[header.ModuleField][]int{},
		stores:      l.Stores,
		params:      map[header.ModuleField][]string{},
		aliases:     map[header.ModuleField]header.ModuleField{},
		storeUses:   map[string][]moduleUse{},
	}
	s.block(statements, nil, true)
	s.countLocals(statements)
	for field, lines := range s.definitions {
		if _, hook := l.Hooks[field]; len(lines) > 2 || len(lines) == 2 && !hook {
			before := s.position(lines[0])
			p.Add(s.position(lines[len(lines)-1]), "%s.%s is defined at %s:%d already", field.Module, field.Field,
				before.File, before.Line)
		}
	}
	told := map[header.ModuleField]bool{}
	for _, u := range s.uses {
		lines := s.definitions[u.ModuleField]
		switch {
		case told[u.ModuleField]:
		case len(lines) == 0:
			p.Add(s.position(u.line), "%s.%s is defined nowhere", u.Module, u.Field)
			told[u.ModuleField] = true
		case u.loading && u.line < lines[len(lines)-1]:
			p.Add(s.position(u.line), "%s.%s is used while the library loads, before it is there", u.Module, u.Field)
		}
	}
	return s
}

// moduleUse is a use of a field of a module, at a line; loading: while the library loads.
type moduleUse struct {
	header.ModuleField
	line    int
	loading bool
}

type scopes struct {
	problems    *header.Problems
	files       []header.SourceFile
	modules     map[string]bool              // tables declared as {} at file scope
	definitions map[header.ModuleField][]int // the lines of each
	uses        []moduleUse
	stores      []*header.Store
	params      map[header.ModuleField][]string           // of functions of modules
	aliases     map[header.ModuleField]header.ModuleField // fields that have a function of another module
	storeUses   map[string][]moduleUse                    // functions of stores, by the module that declares the store
}

// scope is a chain of blocks.
type scope struct {
	outer  *scope
	names  map[string]bool
	stores map[string]string // locals that have a store, by the module that declares it
}

func (s *scope) has(name string) bool {
	for ; s != nil; s = s.outer {
		if s.names[name] {
			return true
		}
	}
	return false
}

func newScope(outer *scope) *scope { return &scope{outer: outer, names: map[string]bool{}} }

// position finds the file of a line of the assembled text.
func (s *scopes) position(line int) header.Position {
	for _, f := range s.files {
		n := strings.Count(f.Text, "\n")
		if line <= n {
			return header.Position{File: f.Name, Line: line}
		}
		line -= n
	}
	return header.Position{File: "library", Line: line}
}

func (s *scopes) block(list []ast.Stmt, outer *scope, loading bool) {
	here := newScope(outer)
	for _, x := range list {
		s.statement(x, here, loading)
	}
}

func (s *scopes) statement(x ast.Stmt, here *scope, loading bool) {
	switch x := x.(type) {
	case *ast.LocalAssignStmt:
		if len(x.Exprs) == 1 {
			if _, ok := x.Exprs[0].(*ast.FunctionExpr); ok {
				here.names[x.Names[0]] = true // a function may call itself
			}
		}
		s.expressions(x.Exprs, here, loading)
		s.declare(here, x.Line(), x.Names...)
		s.noteStore(x, here)
		for i, name := range x.Names {
			if here.outer == nil && i < len(x.Exprs) {
				if t, ok := x.Exprs[i].(*ast.TableExpr); ok && len(t.Fields) == 0 {
					s.modules[name] = true
				}
			}
		}
	case *ast.AssignStmt:
		s.checkParallel(x, here)
		for i, target := range x.Lhs {
			if m, ok := s.moduleField(target, here); ok {
				s.define(m, target.Line())
				if i < len(x.Rhs) {
					s.noteFunction(m, x.Rhs[i], here)
				}
				continue
			}
			s.expression(target, here, loading)
		}
		s.expressions(x.Rhs, here, loading)
	case *ast.FuncDefStmt:
		if m, ok := s.moduleField(x.Name.Func, here); ok {
			s.define(m, x.Line())
			s.noteFunction(m, x.Func, here)
		} else if x.Name.Func != nil {
			s.expression(x.Name.Func, here, loading)
		}
		s.expression(x.Func, here, loading)
	case *ast.DoBlockStmt:
		s.block(x.Stmts, here, loading)
	case *ast.WhileStmt:
		s.expression(x.Condition, here, loading)
		s.block(x.Stmts, here, loading)
	case *ast.RepeatStmt:
		inner := newScope(here)
		for _, y := range x.Stmts {
			s.statement(y, inner, loading)
		}
		s.expression(x.Condition, inner, loading)
	case *ast.IfStmt:
		s.expression(x.Condition, here, loading)
		s.block(x.Then, here, loading)
		s.block(x.Else, here, loading)
	case *ast.NumberForStmt:
		s.expressions([]ast.Expr{x.Init, x.Limit, x.Step}, here, loading)
		inner := newScope(here)
		s.declare(inner, x.Line(), x.Name)
		s.block(x.Stmts, inner, loading)
	case *ast.GenericForStmt:
		s.expressions(x.Exprs, here, loading)
		inner := newScope(here)
		s.declare(inner, x.Line(), x.Names...)
		s.block(x.Stmts, inner, loading)
	case *ast.FuncCallStmt:
		s.expression(x.Expr, here, loading)
	case *ast.ReturnStmt:
		s.expressions(x.Exprs, here, loading)
	}
}

// countLocals checks that no file exceeds the limit of locals, including those shared by all files.
func (s *scopes) countLocals(list []ast.Stmt) {
	count := func(list []ast.Stmt) (n int) {
		for _, x := range list {
			if local, ok := x.(*ast.LocalAssignStmt); ok {
				n += len(local.Names)
			}
		}
		return n
	}
	shared := count(list)
	if shared > maxChunkLocals {
		s.problems.Add(header.Position{File: "library", Line: 1},
			"%d locals in the scope of all files; the interpreter allows %d", shared, maxChunkLocals)
	}
	for _, x := range list {
		if block, ok := x.(*ast.DoBlockStmt); ok {
			if n := count(block.Stmts); shared+n > maxChunkLocals {
				s.problems.Add(s.position(x.Line()),
					"%d locals in addition to the %d that all files share; the interpreter allows %d", n, shared, maxChunkLocals)
			}
		}
	}
}

// checkParallel reports `a, b = b, a` on local variables: the interpreter of the embedded engine sets a before it
// reads it again for b.
func (s *scopes) checkParallel(x *ast.AssignStmt, here *scope) {
	for i, target := range x.Lhs {
		name, ok := target.(*ast.IdentExpr)
		if !ok || !here.has(name.Value) || i+1 >= len(x.Rhs) {
			continue
		}
		for _, value := range x.Rhs[i+1:] {
			if mentions(reflect.ValueOf(value), name.Value) {
				s.problems.Add(s.position(x.Line()),
					"%s is assigned and read again in one statement, which the embedded engine does in order", name.Value)
			}
		}
	}
}

// mentions reports whether an expression reads a variable, not counting the bodies of functions in it, which run later.
func mentions(v reflect.Value, name string) bool {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return false
		}
		if ident, ok := v.Interface().(*ast.IdentExpr); ok {
			return ident.Value == name
		}
		if _, ok := v.Interface().(*ast.FunctionExpr); ok {
			return false
		}
		return mentions(v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !v.Type().Field(i).Anonymous && mentions(v.Field(i), name) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if mentions(v.Index(i), name) {
				return true
			}
		}
	}
	return false
}

func (s *scopes) expressions(list []ast.Expr, here *scope, loading bool) {
	for _, x := range list {
		s.expression(x, here, loading)
	}
}

func (s *scopes) expression(x ast.Expr, here *scope, loading bool) {
	switch x := x.(type) {
	case nil:
		return
	case *ast.IdentExpr:
		switch {
		case here.has(x.Value):
		case !serverGlobals[x.Value]:
			s.problems.Add(s.position(x.Line()), "%s is neither a local declared above nor a global of the server",
				x.Value)
		case loading && x.Value != "redis":
			s.problems.Add(s.position(x.Line()), "%s does not exist yet while the library loads", x.Value)
		}
		return
	case *ast.FunctionExpr:
		inner := newScope(here)
		s.declare(inner, x.Line(), x.ParList.Names...)
		s.block(x.Stmts, inner, false)
		return
	case *ast.AttrGetExpr:
		if m, ok := s.moduleField(x, here); ok {
			s.uses = append(s.uses, moduleUse{m, x.Line(), loading})
			return
		}
		s.noteStoreUse(x, here)
	}
	s.children(reflect.ValueOf(x).Elem(), here, loading)
}

var expressionType = reflect.TypeFor[ast.Expr]()

// children visits the expressions that an expression is made of.
func (s *scopes) children(v reflect.Value, here *scope, loading bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !v.Type().Field(i).Anonymous {
				s.children(v.Field(i), here, loading)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			s.children(v.Index(i), here, loading)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			s.children(v.Elem(), here, loading)
		}
	case reflect.Interface:
		if v.Type() == expressionType && !v.IsNil() {
			s.expression(v.Interface().(ast.Expr), here, loading)
		}
	}
}

func (s *scopes) define(m header.ModuleField, line int) {
	s.definitions[m] = append(s.definitions[m], line)
}

// declare enters local variables into a scope. One in a function or block that has the name of a module would hide it:
// an expression that looks like a use of the module would then use the variable, and would not be checked.
func (s *scopes) declare(here *scope, line int, names ...string) {
	for _, name := range names {
		here.names[name] = true
		if here.outer != nil && s.modules[name] {
			s.problems.Add(s.position(line), "the local %s hides the module of that name", name)
		}
	}
}

// moduleField recognises `module.field` where module is a table of the file scope that no inner local hides.
func (s *scopes) moduleField(x ast.Expr, here *scope) (header.ModuleField, bool) {
	get, ok := x.(*ast.AttrGetExpr)
	if !ok {
		return header.ModuleField{}, false
	}
	object, ok := get.Object.(*ast.IdentExpr)
	if !ok {
		return header.ModuleField{}, false
	}
	name, ok := get.Key.(*ast.StringExpr)
	if !ok || !s.modules[object.Value] {
		return header.ModuleField{}, false
	}
	for at := here; at != nil && at.outer != nil; at = at.outer {
		if at.names[object.Value] {
			return header.ModuleField{}, false
		}
	}
	return header.ModuleField{Module: object.Value, Field: name.Value}, true
}
