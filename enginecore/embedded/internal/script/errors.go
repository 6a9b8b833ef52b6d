package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

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
