package script

import (
	"context"
	"reflect"

	lua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/internal/luameter"
)

// instructionCounter counts the instructions of an interpreter: a state with a context asks for its end before each.
type instructionCounter struct {
	context.Context
	meter *luameter.Meter
	state *lua.LState
	// frame is the field of the state with the running function, which the state does not export. The others are the
	// places of fields: the function and its next instruction in a frame, the program in a function, and the
	// instructions in a program.
	frame                       reflect.Value
	function, next, proto, code int
}

// Done counts an instruction. The context never ends.
func (c *instructionCounter) Done() <-chan struct{} {
	c.meter.Instruction(c.line)
	if c.operation() == lua.OP_CONCAT {
		c.meter.Text()
	}
	return nil
}

// line is the line in which the running function begins, 0 if that is the main program of the library.
func (c *instructionCounter) line() int {
	frame, ok := c.state.GetStack(0)
	if !ok {
		return 0
	}
	if _, err := c.state.GetInfo("S", frame, nil); err != nil {
		return 0
	}
	return frame.LineDefined
}

// operation is the kind of the instruction, which the state has read already.
func (c *instructionCounter) operation() int {
	const argumentBits = 26
	frame := c.frame.Elem()
	code := frame.Field(c.function).Elem().Field(c.proto).Elem().Field(c.code)
	return int(code.Index(int(frame.Field(c.next).Int())-1).Uint() >> argumentBits)
}

// newInstructionCounter returns the counter of a state. It panics if the fields that it reads do not exist.
func newInstructionCounter(meter *luameter.Meter, state *lua.LState) *instructionCounter {
	place := func(t reflect.Type, name string) int {
		field, ok := t.FieldByName(name)
		if !ok {
			panic("script: " + t.String() + " has no field " + name)
		}
		return field.Index[0]
	}
	frame := reflect.ValueOf(state).Elem().Field(place(reflect.TypeFor[lua.LState](), "currentFrame"))
	return &instructionCounter{
		Context: context.Background(), meter: meter, state: state, frame: frame,
		function: place(frame.Type().Elem(), "Fn"), next: place(frame.Type().Elem(), "Pc"),
		proto: place(reflect.TypeFor[lua.LFunction](), "Proto"), code: place(reflect.TypeFor[lua.FunctionProto](), "Code"),
	}
}

// count makes a meter count the work of the interpreter.
func (l *Interpreter) count(meter *luameter.Meter) {
	l.meter = meter
	for _, name := range []string{"string", "struct", "cjson", "cmsgpack", "bit"} {
		l.real(l.runScope.RawGetString(name).(*lua.LTable)).ForEach(func(_, v lua.LValue) { l.countTexts(v) })
	}
	l.countTexts(l.real(l.runScope.RawGetString("table").(*lua.LTable)).RawGetString("concat"))
	l.countTexts(l.runScope.RawGetString("tostring"))
	l.L.SetContext(newInstructionCounter(meter, l.L))
}

// countTexts makes the meter count the texts that a function of a standard library returns.
func (l *Interpreter) countTexts(v lua.LValue) {
	fn, ok := v.(*lua.LFunction)
	if !ok {
		return
	}
	plain := fn.GFunction
	fn.GFunction = func(L *lua.LState) int {
		results := plain(L)
		for i := 1; i <= results; i++ {
			if L.Get(-i).Type() == lua.LTString {
				l.meter.Text()
			}
		}
		return results
	}
}
