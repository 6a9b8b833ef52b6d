package script

import (
	"context"

	lua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/internal/luameter"
)

// instructionCounter counts the instructions of an interpreter: a state with a context asks for its end before each.
type instructionCounter struct {
	context.Context
	meter *luameter.Meter
	state *lua.LState
}

// Done counts an instruction. The context never ends.
func (c *instructionCounter) Done() <-chan struct{} {
	c.meter.Instruction(c.line)
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

// count makes a meter count the work of the interpreter.
func (l *Interpreter) count(meter *luameter.Meter) {
	l.meter = meter
	l.L.SetContext(&instructionCounter{Context: context.Background(), meter: meter, state: l.L})
}
