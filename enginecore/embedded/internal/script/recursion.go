package script

import "github.com/yuin/gopher-lua/ast"

// callGraph is which functions of a program call which, by their names.
type callGraph struct {
	calls  map[string][]string
	within []string // the functions around the part that is visited
}

// recursiveFunctions returns the names of the functions of a program that can call themselves, by way of others too.
// Functions are known by their names: one that is only called through a variable of another name is not found.
func recursiveFunctions(program []ast.Stmt) map[string]bool {
	g := callGraph{calls: map[string][]string{}}
	w := walker{
		binds:   func([]string) {},
		loops:   func(body []ast.Stmt, _ int) []ast.Stmt { return body },
		jumps:   func(s *ast.GotoStmt) []ast.Stmt { return []ast.Stmt{s} },
		assigns: func(s *ast.AssignStmt) ast.Stmt { return s },
		reads:   g.note,
		functions: func(name string, _ *ast.FunctionExpr, visit func()) {
			if name != "" {
				g.within = append(g.within, name)
				defer func() { g.within = g.within[:len(g.within)-1] }()
			}
			visit()
		},
	}
	w.block(program)
	return g.cycles()
}

// note remembers a call for all functions around it, as the inner ones may run when the outer ones do.
func (g *callGraph) note(at *ast.Expr) {
	call, ok := (*at).(*ast.FuncCallExpr)
	if !ok {
		return
	}
	name := ":" + call.Method
	if call.Func != nil {
		name = calledName(call.Func)
	}
	for _, caller := range g.within {
		g.calls[caller] = append(g.calls[caller], name)
	}
}

// cycles returns the functions that are part of a cycle of calls, which Tarjan's algorithm finds.
func (g *callGraph) cycles() map[string]bool {
	found := map[string]bool{}
	index, low, pending := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(name string)
	visit = func(name string) {
		index[name] = len(index) + 1
		low[name] = index[name]
		stack, pending[name] = append(stack, name), true
		for _, next := range g.calls[name] {
			switch {
			case next == name:
				found[name] = true
			case index[next] == 0 && g.calls[next] != nil:
				visit(next)
				low[name] = min(low[name], low[next])
			case pending[next]:
				low[name] = min(low[name], index[next])
			}
		}
		if low[name] != index[name] {
			return
		}
		for alone := stack[len(stack)-1] == name; ; {
			last := stack[len(stack)-1]
			stack, pending[last] = stack[:len(stack)-1], false
			if !alone {
				found[last] = true
			}
			if last == name {
				return
			}
		}
	}
	for name := range g.calls {
		if index[name] == 0 {
			visit(name)
		}
	}
	return found
}
