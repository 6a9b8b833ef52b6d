package check

import (
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// A store is a set of functions that several modules have: which of them a call means is decided while it runs. @store
// names the modules, and @call declares a function of theirs.

// parameters lists the parameters of a function, with "..." for further ones.
func parameters(f *ast.FunctionExpr) []string {
	names := slices.Clone(f.ParList.Names)
	if f.ParList.HasVargs {
		names = append(names, "...")
	}
	return names
}

// checkStores reports functions of stores that a module lacks or that the store does not declare, those with other
// parameters, and calls of functions that are not declared.
func (s *scopes) checkStores(stores []*header.Store) {
	for _, d := range stores {
		for _, module := range d.Modules {
			for _, c := range d.Calls {
				s.checkStoreCall(d, module, c)
			}
			for field, lines := range s.definitions {
				if field.Module == module && d.Call(field.Field) == nil {
					s.problems.Add(s.position(lines[0]), "%s.%s is not declared in %s.lua", module, field.Field,
						d.Module)
				}
			}
		}
		for _, u := range s.storeUses[d.Module] {
			if d.Call(u.Field) == nil {
				s.problems.Add(s.position(u.line), "%s.lua declares no %s", d.Module, u.Field)
			}
		}
	}
}

func (s *scopes) checkStoreCall(d *header.Store, module string, c header.StoreCall) {
	field := header.ModuleField{Module: module, Field: c.Name}
	lines := s.definitions[field]
	if len(lines) == 0 {
		s.problems.Add(c.Pos, "%s.%s is defined nowhere", module, c.Name)
		return
	}
	for range s.aliases {
		of, ok := s.aliases[field]
		if !ok {
			break
		}
		field = of
	}
	if params, known := s.params[field]; known && !c.Fits(params) {
		s.problems.Add(s.position(lines[0]), "%s.%s has the parameters %s; %s.lua declares %s", module, c.Name,
			strings.Join(params, ", "), d.Module, strings.Join(c.Params, ", "))
	}
}

// noteFunction records the function that is assigned to a field of a module: a function with its parameters, or a
// function of another module.
func (s *scopes) noteFunction(m header.ModuleField, value ast.Expr, here *scope) {
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
	declares := func(d *header.Store) bool { return d.Module == of.Module }
	if !ok || !strings.HasPrefix(of.Field, "of") || !slices.ContainsFunc(s.stores, declares) {
		return
	}
	if here.stores == nil {
		here.stores = map[string]string{}
	}
	here.stores[x.Names[last]] = of.Module
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
		use := moduleUse{ModuleField: header.ModuleField{Module: module, Field: name.Value}, line: x.Line()}
		s.storeUses[module] = append(s.storeUses[module], use)
		return
	}
	s.problems.Add(s.position(x.Line()), "a function of %s is not called by its name", module)
}
