package viewtest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// whyCase is a deployment in which a node waits for one reason. Each case has a separate lane.
type whyCase struct {
	*enginetest.Bench
	t    *testing.T
	ctx  context.Context
	lane string
	gate chan struct{} // functions end when it is closed
}

// pass is an activity of the case whose function ends when the test does.
func (c *whyCase) pass(name string, opts ...activity.Option) *activity.Activity[int, int] {
	return activity.New(name, func(ctx context.Context, n int) (int, error) {
		select {
		case <-c.gate:
		case <-ctx.Done():
		}
		return n, nil
	}, append([]activity.Option{activity.Lane(c.lane)}, opts...)...)
}

func (c *whyCase) worker(handlers ...activity.Handler) {
	c.Worker(c.t, handlers, runtime.WorkerConfig{Lanes: []string{c.lane}, NoKeeper: true})
}

// seen waits until the record of a worker that serves an activity is there.
func (c *whyCase) seen(name string) {
	enginetest.Eventually(c.t, func() string {
		list, err := c.Client.Workers(c.ctx)
		require.NoError(c.t, err)
		for _, w := range list {
			if slices.Contains(w.Activities, name) && slices.Contains(w.Lanes, c.lane) {
				return ""
			}
		}
		return "no worker has reported " + name
	})
}

func (c *whyCase) start(def *flow.Definition[int, int]) *runtime.RunRef {
	run, err := runtime.Start(c.ctx, c.Client, def, 1)
	require.NoError(c.t, err)
	return c.Client.Run(def.Name(), run.ID())
}

// only starts a run whose one node executes an activity.
func (c *whyCase) only(a *activity.Activity[int, int], opts ...flow.NodeOption) *runtime.RunRef {
	f := flow.New[int, int]("flow-" + c.lane)
	flow.Return(f, flow.Node(f, "only", a, f.Input(), opts...))
	return c.start(c.build(f))
}

func (c *whyCase) build(f *flow.Builder[int, int]) *flow.Definition[int, int] {
	def, err := f.Build()
	require.NoError(c.t, err)
	return def
}

// claim takes the one node of a run for a time, as a worker that does not report again.
func (c *whyCase) claim(run *runtime.RunRef, kind string, lease time.Duration) enginecore.ExecutionID {
	p, err := engine.ConnOf(c.Engine.Internal()).FlowPartition(run.FlowID())
	require.NoError(c.t, err)
	claimed, err := engine.ConnOf(c.Engine.Internal()).Claim(c.ctx, enginerpc.ClaimCall{Partition: p, ClaimRequest: enginerpc.ClaimRequest{
		WorkerID: "w", WorkerInstanceID: "w-1", LaneID: enginecore.LaneID(c.lane), ClaimID: uuid.NewString(), LeaseTTL: lease,
		Kinds: "\n" + kind + "\n", Count: 1,
	}})
	require.NoError(c.t, err)
	require.Len(c.t, claimed.Executions, 1)
	return claimed.Executions[0].ExecutionID
}

// gated are the runs of a limit that admits one: the first holds its place, the second waits.
func (c *whyCase) gated(limit activity.LimitConfig) *runtime.RunRef {
	a := c.pass("limited", activity.Limit("limit-"+c.lane, limit))
	c.worker(a)
	first := c.only(a)
	enginetest.Eventually(c.t, func() string {
		d, err := first.Describe(c.ctx)
		require.NoError(c.t, err)
		if d.Nodes[0].State != fabrictype.NodeActive {
			return "the first is " + string(d.Nodes[0].State)
		}
		return ""
	})
	return c.only(a)
}

