package script

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// valueName is the name of the local variable that holds the i-th value of an assignment. Programs cannot use it.
func valueName(i int) string { return ".value" + strconv.Itoa(i) }

// assignByValues returns a statement with the effect of an assignment. The interpreter compiles two forms of
// assignments to local variables wrongly: one of `a and b` leaves the variable as it is where a is false or nil, and
// one to several targets lets later values and targets see the variables that it has changed already. These are made
// in two steps: all values are read, and then assigned to the elements of tables first, whose places may depend on
// the variables.
func assignByValues(s *ast.AssignStmt) ast.Stmt {
	if !isCompiledWrongly(s) {
		return s
	}
	count := len(s.Lhs)
	values := &ast.LocalAssignStmt{Exprs: s.Rhs}
	var elements, variables []ast.Stmt
	for i := range count {
		values.Names = append(values.Names, valueName(i))
		value := &ast.IdentExpr{Value: valueName(i)}
		assign := &ast.AssignStmt{Lhs: []ast.Expr{s.Lhs[i]}, Rhs: []ast.Expr{value}}
		place(s, value, assign)
		if _, ok := s.Lhs[i].(*ast.IdentExpr); ok {
			// The first of several values for one variable is assigned last, and stays.
			variables = append([]ast.Stmt{assign}, variables...)
		} else {
			elements = append(elements, assign)
		}
	}
	block := &ast.DoBlockStmt{Stmts: append(append([]ast.Stmt{values}, elements...), variables...)}
	place(s, values, block)
	return block
}

// isCompiledWrongly reports whether the interpreter may compile an assignment wrongly.
func isCompiledWrongly(s *ast.AssignStmt) bool {
	if len(s.Lhs) == 1 {
		_, isName := s.Lhs[0].(*ast.IdentExpr)
		return isName && len(s.Rhs) == 1 && mayEndWithLeft(s.Rhs[0])
	}
	for _, target := range s.Lhs {
		if _, ok := target.(*ast.IdentExpr); ok {
			return true
		}
	}
	return false
}

// mayEndWithLeft reports whether the value of an expression may be the left side of an `and`.
func mayEndWithLeft(e ast.Expr) bool {
	logical, ok := e.(*ast.LogicalOpExpr)
	return ok && (logical.Operator == "and" || mayEndWithLeft(logical.Rhs))
}

// place gives nodes the place of an assignment in the program.
func place(s *ast.AssignStmt, nodes ...ast.PositionHolder) {
	for _, node := range nodes {
		node.SetLine(s.Line())
		node.SetLastLine(s.LastLine())
	}
}
