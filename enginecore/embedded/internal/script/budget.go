package script

import (
	"context"
	"errors"
	"time"
)

// scriptBudget is the state's context. The state asks it for Done before every instruction, which makes it a clock for
// functions that never end: the channel that it returns is closed only to interrupt.
type scriptBudget struct {
	l     *Interpreter
	limit time.Duration

	spent   int
	start   time.Time
	warned  bool
	stopped chan struct{} // nil, or closed once the function has been interrupted
}

// budgetStep is the number of instructions between two checks of the clock.
const budgetStep = 8192

func (b *scriptBudget) begin() {
	b.spent, b.start, b.warned, b.stopped = 0, time.Time{}, false, nil
}

func (b *scriptBudget) end() { b.stopped = nil }

func (b *scriptBudget) spend(n int) { b.spent += n }

// Done implements context.Context. The interpreter asks it between instructions.
func (b *scriptBudget) Done() <-chan struct{} {
	if b.spent++; b.spent < budgetStep {
		return b.stopped
	}
	b.spent = 0
	b.check()
	return b.stopped
}

// check measures from its first call, some microseconds into the function.
func (b *scriptBudget) check() {
	now := time.Now()
	if b.start.IsZero() {
		b.start = now
		return
	}
	if b.warned || now.Sub(b.start) < b.limit {
		return
	}
	b.warned = true
	if b.l.wrote {
		b.l.logger.Warn("embedded: the interpreter continues a function that exceeds its time, as it has written",
			"event", "function.slow", "function", b.l.running, "time_limit", b.limit)
		return
	}
	b.l.logger.Warn("embedded: the interpreter stopped a function that exceeded its time",
		"event", "function.stopped", "function", b.l.running, "time_limit", b.limit)
	b.stopped = make(chan struct{})
	close(b.stopped)
}

func (b *scriptBudget) interrupted() bool { return b.stopped != nil }

// Err implements context.Context: why the script was stopped.
func (b *scriptBudget) Err() error {
	if b.stopped != nil {
		return errTimeout
	}
	return nil
}

// Deadline implements context.Context.
func (b *scriptBudget) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (b *scriptBudget) Value(any) any { return nil }

var errTimeout = errors.New("script timed out")

var _ context.Context = (*scriptBudget)(nil)