// whyCases arrange a run whose last node waits for the reason, and check its explanation.
var whyCases = map[string]struct {
	arrange func(*whyCase) *runtime.RunRef
	check   func(*testing.T, *whyCase, fabrictype.Explanation)
}{
	waitreason.Worker: {func(c *whyCase) *runtime.RunRef {
		a := c.pass("busy", activity.ScheduleToStart(time.Hour))
		c.Worker(c.t, []activity.Handler{a}, runtime.WorkerConfig{
			Lanes: []string{c.lane}, NoKeeper: true, Concurrency: 1,
		})
		c.seen("busy")
		first := c.only(a)
		enginetest.Eventually(c.t, func() string {
			d, err := first.Describe(c.ctx)
			require.NoError(c.t, err)
			if d.Nodes[0].State != fabrictype.NodeActive {
				return "the first is " + string(d.Nodes[0].State)
			}
			return ""
		})
		enginetest.Eventually(c.t, func() string {
			list, err := c.Client.Workers(c.ctx)
			require.NoError(c.t, err)
			if slices.ContainsFunc(list, func(w fabrictype.Worker) bool { return w.Used > 0 && w.Lanes[0] == c.lane }) {
				return ""
			}
			return "no worker of the lane has reported that it is in use"
		})
		return c.only(a)
	}, func(t *testing.T, c *whyCase, e fabrictype.Explanation) {
		require.Equal(t, c.lane, e.Subject)
		require.Contains(t, e.Sentence, "lane "+c.lane+" (its worker uses its only slot), until")
		require.Equal(t, time.Hour, e.Until.Sub(e.Since))
	}},
	waitreason.Unserved: {func(c *whyCase) *runtime.RunRef {
		a := c.pass("unserved", activity.ScheduleToStart(time.Hour))
		w := c.Worker(c.t, []activity.Handler{a}, runtime.WorkerConfig{Lanes: []string{c.lane}, NoKeeper: true})
		c.seen("unserved")
		require.NoError(c.t, w.Stop())
		return c.only(a)
	}, func(t *testing.T, c *whyCase, e fabrictype.Explanation) {
		require.Equal(t, [2]string{"unserved", c.lane}, [2]string{e.Subject, e.Key})
		require.NotEmpty(t, e.Detail)
		require.Equal(t, time.Hour, e.Until.Sub(e.Since))
		require.Contains(t, e.Sentence, `no live worker serves activity "unserved" on lane `+c.lane+"; last one seen ")
		require.Contains(t, e.Sentence, "(it has stopped)")
		require.Contains(t, e.Remedy, "start a worker on lane "+c.lane)
	}},
	waitreason.Upstreams: {func(c *whyCase) *runtime.RunRef {
		f := flow.New[int, int]("flow-" + c.lane)
		a := c.pass("unserved")
		first := flow.Node(f, "first", a, f.Input())
		flow.Return(f, flow.Node(f, "second", a, first))
		return c.start(c.build(f))
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, []string{"first"}, e.Names)
		require.Equal(t, "waits for first", e.Sentence)
	}},
	waitreason.Join: {func(c *whyCase) *runtime.RunRef {
		f := flow.New[int, int]("flow-" + c.lane)
		pass := c.pass("unserved")
		a, b := flow.Node(f, "a", pass, f.Input()), flow.Node(f, "b", pass, f.Input())
		flow.Return(f, flow.Node(f, "either", pass, flow.AnyOf(a, b)))
		return c.start(c.build(f))
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, []string{"a", "b"}, e.Names)
		require.Equal(t, 1, e.Need)
		require.Equal(t, "waits for 1 of a, b", e.Sentence)
	}},
	waitreason.LanePaused: {func(c *whyCase) *runtime.RunRef {
		require.NoError(c.t, c.Client.Lane(c.lane).Pause(c.ctx, "maintenance", runtime.WithActor("ann")))
		return c.only(c.pass("unserved"))
	}, func(t *testing.T, c *whyCase, e fabrictype.Explanation) {
		require.Equal(t, [3]string{c.lane, "ann", "maintenance"}, [3]string{e.Subject, e.By, e.Detail})
		require.Equal(t, "lane "+c.lane+" is paused by ann: maintenance", e.Sentence)
		require.Contains(t, e.Remedy, "LaneRef.Resume")
	}},
	waitreason.ActivityPaused: {func(c *whyCase) *runtime.RunRef {
		require.NoError(c.t, c.Client.Activity("stopped").Pause(c.ctx, "it is broken", runtime.WithActor("bob")))
		return c.only(c.pass("stopped"))
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, [3]string{"stopped", "bob", "it is broken"}, [3]string{e.Subject, e.By, e.Detail})
		require.Contains(t, e.Remedy, "ActivityRef.Resume")
	}},
	waitreason.RunPaused: {func(c *whyCase) *runtime.RunRef {
		run := c.only(c.pass("unserved"))
		require.NoError(c.t, run.Pause(c.ctx, "look at it"))
		return run
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, "the run is paused: look at it", e.Sentence)
		require.Contains(t, e.Remedy, "Resume")
	}},
	waitreason.Delay: {func(c *whyCase) *runtime.RunRef {
		a := activity.New("later", func(context.Context, int) (int, error) {
			return 0, activity.DelayUntil(time.Now().Add(time.Hour))
		}, activity.Lane(c.lane))
		c.worker(a)
		return c.only(a)
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.WithinDuration(t, time.Now().Add(time.Hour), e.Until, 30*time.Minute)
	}},
	waitreason.Timer: {func(c *whyCase) *runtime.RunRef {
		f := flow.New[int, struct{}]("sleeps")
		flow.Return(f, flow.Sleep(f, "only", time.Hour))
		def, err := f.Build()
		require.NoError(c.t, err)
		run, err := runtime.Start(c.ctx, c.Client, def, 1)
		require.NoError(c.t, err)
		return run.RunRef
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.WithinDuration(t, time.Now().Add(time.Hour), e.Until, 30*time.Minute)
		require.Contains(t, e.Sentence, "sleeps until ")
		require.Contains(t, e.Remedy, "RunRef.MoveTimer")
	}},
	waitreason.Start: {func(c *whyCase) *runtime.RunRef {
		run, err := runtime.Start(c.ctx, c.Client, fixture.Single(c.t, c.pass("later")), 1, runtime.StartAt(time.Now().Add(time.Hour)))
		require.NoError(c.t, err)
		return run.RunRef
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.WithinDuration(t, time.Now().Add(time.Hour), e.Until, 30*time.Minute)
		require.Contains(t, e.Sentence, "the run starts at ")
		require.Equal(t, "flowfabric run move or RunRef.MoveStart", e.Remedy)
	}},
	waitreason.Retry: {func(c *whyCase) *runtime.RunRef {
		a := activity.New("fails", func(context.Context, int) (int, error) { return 0, errors.New("no route") },
			activity.Lane(c.lane), activity.Retry(activity.RetryPolicy{First: time.Hour, Attempts: 3}))
		c.worker(a)
		return c.only(a)
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, [2]int{2, 3}, [2]int{e.Have, e.Need})
		require.Equal(t, "no route", e.Detail)
		require.WithinDuration(t, time.Now().Add(time.Hour), e.Until, 30*time.Minute)
		require.Contains(t, e.Sentence, "(attempt 2 of 3)")
	}},
	waitreason.Signals: {func(c *whyCase) *runtime.RunRef {
		f := flow.New[int, []activity.Signal[int]]("flow-" + c.lane)
		flow.Return(f, flow.WaitpointSignals[int](f, "approval", activity.Signals("approve"), activity.AtLeast(3),
			activity.Timeout(time.Hour, activity.FailOnTimeout)))
		def, err := f.Build()
		require.NoError(c.t, err)
		run, err := runtime.Start(c.ctx, c.Client, def, 1)
		require.NoError(c.t, err)
		fixture.Send(c.t, c.ctx, c.Bench, fixture.OpenWaits(c.t, c.ctx, run, 1)[0], runtime.Signal{Name: "approve", Payload: 1})
		return c.Client.Run(def.Name(), run.ID())
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, [2]int{1, 3}, [2]int{e.Have, e.Need})
		require.Equal(t, []string{"approve"}, e.Names)
		require.Equal(t, time.Hour, e.Until.Sub(e.Since).Round(time.Minute))
	}},
	waitreason.Escalated: {func(c *whyCase) *runtime.RunRef {
		f := flow.New[int, int]("flow-" + c.lane)
		flow.Return(f, flow.Waitpoint[int](f, "approval", activity.Timeout(time.Millisecond, activity.Escalate)))
		run := c.start(c.build(f))
		c.Keeper(c.t)
		return run
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Contains(t, e.Sentence, "nobody came in time")
	}},
	waitreason.Unregistered: {func(c *whyCase) *runtime.RunRef {
		c.worker(c.pass("known"))
		return c.only(c.pass("unknown"))
	}, func(t *testing.T, c *whyCase, e fabrictype.Explanation) {
		require.Equal(t, "unknown", e.Subject)
		require.Contains(t, e.Remedy, c.lane)
	}},
	waitreason.Capability: {func(c *whyCase) *runtime.RunRef {
		a := c.pass("special")
		c.worker(a)
		return c.only(a, activity.Capabilities("gpu", "ssd"))
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, []string{"gpu", "ssd"}, e.Names)
	}},
	waitreason.WorkerLost: {func(c *whyCase) *runtime.RunRef {
		run := c.only(c.pass("lost"))
		c.claim(run, "lost", 10*time.Millisecond)
		enginetest.Pass(c.t, engine.ConnOf(c.Engine.Internal()), 20*time.Millisecond)
		_, err := c.RunKeeperTask(c.ctx, "lease_expiry") // which is not late then
		require.NoError(c.t, err)
		return run
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, "w-1", e.Subject)
	}},
	waitreason.LeaseRevoked: {func(c *whyCase) *runtime.RunRef {
		run := c.only(c.pass("revoked"))
		id := c.claim(run, "revoked", time.Hour)
		_, err := engine.ConnOf(c.Engine.Internal()).RevokeLease(c.ctx, enginerpc.RevokeLeaseCall{
			WorkerInstanceID: "w-1", ExecutionID: id, RevokeReason: "drill",
		})
		require.NoError(c.t, err)
		return run
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, "drill", e.Detail)
	}},
	waitreason.Operator: {func(c *whyCase) *runtime.RunRef {
		run := c.only(c.pass("unserved"))
		d, err := run.Describe(c.ctx)
		require.NoError(c.t, err)
		_, err = engine.ConnOf(c.Engine.Internal()).BlockExecutionForAdmission(c.ctx, enginerpc.BlockExecutionForAdmissionCall{
			LaneID: enginecore.LaneID(c.lane), ExecutionID: enginecore.ExecutionID(d.Nodes[0].ExecutionID), BlockingReason: "paused_by_operator",
			BlockingDetail: "audit",
		})
		require.NoError(c.t, err)
		return run
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, "audit", e.Detail)
	}},
	waitreason.Limit: {func(c *whyCase) *runtime.RunRef {
		return c.gated(activity.LimitConfig{AtOnce: 1})
	}, func(t *testing.T, c *whyCase, e fabrictype.Explanation) {
		require.Equal(t, [2]int{1, 1}, [2]int{e.Have, e.Need})
		require.Equal(t, "limit-"+c.lane, e.Subject)
		require.Contains(t, e.Sentence, "1 of 1 places are taken")
		require.Contains(t, e.Remedy, "LimitRef.Set")
	}},
	waitreason.RateWindow: {func(c *whyCase) *runtime.RunRef {
		return c.gated(activity.LimitConfig{AtMost: 1, Per: time.Hour})
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, [2]int{1, 1}, [2]int{e.Have, e.Need})
		require.WithinDuration(t, time.Now().Add(time.Hour), e.Until, 30*time.Minute)
		require.Contains(t, e.Sentence, "1 of 1 have started within 1h0m0s, the next may in about")
	}},
	waitreason.Budget: {func(c *whyCase) *runtime.RunRef {
		a := activity.New("spends", func(ctx context.Context, n int) (int, error) {
			return n, activity.ReportUsage(ctx, "calls", 1)
		}, activity.Lane(c.lane))
		f := flow.New[int, int]("flow-"+c.lane, flow.Budget("purse", flow.BudgetConfig{Hard: map[string]int64{"calls": 1}, PerFlow: true, ResetEvery: time.Hour, OnExceeded: flow.BlockNodes}))
		flow.Return(f, flow.Node(f, "only", a, f.Input()))
		def := c.build(f)
		c.worker(a)
		first, err := runtime.Start(c.ctx, c.Client, def, 1)
		require.NoError(c.t, err)
		_, err = first.Result(c.ctx)
		require.NoError(c.t, err)
		return c.start(def)
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, "purse", e.Subject)
		require.WithinDuration(t, time.Now().Add(time.Hour), e.Until, 30*time.Minute)
		require.Contains(t, e.Sentence, "1 of 1 calls used")
	}},
	waitreason.ChildRun: {func(c *whyCase) *runtime.RunRef {
		item := c.pass("item")
		c.worker(item)
		f := flow.New[int, []int]("flow-" + c.lane)
		flow.Return(f, flow.Map(f, "each", item, flow.Const([]int{1})))
		def, err := f.Build()
		require.NoError(c.t, err)
		run, err := runtime.Start(c.ctx, c.Client, def, 1)
		require.NoError(c.t, err)
		return c.Client.Run(def.Name(), run.ID())
	}, func(t *testing.T, c *whyCase, e fabrictype.Explanation) {
		require.Equal(t, "flow-"+c.lane+".each", e.Key)
		require.NotEmpty(t, e.Subject)
	}},
	waitreason.RunOver: {func(c *whyCase) *runtime.RunRef {
		f := flow.New[int, int]("flow-" + c.lane)
		a := c.pass("unserved")
		for i := range 200 { // more than one call ends
			last := flow.Node(f, "n"+strconv.Itoa(i), a, f.Input())
			if i == 199 {
				flow.Return(f, last)
			}
		}
		run := c.start(c.build(f))
		p, err := engine.ConnOf(c.Engine.Internal()).FlowPartition(run.FlowID())
		require.NoError(c.t, err)
		_, err = engine.ConnOf(c.Engine.Internal()).CancelFlow(c.ctx, enginerpc.CancelFlowCall{Partition: p, FlowID: run.FlowID(), Reason: "enough"})
		require.NoError(c.t, err)
		return run
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, "the run has been cancelled: the node is about to end", e.Sentence)
	}},
	waitreason.Undecodable: {func(c *whyCase) *runtime.RunRef {
		// Neither worker can decode the input, and each has another type.
		c.worker(activity.New("odd", func(context.Context, string) (int, error) { return 0, nil }, activity.Lane(c.lane)))
		c.worker(activity.New("odd", func(context.Context, []int) (int, error) { return 0, nil }, activity.Lane(c.lane)))
		enginetest.Eventually(c.t, func() string {
			list, err := c.Client.Workers(c.ctx)
			require.NoError(c.t, err)
			n := 0
			for _, w := range list {
				if slices.Contains(w.Activities, "odd") {
					n++
				}
			}
			if n < 2 {
				return "a worker has not reported"
			}
			return ""
		})
		return c.only(c.pass("odd"))
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.False(t, e.Until.IsZero())
		require.Contains(t, e.Detail, "cannot decode the input")
		require.Contains(t, e.Detail, "has the activity with another input type")
	}},
	waitreason.KeeperOverdue: {func(c *whyCase) *runtime.RunRef {
		a := activity.New("fails", func(context.Context, int) (int, error) { return 0, errors.New("no route") },
			activity.Lane(c.lane), activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2}))
		c.worker(a)
		return c.only(a)
	}, func(t *testing.T, _ *whyCase, e fabrictype.Explanation) {
		require.Equal(t, string(waitreason.Retry), e.Subject)
		require.Contains(t, e.Remedy, "keeper")
	}},
}

