package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// leastHeld is the least time until a live reservation is verified again. It also covers the difference between the
// clocks of two servers of a cluster.
const leastHeld = 100 * time.Millisecond

// budgetLoop maintains budgets: it resets the budgets that are due, and completes in the partitions of flows the work
// that a process has left undone at its end.
func (m *maintainer) budgetLoop() *MaintenanceLoop {
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskBudget}, family: keyspace.BudgetFamily,
		Every: m.sweepEvery(), wakesOnDue: true,
		Step: func(ctx context.Context, partitions []keyspace.Partition, _ engine.TaskID) []StepResult {
			calls := make([]enginerpc.BudgetTickCall, len(partitions))
			for i, p := range partitions {
				calls[i] = enginerpc.BudgetTickCall{Partition: p}
			}
			answers, _ := batching.SendAll(ctx, m.maintenance, calls) // each answer has its error
			receivedAt := time.Now()
			results := make([]StepResult, len(partitions))
			for i, a := range answers {
				if results[i].Err = a.Err; a.Err == nil {
					results[i] = m.settleBudgets(ctx, partitions[i], a.Reply)
					results[i].ReceivedAt = receivedAt
				}
			}
			return results
		},
	}
}

// settleBudgets performs the tasks that a budget tick returned for one partition.
func (m *maintainer) settleBudgets(
	ctx context.Context, p keyspace.Partition, reply enginerpc.BudgetTickReply,
) StepResult {
	o := StepResult{Next: untilDue(reply.Now, reply.NextDueAt), faults: reply.Faults}
	o.more = o.Next > 0 && !reply.NextDueAt.After(reply.Now)
	if count := int64(len(reply.Tasks)) + reply.Resets; count > 0 {
		o.done = []taskDone{{task: engine.TaskBudget, count: count}}
	}
	if len(reply.Tasks) == 0 {
		return o
	}
	s := &budgetSettling{
		session: m.Session, partition: p, now: reply.Now, checks: make(map[keyspace.Partition]*budgetChecks),
	}
	for _, task := range reply.Tasks {
		if err := s.settle(ctx, task); err != nil {
			s.failed = errors.Join(s.failed, err)
		}
	}
	s.verify(ctx)
	if len(s.call.Done) > 0 || len(s.call.Over) > 0 {
		s.call.Partition = p
		done, err := m.maintenance.BudgetDone(ctx, s.call)
		s.failed, s.faults = errors.Join(s.failed, err), append(s.faults, done.Faults...)
	}
	o.faults = append(o.faults, s.faults...)
	// Failed tasks become due again by themselves, so the partition reports success.
	if s.failed != nil && ctx.Err() == nil {
		m.Session.Logger.LogAttrs(ctx, slog.LevelWarn,
			"flowfabric: the keeper could not settle the use of a budget and retries",
			observe.EventBudgetFailed.Attr(), slog.Any("error", s.failed))
	}
	return o
}

// budgetSettling collects the work of a keeper for the budgets of one partition.
type budgetSettling struct {
	session   *engine.Session
	partition keyspace.Partition
	now       time.Time
	call      enginerpc.BudgetDoneCall
	checks    map[keyspace.Partition]*budgetChecks
	failed    error
	faults    []enginerpc.ItemFault // items of the calls that could not be worked on
}

// budgetChecks are the verifications to send to one partition of flows.
type budgetChecks struct {
	call   enginerpc.VerifyBudgetUseCall
	leases []string                   // the texts of the leases to check
	held   []enginerpc.BudgetDoneOver // the reservations of the leases
	runs   []string                   // the texts of the runs to check
	ofRuns []submit.GateUpdate        // their budgets
}

// of returns the checks for a partition of flows.
func (s *budgetSettling) of(p keyspace.Partition) *budgetChecks {
	c := s.checks[p]
	if c == nil {
		c = &budgetChecks{call: enginerpc.VerifyBudgetUseCall{Partition: p}}
		s.checks[p] = c
	}
	return c
}

