// Package luameter counts the work of the function library in embedded engines, for tests that bound it.
package luameter

import (
	"context"
	"maps"
	"sync/atomic"
)

// Counts are sums over calls of functions.
type Counts struct {
	// Calls are calls of functions by clients.
	Calls int64
	// Instructions are the instructions of the interpreter.
	Instructions int64
	// Commands are the commands that functions ran.
	Commands int64
	// Texts are the texts that were made: arguments, replies of commands, results of the standard libraries, and
	// concatenations.
	Texts int64
}

// Since returns the counts that were added after before was read.
func (c Counts) Since(before Counts) Counts {
	return Counts{
		Calls: c.Calls - before.Calls, Instructions: c.Instructions - before.Instructions,
		Commands: c.Commands - before.Commands, Texts: c.Texts - before.Texts,
	}
}

// Meter counts in the engines that are opened with a context of With. Their functions run as they are written: an
// engine without a meter adds instructions that end functions which run for too long, and saves others. The zero value
// has counted nothing.
type Meter struct {
	calls, instructions, commands, texts atomic.Int64
	// byFunction has the instructions by the line in which the running function begins; nil without CountFunctions.
	byFunction map[int]int64
}

// CountFunctions makes the meter count by functions, too, which is slow. It has to be called before With, and one
// engine may be opened with the meter.
func (m *Meter) CountFunctions() { m.byFunction = make(map[int]int64) }

// Counts returns the sums so far. They include a call whose reply has been received.
func (m *Meter) Counts() Counts {
	return Counts{
		Calls: m.calls.Load(), Instructions: m.instructions.Load(), Commands: m.commands.Load(), Texts: m.texts.Load(),
	}
}

// Functions returns the instructions by the line of the library in which the running function begins. No call may be
// under way.
func (m *Meter) Functions() map[int]int64 { return maps.Clone(m.byFunction) }

// Call counts a call of a function.
func (m *Meter) Call() { m.calls.Add(1) }

// Command counts a command that a function runs.
func (m *Meter) Command() { m.commands.Add(1) }

// Text counts a text.
func (m *Meter) Text() { m.texts.Add(1) }

// Instruction counts an instruction. line returns the line in which the running function begins.
func (m *Meter) Instruction(line func() int) {
	m.instructions.Add(1)
	if m.byFunction != nil {
		m.byFunction[line()]++
	}
}

type key struct{}

// With returns a context with which embedded.Open opens an engine that the meter counts.
func With(ctx context.Context, m *Meter) context.Context { return context.WithValue(ctx, key{}, m) }

// Of returns the meter of a context, nil if it has none.
func Of(ctx context.Context) *Meter {
	m, _ := ctx.Value(key{}).(*Meter)
	return m
}
