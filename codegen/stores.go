package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// A store is a set of functions that several modules have: which of them a call means is decided while it runs. @store
// names the modules, and @call declares a function of theirs.

// storeDecl is one @store, in the module of its file.
type storeDecl struct {
	pos     position
	module  string // the one whose functions give a store and a place in it
	modules []string
	calls   []storeCall
}

type storeCall struct {
	pos    position
	name   string
	params []string
}

var callText = regexp.MustCompile(`(?s)^(\w+)\(([^)]*)\)\s+\S`)

// takeStore takes a tag of the declaration of a store; d is the one that the block has begun.
func takeStore(l *library, d *storeDecl, t tag, p *problems) *storeDecl {
	if t.word == "store" {
		d = &storeDecl{pos: t.pos, module: moduleOf(t.pos.file), modules: strings.Fields(t.text)}
		l.stores = append(l.stores, d)
		return d
	}
	m := callText.FindStringSubmatch(t.text)
	switch {
	case d == nil:
		p.add(t.pos, "@call without a @store above it")
	case m == nil:
		p.add(t.pos, "@call needs name(parameters) and a description of the function")
	default:
		d.calls = append(d.calls, storeCall{t.pos, m[1], strings.Fields(strings.ReplaceAll(m[2], ",", " "))})
	}
	return d
}

func (d *storeDecl) call(name string) *storeCall {
	for i := range d.calls {
		if d.calls[i].name == name {
			return &d.calls[i]
		}
	}
	return nil
}

// parameters lists the parameters of a function, with "..." for further ones.
func parameters(f *ast.FunctionExpr) []string {
	names := slices.Clone(f.ParList.Names)
	if f.ParList.HasVargs {
		names = append(names, "...")
	}
	return names
}

// fits reports whether a function with these parameters can be called as the store declares it: they have the same
// names in the same order, but for the first, which is the place, and those that are not used (_). The last may be
// missing.
func (c *storeCall) fits(params []string) bool {
	for i, name := range params {
		if i >= len(c.params) || i > 0 && name != "_" && name != c.params[i] {
			return false
		}
	}
	return true
}

// checkStores reports functions of stores that a module lacks or that the store does not declare, those with other
// parameters, and calls of functions that are not declared.
func (s *scopes) checkStores(stores []*storeDecl) {
	for _, d := range stores {
		for _, module := range d.modules {
			for _, c := range d.calls {
				s.checkStoreCall(d, module, c)
			}
			for field, lines := range s.definitions {
				if field.module == module && d.call(field.field) == nil {
					s.problems.add(s.position(lines[0]), "%s.%s is not declared in %s.lua", module, field.field,
						d.module)
				}
			}
		}
		for _, u := range s.storeUses[d.module] {
			if d.call(u.field) == nil {
				s.problems.add(s.position(u.line), "%s.lua declares no %s", d.module, u.field)
			}
		}
	}
}

func (s *scopes) checkStoreCall(d *storeDecl, module string, c storeCall) {
	field := moduleField{module, c.name}
	lines := s.definitions[field]
	if len(lines) == 0 {
		s.problems.add(c.pos, "%s.%s is defined nowhere", module, c.name)
		return
	}
	for range s.aliases {
		of, ok := s.aliases[field]
		if !ok {
			break
		}
		field = of
	}
	if params, known := s.params[field]; known && !c.fits(params) {
		s.problems.add(s.position(lines[0]), "%s.%s has the parameters %s; %s.lua declares %s", module, c.name,
			strings.Join(params, ", "), d.module, strings.Join(c.params, ", "))
	}
}

// noteFunction records the function that is assigned to a field of a module: a function with its parameters, or a
// function of another module.
func (s *scopes) noteFunction(m moduleField, value ast.Expr, here *scope) {
	if f, ok := value.(*ast.FunctionExpr); ok {
		s.params[m] = parameters(f)
	} else if of, ok := s.moduleField(value, here); ok {
		s.aliases[m] = of
	}
}

// noteStore notes that a local has a store: the first result of a function of a module that declares one, such as s in
// `local s, at = store.of(key)`.
func (s *scopes) noteStore(x *ast.LocalAssignStmt, here *scope) {
	last := len(x.Exprs) - 1
	if last < 0 || last >= len(x.Names) {
		return
	}
	call, ok := x.Exprs[last].(*ast.FuncCallExpr)
	if !ok {
		return
	}
	of, ok := s.moduleField(call.Func, here)
	declares := func(d *storeDecl) bool { return d.module == of.module }
	if !ok || !strings.HasPrefix(of.field, "of") || !slices.ContainsFunc(s.stores, declares) {
		return
	}
	if here.stores == nil {
		here.stores = map[string]string{}
	}
	here.stores[x.Names[last]] = of.module
}

// storeOf is the module that declared the store which a local has.
func (s *scope) storeOf(name string) (string, bool) {
	for ; s != nil; s = s.outer {
		if s.names[name] {
			module, ok := s.stores[name]
			return module, ok
		}
	}
	return "", false
}

// noteStoreUse notes the use of a function of a store.
func (s *scopes) noteStoreUse(x *ast.AttrGetExpr, here *scope) {
	object, ok := x.Object.(*ast.IdentExpr)
	if !ok {
		return
	}
	module, ok := here.storeOf(object.Value)
	if !ok {
		return
	}
	if name, ok := x.Key.(*ast.StringExpr); ok {
		use := moduleUse{moduleField: moduleField{module, name.Value}, line: x.Line()}
		s.storeUses[module] = append(s.storeUses[module], use)
		return
	}
	s.problems.add(s.position(x.Line()), "a function of %s is not called by its name", module)
}