// settle performs one task or adds it to the checks. It drops tasks that it cannot parse.
func (s *budgetSettling) settle(ctx context.Context, task enginerpc.BudgetTask) error {
	if gate, ok := enginerpc.ParseGateTaskText(task.Text); ok {
		return s.gateUpdate(task, gate.BudgetID).Publish(ctx)
	}
	if breach, err := admission.ParseBreach(task.Text); err == nil {
		err = breach.Apply(ctx, s.session)
		if err == nil {
			s.call.Done = append(s.call.Done, admission.FinishedTask(task.Text, time.Time{}))
		}
		return err
	}
	if held, ok := enginerpc.ParseHeldTaskText(task.Text); ok {
		return s.checkReservation(task, held)
	}
	if run, ok := enginerpc.ParseRunTaskText(task.Text); ok {
		return s.checkRun(task, run)
	}
	s.call.Done = append(s.call.Done, admission.FinishedTask(task.Text, time.Time{}))
	return admission.ErrBudgetTask
}

// checkReservation adds the lease of a reservation to the checks.
func (s *budgetSettling) checkReservation(task enginerpc.BudgetTask, held enginerpc.HeldTaskText) error {
	id, ok := enginerpc.ParseReservationIDText(held.ReservationID)
	if !ok {
		return fmt.Errorf("reservation %q: %w", held.ReservationID, admission.ErrBudgetTask)
	}
	p, err := keyspace.PartitionOf(id.ExecutionID)
	if err != nil {
		return err
	}
	c := s.of(p)
	c.leases = append(c.leases, task.Text)
	c.held = append(c.held, enginerpc.BudgetDoneOver{BudgetID: held.BudgetID, Reservation: held.ReservationID})
	c.call.Leases = append(c.call.Leases,
		enginerpc.VerifyBudgetUseLease{ExecutionID: id.ExecutionID, Epoch: int64(id.LeaseEpoch)})
	return nil
}

// checkRun adds the run of a budget to the checks.
func (s *budgetSettling) checkRun(task enginerpc.BudgetTask, run enginerpc.RunTaskText) error {
	p, err := s.session.Core.FlowPartition(task.FlowID)
	if err != nil {
		return err
	}
	c := s.of(p)
	c.runs, c.ofRuns = append(c.runs, task.Text), append(c.ofRuns, s.gateUpdate(task, run.BudgetID))
	c.call.Runs = append(c.call.Runs, enginerpc.VerifyBudgetUseRun{FlowID: task.FlowID})
	return nil
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// gateUpdate returns the state of a task's budget to publish to the partitions of flows.
func (s *budgetSettling) gateUpdate(task enginerpc.BudgetTask, budget enginecore.BudgetID) submit.GateUpdate {
	n := submit.GateUpdate{
		Session: s.session, Partition: s.partition, Budget: budget, Version: task.Gate, Closed: task.Closed,
	}
	if !task.Wide {
		n.Flow = task.FlowID
	}
	return n
}

// verify queries which leases and runs are live, releases the reservations of leases that are not, and removes the
// budgets of runs that have ended.
func (s *budgetSettling) verify(ctx context.Context) {
	for _, c := range s.checks {
		reply, err := s.session.Core.VerifyBudgetUse(ctx, c.call)
		if err != nil {
			s.failed = errors.Join(s.failed, err)
			continue
		}
		s.faults = append(s.faults, reply.Faults...)
		for i, until := range reply.LiveUntil {
			if until > 0 {
				s.call.Done = append(s.call.Done,
					admission.FinishedTask(c.leases[i], latest(time.UnixMilli(until), s.now.Add(leastHeld))))
			} else {
				s.call.Over = append(s.call.Over, c.held[i])
			}
		}
		for i, again := range reply.AgainAt {
			if again > 0 {
				s.call.Done = append(s.call.Done, admission.FinishedTask(c.runs[i], time.UnixMilli(again)))
				continue
			}
			s.failed = errors.Join(s.failed, c.ofRuns[i].Remove(ctx))
		}
	}
}
