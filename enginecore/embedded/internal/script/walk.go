package script

import "github.com/yuin/gopher-lua/ast"

// walker visits all parts of a program. Its hooks may change their arguments; all of them have to be set.
type walker struct {
	// binds is called with local names that are declared.
	binds func(names []string)
	// reads is called with each expression whose value is used, before its parts.
	reads func(e *ast.Expr)
	// loops is called with the body of each loop and the line at which it begins.
	loops func(body []ast.Stmt, line int) []ast.Stmt
	// jumps is called with each goto and returns the statements that replace it.
	jumps func(s *ast.GotoStmt) []ast.Stmt
	// assigns is called with each assignment, after its parts, and returns the statement that replaces it.
	assigns func(s *ast.AssignStmt) ast.Stmt
	// functions is called with each function. It calls visit for the parts of the function, and has the name that the
	// function is stored under, or an empty one.
	functions func(name string, f *ast.FunctionExpr, visit func())
}

func (w *walker) block(stmts []ast.Stmt) []ast.Stmt {
	out := make([]ast.Stmt, 0, len(stmts))
	for _, s := range stmts {
		if jump, ok := s.(*ast.GotoStmt); ok {
			out = append(out, w.jumps(jump)...)
			continue
		}
		w.statement(s)
		if assignment, ok := s.(*ast.AssignStmt); ok {
			s = w.assigns(assignment)
		}
		out = append(out, s)
	}
	return out
}

func (w *walker) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		for i := range s.Lhs {
			w.target(s.Lhs[i])
		}
		w.values(s.Rhs, func(i int) string { return storedName(s.Lhs, i) })
	case *ast.LocalAssignStmt:
		w.binds(s.Names)
		w.values(s.Exprs, func(i int) string {
			if i < len(s.Names) {
				return s.Names[i]
			}
			return ""
		})
	case *ast.FuncCallStmt:
		w.expression(&s.Expr)
	case *ast.DoBlockStmt:
		s.Stmts = w.block(s.Stmts)
	case *ast.WhileStmt:
		w.expression(&s.Condition)
		s.Stmts = w.loops(w.block(s.Stmts), s.Line())
	case *ast.RepeatStmt:
		s.Stmts = w.loops(w.block(s.Stmts), s.Line())
		w.expression(&s.Condition)
	case *ast.IfStmt:
		w.expression(&s.Condition)
		s.Then, s.Else = w.block(s.Then), w.block(s.Else)
	case *ast.NumberForStmt:
		w.binds([]string{s.Name})
		w.expression(&s.Init)
		w.expression(&s.Limit)
		w.expression(&s.Step)
		s.Stmts = w.loops(w.block(s.Stmts), s.Line())
	case *ast.GenericForStmt:
		w.binds(s.Names)
		w.expressions(s.Exprs)
		s.Stmts = w.loops(w.block(s.Stmts), s.Line())
	case *ast.FuncDefStmt:
		name := ":" + s.Name.Method
		if s.Name.Func != nil {
			w.target(s.Name.Func)
			name = calledName(s.Name.Func)
		}
		if s.Name.Receiver != nil {
			w.expression(&s.Name.Receiver)
		}
		w.function(name, s.Func)
	case *ast.ReturnStmt:
		w.expressions(s.Exprs)
	}
}

// target visits the target of an assignment, which is not read itself.
func (w *walker) target(e ast.Expr) {
	if field, ok := e.(*ast.AttrGetExpr); ok {
		w.expression(&field.Object)
		w.expression(&field.Key)
	}
}

// values visits expressions that are stored under names.
func (w *walker) values(list []ast.Expr, name func(i int) string) {
	for i := range list {
		if f, ok := list[i].(*ast.FunctionExpr); ok {
			w.function(name(i), f)
			continue
		}
		w.expression(&list[i])
	}
}

func (w *walker) expressions(list []ast.Expr) {
	for i := range list {
		w.expression(&list[i])
	}
}

func (w *walker) expression(at *ast.Expr) {
	if *at == nil {
		return
	}
	w.reads(at)
	switch e := (*at).(type) {
	case *ast.AttrGetExpr:
		w.expression(&e.Object)
		w.expression(&e.Key)
	case *ast.TableExpr:
		for _, field := range e.Fields {
			w.expression(&field.Key)
			w.expression(&field.Value)
		}
	case *ast.FuncCallExpr:
		w.expression(&e.Func)
		w.expression(&e.Receiver)
		w.expressions(e.Args)
	case *ast.LogicalOpExpr:
		w.expression(&e.Lhs)
		w.expression(&e.Rhs)
	case *ast.RelationalOpExpr:
		w.expression(&e.Lhs)
		w.expression(&e.Rhs)
	case *ast.StringConcatOpExpr:
		w.expression(&e.Lhs)
		w.expression(&e.Rhs)
	case *ast.ArithmeticOpExpr:
		w.expression(&e.Lhs)
		w.expression(&e.Rhs)
	case *ast.UnaryMinusOpExpr:
		w.expression(&e.Expr)
	case *ast.UnaryNotOpExpr:
		w.expression(&e.Expr)
	case *ast.UnaryLenOpExpr:
		w.expression(&e.Expr)
	case *ast.FunctionExpr:
		w.function("", e)
	}
}

func (w *walker) function(name string, f *ast.FunctionExpr) {
	w.binds(f.ParList.Names)
	w.functions(name, f, func() { f.Stmts = w.block(f.Stmts) })
}

// calledName is the name of a function in a call: a plain name, one with the name of its table, or empty for others.
func calledName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.IdentExpr:
		return e.Value
	case *ast.AttrGetExpr:
		object, isName := e.Object.(*ast.IdentExpr)
		key, isText := e.Key.(*ast.StringExpr)
		if isName && isText {
			return object.Value + "." + key.Value
		}
	}
	return ""
}

func storedName(targets []ast.Expr, i int) string {
	if i < len(targets) {
		return calledName(targets[i])
	}
	return ""
}
