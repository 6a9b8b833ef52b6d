package viewtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// auditOf lists the entries that a query selects.
func auditOf(t *testing.T, c *runtime.Client, q runtime.AuditQuery) []fabrictype.AuditEntry {
	t.Helper()
	var entries []fabrictype.AuditEntry
	for e, err := range c.Audit(enginetest.Context(t), q) {
		require.NoError(t, err)
		entries = append(entries, e)
	}
	return entries
}

// Every action that belongs to no run, or removes or moves one, names its actor in the log.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		a := fixture.AddOne()
		b.Worker(t, []activity.Handler{a})
		instance := fixture.Listed(enginetest.Context(t), t, b.Client, "one", fixture.Number(1))[0].Instance
		c := b.Client.As("ann")
		def := fixture.Single(t, a)
		budget := fabrictype.BudgetName{Name: "money"}
		run, err := runtime.Start(ctx, c, def, 1, runtime.WithID("r"))
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, "ann", d.StartedBy)
		later, err := runtime.Start(ctx, c, def, 1, runtime.WithID("later"), runtime.StartAt(time.Now().Add(time.Hour)))
		require.NoError(t, err)

		schedule := func(every time.Duration) error {
			_, err := runtime.Schedule(ctx, c, "nightly", def, 1, runtime.ScheduleConfig{Every: every})
			return err
		}
		for _, step := range []struct {
			action       string
			name, detail string
			do           func() error
		}{
			{auditlink.CreateBudget, "money", "calls: hard 3, soft 0", func() error {
				return c.Budget(budget).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 3}})
			}},
			{auditlink.SetBudget, "money", "calls: hard 4, soft 0", func() error { return c.Budget(budget).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 4}}) }},
			{auditlink.SetBudget, "money", "calls: hard 5, soft 0", func() error {
				state, err := c.Budget(budget).Describe(ctx)
				require.NoError(t, err)
				return c.Budget(state.BudgetName).Replace(ctx, state, flow.BudgetConfig{Hard: map[string]int64{"calls": 5}})
			}},
			{auditlink.ResetBudget, "money", "", func() error { return c.Budget(budget).Reset(ctx) }},
			{auditlink.DeleteBudget, "money", "", func() error { return c.Budget(budget).Delete(ctx) }},
			{auditlink.SetLimit, "crm/eu", "at most 0 per 0s, 7 at once; 0 is no bound", func() error { return c.Limit("crm", "eu").Set(ctx, activity.LimitConfig{AtOnce: 7}) }},
			{auditlink.SetLimit, "crm/eu", "8 at once", func() error {
				state, err := c.Limit("crm", "eu").Describe(ctx)
				require.NoError(t, err)
				return c.Limit(state.Name, state.Key).Replace(ctx, state, activity.LimitConfig{AtOnce: 8})
			}},
			{auditlink.ResetLimit, "crm/eu", "", func() error { return c.Limit("crm", "eu").Reset(ctx) }},
			{auditlink.SetSchedule, "nightly", "", func() error { return schedule(time.Hour) }},
			{auditlink.SetSchedule, "nightly", "", func() error { return schedule(2 * time.Hour) }},
			{auditlink.SetSchedule, "nightly", "", func() error {
				_, err := c.Schedule("nightly").Edit(ctx, func(edit *runtime.ScheduleEdit) error {
					edit.Config.Every = 3 * time.Hour
					return nil
				})
				return err
			}},
			{auditlink.BackfillSchedule, "nightly", "2026-01-01T00:00:00Z to 2026-01-01T06:00:00Z", func() error {
				from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				_, err := c.Schedule("nightly").Backfill(ctx, fabrictype.Backfill{From: from, Until: from.Add(6 * time.Hour)})
				return err
			}},
			{auditlink.PauseSchedule, "nightly", "audit", func() error { return c.Schedule("nightly").Pause(ctx, "audit") }},
			{auditlink.ResumeSchedule, "nightly", "", func() error { return c.Schedule("nightly").Resume(ctx) }},
			{auditlink.TriggerSchedule, "nightly", "", func() error { _, err := c.Schedule("nightly").Trigger(ctx); return err }},
			{auditlink.DeleteSchedule, "nightly", "", func() error { return c.Schedule("nightly").Delete(ctx) }},
			{auditlink.PauseLane, "slow", "why not", func() error { return c.Lane("slow").Pause(ctx, "why not") }},
			{auditlink.ResumeLane, "slow", "", func() error { return c.Lane("slow").Resume(ctx) }},
			{auditlink.PauseActivity, "mail", "", func() error { return c.Activity("mail").Pause(ctx, "") }},
			{auditlink.ResumeActivity, "mail", "", func() error { return c.Activity("mail").Resume(ctx) }},
			{auditlink.WithdrawFlow, "single", "", func() error {
				require.NoError(t, c.Publish(ctx, runtime.Publication{Flow: def}))
				return c.Flow("single").Withdraw(ctx)
			}},
			{auditlink.SetPriority, "single/later", "9", func() error { return later.SetPriority(ctx, 9) }},
			{auditlink.SetPriority, "single/later/only", "8", func() error { return later.SetNodePriority(ctx, "only", 8) }},
			{auditlink.MoveStart, "single/later", "to ", func() error { return later.MoveStart(ctx, time.Now().Add(2*time.Hour)) }},
			{auditlink.PurgeRun, "single/r", "", func() error { return run.Purge(ctx) }},
			{auditlink.StartBulkJob, "job", "purge of runs with flow=single", func() error {
				_, err := c.StartBulkJob(ctx, runtime.RunQuery{Flow: "single", Text: "none"}, fabrictype.BulkAction{Kind: "purge"}, runtime.BulkOptions{ID: "job"})
				return err
			}},
			{auditlink.DrainWorker, instance, "", func() error {
				return c.DrainWorker(ctx, instance)
			}},
			{auditlink.StopBulkJob, "job", "", func() error { return c.BulkJob("job").Stop(ctx) }},
		} {
			require.NoError(t, step.do(), step.action)
			last := auditOf(t, b.Client, runtime.AuditQuery{})[0]
			require.Equal(t, step.action, last.Action)
			require.Equal(t, step.name, last.Name)
			require.Equal(t, "ann", last.Actor)
			require.Contains(t, last.Detail, step.detail)
			require.Empty(t, last.Failure)
			require.False(t, last.At.IsZero())
		}
		before := len(auditOf(t, b.Client, runtime.AuditQuery{}))
		require.NoError(t, func() error {
			_, err := runtime.Schedule(ctx, c, "same", def, 1, runtime.ScheduleConfig{Every: time.Hour})
			return err
		}())
		_, err = runtime.Schedule(ctx, c, "same", def, 1, runtime.ScheduleConfig{Every: time.Hour})
		require.NoError(t, err)
		require.Len(t, auditOf(t, b.Client, runtime.AuditQuery{}), before+1, "an equal declaration is not a change")
		_, err = b.Engine.RotateSecrets(ctx, time.Hour, runtime.WithActor("security"))
		require.NoError(t, err)
		require.Equal(t, "security", auditOf(t, b.Client, runtime.AuditQuery{Action: auditlink.RotateSecrets})[0].Actor)

		require.NoError(t, c.Schedule("same").Delete(ctx))
		require.NoError(t, later.Cancel(ctx, "over"))
		d, err = later.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, "ann", d.CancelledBy)
		b.Settle(t)
	})
}

