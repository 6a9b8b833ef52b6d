package script

import (
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// checkpointName is the name of the function that prepared programs call where they may run for long. Programs cannot
// use it themselves, nor the other names that directName makes.
const checkpointName = ".checkpoint"

// prepare rewrites a program for this interpreter, whose programs do not check for the end of their time after every
// instruction and look names up slowly:
//
//   - A checkpoint is called in each round of a loop and at the beginning of each function that can call itself.
//   - Where a program reads a global name, or a field of a global table, that all running functions have, it reads the
//     name that directName returns instead. Names that the program declares as locals anywhere are left alone.
//   - Assignments that the interpreter would compile wrongly are made in two steps: see assignByValues.
func prepare(program []ast.Stmt, direct map[string]lua.LValue) []ast.Stmt {
	recursive := recursiveFunctions(program)
	locals := map[string]bool{}
	collect := walker{
		binds: func(names []string) {
			for _, name := range names {
				locals[name] = true
			}
		},
		reads:     func(*ast.Expr) {},
		loops:     func(body []ast.Stmt, _ int) []ast.Stmt { return body },
		jumps:     func(s *ast.GotoStmt) []ast.Stmt { return []ast.Stmt{s} },
		assigns:   func(s *ast.AssignStmt) ast.Stmt { return s },
		functions: func(_ string, _ *ast.FunctionExpr, visit func()) { visit() },
	}
	collect.block(program)
	rewrite := walker{
		binds: func([]string) {},
		reads: func(at *ast.Expr) { readDirectly(at, direct, locals) },
		loops: func(body []ast.Stmt, line int) []ast.Stmt {
			return append([]ast.Stmt{checkpoint(line)}, body...)
		},
		jumps:   func(s *ast.GotoStmt) []ast.Stmt { return []ast.Stmt{checkpoint(s.Line()), s} },
		assigns: assignByValues,
		functions: func(name string, f *ast.FunctionExpr, visit func()) {
			visit()
			if recursive[name] {
				f.Stmts = append([]ast.Stmt{checkpoint(f.Line())}, f.Stmts...)
			}
		},
	}
	return rewrite.block(program)
}

// directName is the name under which the environment has a global, or a field of a global table.
func directName(global, field string) string {
	if field == "" {
		return "." + global
	}
	return global + "." + field
}

// readDirectly replaces an expression that reads one of the names in direct.
func readDirectly(at *ast.Expr, direct map[string]lua.LValue, locals map[string]bool) {
	global, field := "", ""
	switch e := (*at).(type) {
	case *ast.IdentExpr:
		global = e.Value
	case *ast.AttrGetExpr:
		object, isName := e.Object.(*ast.IdentExpr)
		key, isText := e.Key.(*ast.StringExpr)
		if !isName || !isText || key.Value == "" {
			return
		}
		global, field = object.Value, key.Value
	default:
		return
	}
	name := directName(global, field)
	if locals[global] || direct[name] == nil {
		return
	}
	ident := &ast.IdentExpr{Value: name}
	ident.SetLine((*at).Line())
	ident.SetLastLine((*at).LastLine())
	*at = ident
}

// checkpoint is a statement that calls the function of that name.
func checkpoint(line int) ast.Stmt {
	name := &ast.IdentExpr{Value: checkpointName}
	call := &ast.FuncCallExpr{Func: name}
	s := &ast.FuncCallStmt{Expr: call}
	for _, node := range []ast.PositionHolder{name, call, s} {
		node.SetLine(line)
		node.SetLastLine(line)
	}
	return s
}
