package script

import (
	"errors"
	"time"
)

// scriptBudget is a clock for functions that never end. They spend of it at checkpoints and with each command; it looks
// at the time once they have spent a step.
type scriptBudget struct {
	l     *Interpreter
	limit time.Duration

	spent   int
	start   time.Time
	used    time.Duration // processor time of the process at start
	warned  bool
	stopped bool // the function has been interrupted
}

const (
	// budgetStep is the cost that a function spends between two readings of the time.
	budgetStep = 8192
	// checkpointCost and commandCost are the costs of a checkpoint and of a command.
	checkpointCost, commandCost = 16, 64
)

func (b *scriptBudget) begin() {
	b.spent, b.start, b.warned, b.stopped = 0, time.Time{}, false, false
}

func (b *scriptBudget) end() { b.stopped = false }

func (b *scriptBudget) spend(n int) {
	if b.spent += n; b.spent >= budgetStep {
		b.spent = 0
		b.check()
	}
}

// check measures from its first call, some microseconds into the function.
func (b *scriptBudget) check() {
	now := time.Now()
	if b.start.IsZero() {
		b.start, b.used = now, processorTime()
		return
	}
	if b.warned || now.Sub(b.start) < b.limit || b.starved() {
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
	b.stopped = true
}

// starved reports whether the function cannot have run for the limit, whatever the clock shows: the whole process has
// used less processor time, as on a machine that is busy with other work.
func (b *scriptBudget) starved() bool {
	used := processorTime()
	return used > 0 && used-b.used < b.limit
}

// interrupted reports whether the running function has to end.
func (b *scriptBudget) interrupted() bool { return b.stopped }

var errTimeout = errors.New("script timed out")