// An action that fails has an entry with the reason; one that is refused before anything is sent has none.
func TestAuditOfFailures(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		require.ErrorIs(t, b.Client.Schedule("none").Pause(ctx, ""), engine.ErrScheduleNotFound)
		entries := auditOf(t, b.Client, runtime.AuditQuery{})
		require.Len(t, entries, 2)
		require.Equal(t, entries[0].ID, entries[1].ID)
		require.Contains(t, entries[0].Failure, "no such schedule")
		require.Empty(t, entries[1].Failure)
		require.Equal(t, "client", entries[0].Actor)

		require.ErrorIs(t, b.Client.Limit("a b", "").Set(ctx, activity.LimitConfig{}), runtime.ErrInvalid)
		require.ErrorIs(t, b.Client.As("x\n").Lane("l").Pause(ctx, ""), runtime.ErrInvalid)
		require.ErrorIs(t, b.Client.As(strings.Repeat("x", 257)).Limit("l", "").Reset(ctx), runtime.ErrInvalid)
		require.Len(t, auditOf(t, b.Client, runtime.AuditQuery{}), 2)
	})
}

// A log is read from the newest entry on, in pages, by actor, action, name and time. A cursor continues after its
// entry.
func TestAuditQueries(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const n = 230 // more than two pages
		for i := range n {
			c := b.Client.As([]string{"ann", "bob"}[i%2])
			require.NoError(t, c.Limit([]string{"x", "y", "z"}[i%3], "").Reset(ctx))
		}
		require.NoError(t, b.Client.Limit("x", "").Set(ctx, activity.LimitConfig{AtOnce: 1}))
		all := auditOf(t, b.Client, runtime.AuditQuery{})
		require.Len(t, all, n+1)
		require.Equal(t, auditlink.SetLimit, all[0].Action)
		for i := 1; i < len(all); i++ {
			require.False(t, all[i].At.After(all[i-1].At))
		}
		require.Len(t, auditOf(t, b.Client, runtime.AuditQuery{Actor: "bob"}), n/2)
		require.Len(t, auditOf(t, b.Client, runtime.AuditQuery{Name: "z", Action: auditlink.ResetLimit}), n/3)
		require.Equal(t, all[101:], auditOf(t, b.Client, runtime.AuditQuery{After: all[100].Cursor}))
		at := all[50].At
		for _, e := range auditOf(t, b.Client, runtime.AuditQuery{From: at}) {
			require.False(t, e.At.Before(at))
		}
		for _, e := range auditOf(t, b.Client, runtime.AuditQuery{Before: at}) {
			require.True(t, e.At.Before(at))
		}
		for _, err := range b.Client.Audit(ctx, runtime.AuditQuery{After: "yesterday"}) {
			require.ErrorIs(t, err, runtime.ErrCursor)
		}
		stop, cancel := context.WithCancel(ctx)
		cancel()
		for _, err := range b.Client.Audit(stop, runtime.AuditQuery{}) {
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

// The audit log contains the signals of a client that acts for an actor, on every path, but not the signals of
// programs.
func TestSignalsOfActorsAreAudited(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def, handlers := fixture.Gathering(t)
		b.KeepingWorker(t, handlers)
		orders := runtime.WaitName{Node: "orders"}
		order := func(source string) runtime.Signal {
			return runtime.Signal{Name: "order", Payload: 10, Source: source}
		}
		ann := b.Client.As("ann")
		_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithSignal(orders, runtime.Signal{Name: "other"}), runtime.WithID("r"))
		require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount)
		run := b.Client.Run("gathering", "r")
		_, err = run.SignalWait(ctx, orders, runtime.Signal{Name: "other"})
		require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount)
		require.Empty(t, auditOf(t, b.Client, runtime.AuditQuery{Action: auditlink.AnswerWait}))

		_, err = runtime.Start(ctx, ann, def, 1, runtime.WithSignal(orders, runtime.Signal{Name: "other"}), runtime.WithID("r"))
		require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount)
		_, err = ann.Run("gathering", "r").SignalWait(ctx, orders, order("bob"))
		require.NoError(t, err)
		_, err = ann.Run("gathering", "r").SignalWait(ctx, runtime.WaitName{Node: "nowhere"}, order(""))
		require.ErrorIs(t, err, engine.ErrUnknownNode)
		var waits []runtime.Waitpoint
		enginetest.Eventually(t, func() string {
			waits, err = run.Waitpoints(ctx)
			require.NoError(t, err)
			return map[bool]string{false: "the wait is not open"}[len(waits) == 1]
		})
		sent, err := ann.Signal(ctx, waits[0].Token, order("ann"))
		require.NoError(t, err)
		require.Contains(t, []fabrictype.SignalOutcome{fabrictype.SignalAccepted, fabrictype.SignalResumed}, sent.Outcome)

		type entry struct{ name, detail, failure string }
		var got []entry
		for _, e := range auditOf(t, b.Client, runtime.AuditQuery{Action: auditlink.AnswerWait}) {
			require.Equal(t, "ann", e.Actor)
			got = append(got, entry{e.Name, e.Detail, e.Failure})
		}
		require.Len(t, got, 6)
		require.Equal(t, entry{"gathering/r/orders", "order, by a client of the engine", ""}, got[0])
		require.Contains(t, got[1].failure, "no such node")
		require.Equal(t, entry{"gathering/r/nowhere", "order, by a client of the engine", ""}, got[2])
		require.Equal(t, entry{"gathering/r/orders", "order, by a client of the engine; in the name of bob", ""}, got[3])
		require.Contains(t, got[4].failure, "the signal does not count")
		require.Equal(t, entry{"gathering/r/orders", "other, by a client of the engine", ""}, got[5])
	})
}
