package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Task is one leased execution in a worker, from the reply that leased it to the report of its end. services.NewTask
// makes one.
type Task struct {
	attempt
	lastBeat atomic.Pointer[time.Time] // the last call of Heartbeat
	progress progressReports
	// journal holds the results of the execution's steps and waits.
	journal journal
	frames  frameOutput
	logs    logOutput
	usage   budgetUse
	// exited is the error of an attempt whose function ended its goroutine; nil for others.
	exited   error
	overstay overstay
	permit   permitRequest
}

// NewTask returns the task of an execution that a call sent at sentAt has leased from a shard. It keeps claimed, which
// must not be changed any more. Its context is derived from the Base of the run. The caller calls Cancel when the
// attempt has ended.
func (s *services) NewTask(from dispatch.LaneShard, claimed *enginerpc.ClaimedExecution, sentAt time.Time) *Task {
	t := &Task{attempt: attempt{lease: lease{shard: from, source: from, claimed: claimed, begun: time.Now()}, run: s}}
	// A claim from a shard can lease executions of all partitions that share the order of its lane.
	if p, err := claimed.ExecutionID.Partition(); err == nil {
		t.shard.Partition = p
	}
	t.progress.attempt, t.usage.attempt, t.overstay.attempt = &t.attempt, &t.attempt, &t.attempt
	t.logs.task = t
	t.ctx, t.cancel = context.WithCancelCause(s.session.Resume(s.base, claimed.TraceContext))
	t.extendLease(sentAt)
	return t
}

// keepsLease reports whether the worker still holds the lease of a task, by the time at which it asked for it, and ends
// the context of a task that it has lost. The process may have been stopped since: nothing else has noticed then that
// another worker may have the execution.
func (t *Task) keepsLease() bool {
	if t.leaseEnded() {
		t.cancel(engine.ErrLeaseLost)
	}
	return !errors.Is(context.Cause(t.ctx), engine.ErrLeaseLost)
}

// begin is called immediately before the function or the child run of a task begins. The error says why it may not.
func (t *Task) begin() error {
	switch {
	case !t.run.permits.begin(t):
		return errNoRoom
	case !t.keepsLease():
		return engine.ErrLeaseLost
	}
	return nil
}