// whyOfRecords are reasons that no running deployment shows for long; package explain tests them.
var whyOfRecords = []string{waitreason.Settling, waitreason.Submission, waitreason.Other}

// A node that does not run has its reason with the subject, the time since, and the way to end the wait.
func TestWhy(t *testing.T) {
	t.Parallel()
	for _, reason := range waitreason.All() {
		if _, found := whyCases[reason]; !found {
			require.Contains(t, whyOfRecords, reason, "a reason without a test")
		}
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for reason, test := range whyCases {
			if reason == waitreason.Escalated {
				continue // its keeper would perform overdue work
			}
			t.Run(string(reason), func(t *testing.T) { checkWhy(t, b, reason, test.arrange, test.check) })
		}
		test := whyCases[waitreason.Escalated]
		checkWhy(t, b, waitreason.Escalated, test.arrange, test.check)
	})
}

func checkWhy(
	t *testing.T, b *enginetest.Bench, reason string, arrange func(*whyCase) *runtime.RunRef,
	check func(*testing.T, *whyCase, fabrictype.Explanation),
) {
	gate := make(chan struct{})
	defer close(gate)
	c := &whyCase{Bench: b, t: t, ctx: enginetest.Context(t), lane: "lane-" + string(reason), gate: gate}
	run := arrange(c)
	var n fabrictype.Node
	enginetest.Eventually(t, func() string {
		d, err := run.Describe(c.ctx)
		require.NoError(t, err)
		n = d.Nodes[len(d.Nodes)-1]
		if n.Waiting.Reason != reason {
			return string(n.State) + ": " + string(n.Waiting.Reason) + ": " + n.Waiting.Sentence
		}
		return ""
	})
	require.Equal(t, n.Waiting.Sentence, n.Waiting.Sentence)
	require.NotEmpty(t, n.Waiting.Sentence)
	require.WithinDuration(t, time.Now(), n.Waiting.Since, time.Hour)
	check(t, c, n.Waiting)
}
