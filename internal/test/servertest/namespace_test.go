package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// foreign has the names of objects in another namespace.
type foreign struct {
	flow, run, node string
	wait            runtime.Waitpoint
	budget          fabrictype.BudgetName
	limit, schedule string
	// bulkJob is an id that both namespaces use, theirJob one that only the other one does.
	bulkJob, theirJob string
}

// acrossNamespaces are the methods of a client and of its references, called with the names of another namespace,
// and the error that each must return. A nil error means that the call finds nothing to do, or does it in the namespace
// of the caller.
var acrossNamespaces = map[string]struct {
	call func(context.Context, *runtime.Client, foreign) error
	want error
}{
	"Cancel": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).Cancel(ctx, "")
	}, engine.ErrRunNotFound},
	"CancelNode": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).CancelNode(ctx, x.node, "")
	}, engine.ErrUnknownNode},
	"CancelPending": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).CancelPending(ctx, "")
	}, engine.ErrRunNotFound},
	"CancelWait": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).CancelWait(ctx, x.wait, "")
	}, engine.ErrWaitOver},
	"ResumeWait": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).ResumeWait(ctx, x.wait, 0)
	}, engine.ErrWaitOver},
	"Describe": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Run(x.flow, x.run).Describe(ctx)
		return err
	}, engine.ErrRunNotFound},
	"Diff": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Run(x.flow, x.run).Diff(ctx, c.Run(x.flow, x.run))
		return err
	}, engine.ErrRunNotFound},
	"DescribeNode": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Run(x.flow, x.run).DescribeNode(ctx, x.node)
		return err
	}, engine.ErrRunNotFound},
	"Pause": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).Pause(ctx, "")
	}, engine.ErrRunNotFound},
	"Resume": {func(ctx context.Context, c *runtime.Client, x foreign) error { return c.Run(x.flow, x.run).Resume(ctx) }, engine.ErrRunNotFound},
	"Purge":  {func(ctx context.Context, c *runtime.Client, x foreign) error { return c.Run(x.flow, x.run).Purge(ctx) }, engine.ErrRunNotFound},
	"PurgeIfClosedAt": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).PurgeIfClosedAt(ctx, time.Now())
	}, engine.ErrRunNotFound},
	"Rerun": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).Rerun(ctx, fabrictype.RerunAll)
	}, engine.ErrRunNotFound},
	"SetPriority": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).SetPriority(ctx, 9)
	}, engine.ErrRunNotFound},
	"Value": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Run(x.flow, x.run).Value(ctx, x.node, "key")
		return err
	}, engine.ErrRunNotFound},
	"Logs": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return errorOf2(c.Run(x.flow, x.run).Logs(ctx, x.node, runtime.LogQuery{}))
	}, engine.ErrRunNotFound},
	"MoveStart": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).MoveStart(ctx, time.Time{})
	}, engine.ErrRunNotFound},
	"MoveTimer": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).MoveTimer(ctx, x.node, time.Now().Add(time.Hour))
	}, engine.ErrRunNotFound},
	"SkipTimer": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).SkipTimer(ctx, x.node)
	}, engine.ErrRunNotFound},
	"Turns": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Run(x.flow, x.run).Turns(ctx, x.node)
		return err
	}, engine.ErrRunNotFound},
	"SignalWait": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Run(x.flow, x.run).SignalWait(ctx, runtime.WaitName{Node: x.node}, runtime.Signal{Name: "s"})
		return err
	}, engine.ErrRunNotFound},
	"SetNodePriority": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Run(x.flow, x.run).SetNodePriority(ctx, x.node, 9)
	}, engine.ErrRunNotFound},
	"Waitpoints": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Run(x.flow, x.run).Waitpoints(ctx)
		return err
	}, engine.ErrRunNotFound},
	"AllWaitpoints": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Run(x.flow, x.run).AllWaitpoints(ctx)
		return err
	}, engine.ErrRunNotFound},
	"ReceivedSignals": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		for _, err := range c.Run(x.flow, x.run).ReceivedSignals(ctx, x.wait) {
			return err
		}
		return nil
	}, engine.ErrWaitOver},
	"CompleteSearch": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return noneOf(c.CompleteSearch(ctx, x.flow))
	}, nil},
	"Waits": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return none2(c.Waits(ctx, runtime.WaitQuery{}))
	}, nil},
	"ListWaits": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		page, err := c.ListWaits(ctx, runtime.WaitQuery{}, "", 0)
		return noneOf(page.Items, err)
	}, nil},
	"Audit": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		for e, err := range c.Audit(ctx, runtime.AuditQuery{Actor: "them"}) {
			return noneOf([]fabrictype.AuditEntry{e}, err)
		}
		return nil
	}, nil},
	"Items": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return errorOf2(c.Run(x.flow, x.run).Items(ctx, x.node, 0))
	}, engine.ErrRunNotFound},
	"Watch": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return errorOf2(c.Run(x.flow, x.run).Watch(ctx, ""))
	}, engine.ErrRunNotFound},
	"Stream": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return errorOf2(c.Run(x.flow, x.run).Stream(ctx, x.node, ""))
	}, engine.ErrRunNotFound},
	"Frames": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return errorOf2(c.Run(x.flow, x.run).Frames(ctx, x.node, ""))
	}, engine.ErrRunNotFound},
	"Runs": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return none2(c.Runs(ctx, runtime.RunQuery{Flow: x.flow}))
	}, nil},
	"ListRuns": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		all, err := c.ListRuns(ctx, runtime.RunQuery{}, "", 0)
		ofFlow, flowErr := c.ListRuns(ctx, runtime.RunQuery{Flow: x.flow}, "", 0)
		return noneOf(append(all.Items, ofFlow.Items...), errors.Join(err, flowErr))
	}, nil},
	"Feed": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		feed, err := c.Feed(ctx, runtime.FeedFilter{Flow: x.flow}, "")
		if err == nil {
			feed.Close()
		}
		return err
	}, nil},
	"Counts": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		all, err := c.Counts(ctx, runtime.RunQuery{})
		ofFlow, flowErr := c.Counts(ctx, runtime.RunQuery{Flow: x.flow})
		return noneOf(append(all, ofFlow...), errors.Join(err, flowErr))
	}, nil},

	"Flows": {func(ctx context.Context, c *runtime.Client, x foreign) error { return noneOf(c.Flows(ctx)) }, nil},
	"FlowRef.Describe": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Flow(x.flow).Describe(ctx)
		return err
	}, enginecore.ErrFlowNotPublished},
	"FlowRef.Start": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Flow(x.flow).Start(ctx, []byte("1"))
		return err
	}, enginecore.ErrFlowNotPublished},
	"FlowRef.StartMany": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Flow(x.flow).StartMany(ctx, []runtime.NewRun[json.RawMessage]{{Input: []byte("1")}})
		return err
	}, enginecore.ErrFlowNotPublished},
	"FlowRef.Withdraw": {func(ctx context.Context, c *runtime.Client, x foreign) error { return c.Flow(x.flow).Withdraw(ctx) }, nil},

	"BudgetRef.Describe": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Budget(x.budget).Describe(ctx)
		return err
	}, engine.ErrBudgetNotFound},
	"Budgets": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		list, err := c.Budgets(ctx)
		return noneOf(list, err)
	}, nil},
	"BudgetRef.Reset":  {func(ctx context.Context, c *runtime.Client, x foreign) error { return c.Budget(x.budget).Reset(ctx) }, engine.ErrBudgetNotFound},
	"BudgetRef.Delete": {func(ctx context.Context, c *runtime.Client, x foreign) error { return c.Budget(x.budget).Delete(ctx) }, nil},
	"BudgetRef.Create": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return errors.Join(c.Budget(x.budget).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 1}}), c.Budget(x.budget).Delete(ctx))
	}, nil},
	"BudgetRef.Set": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return errors.Join(c.Budget(x.budget).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 1}}), c.Budget(x.budget).Delete(ctx))
	}, nil},
	"LimitRef.Set": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Limit(x.limit, "").Set(ctx, activity.LimitConfig{AtOnce: 1})
	}, nil},
	"LimitRef.Describe": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		// Set and Reset, which may come first, make a limit of that name in this namespace.
		found, err := c.Limit(x.limit, "").Describe(ctx)
		if err == nil && found.AtOnce == 7 {
			return errors.New("it is the limit of another namespace")
		}
		if errors.Is(err, engine.ErrLimitNotFound) {
			return nil
		}
		return err
	}, nil},
	"LimitRef.Replace": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Limit(x.limit+"-absent", "").Replace(ctx, fabrictype.Limit{Name: x.limit + "-absent"}, activity.LimitConfig{AtOnce: 1})
	}, enginecore.ErrChangedMeanwhile},
	"BudgetRef.Replace": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Budget(x.budget).Replace(ctx, fabrictype.Budget{BudgetName: x.budget}, flow.BudgetConfig{Hard: map[string]int64{"calls": 1}})
	}, enginecore.ErrChangedMeanwhile},
	"FlowRef.Schedule": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Flow(x.flow).Schedule(ctx, x.schedule, []byte("1"), runtime.ScheduleConfig{Every: time.Hour})
		return err
	}, enginecore.ErrFlowNotPublished},
	"LimitRef.Reset": {func(ctx context.Context, c *runtime.Client, x foreign) error { return c.Limit(x.limit, "").Reset(ctx) }, nil},
	"Limits": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		list, err := c.Limits(ctx)
		for _, q := range list {
			if q.AtOnce == 7 {
				return fmt.Errorf("limit %s of another namespace is listed", q.Name)
			}
		}
		return err
	}, nil},

	"Fork": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Run(x.flow, x.run).Fork(ctx, runtime.ForkOptions{})
		return err
	}, engine.ErrRunNotFound},
	"Forks": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		for _, err := range c.Run(x.flow, x.run).Forks(ctx) {
			return fmt.Errorf("something of another namespace is listed: %w", err)
		}
		return nil
	}, nil},
	"FlowRef.RunKey": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		state, err := c.Flow(x.flow).RunKey(ctx, "customer")
		return noneOf(state.Open, err)
	}, nil},

	"StartBulkJob": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		job, err := c.StartBulkJob(ctx, runtime.RunQuery{}, fabrictype.BulkAction{Kind: "cancel", Reason: "all"}, runtime.BulkOptions{})
		if err != nil {
			return err
		}
		_, err = c.StartBulkJob(ctx, runtime.RunQuery{Flow: x.flow}, fabrictype.BulkAction{Kind: "cancel", Reason: "all"}, runtime.BulkOptions{ID: x.bulkJob})
		return errors.Join(err, c.BulkJob(job.ID).Stop(ctx))
	}, nil},
	"PreviewBulkJob": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		preview, err := c.PreviewBulkJob(ctx, runtime.RunQuery{Flow: x.flow}, fabrictype.BulkAction{Kind: "purge"}, runtime.BulkOptions{})
		if err != nil {
			return err
		}
		return noneOf(preview.Sample, nil)
	}, nil},
	"BulkJobRef.Describe": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.BulkJob(x.theirJob).Describe(ctx)
		return err
	}, engine.ErrBulkJobNotFound},
	"BulkJobRef.Stop": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.BulkJob(x.theirJob).Stop(ctx)
	}, engine.ErrBulkJobNotFound},
	"BulkJobs": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		for job, err := range c.BulkJobs(ctx) {
			if err != nil {
				return err
			}
			if job.ID == x.theirJob {
				return fmt.Errorf("bulk job %s of another namespace is listed", job.ID)
			}
		}
		return nil
	}, nil},

	"Schedules": {func(ctx context.Context, c *runtime.Client, x foreign) error { return none2(c.Schedules(ctx)) }, nil},
	"ScheduleRef.Describe": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Schedule(x.schedule).Describe(ctx)
		return err
	}, engine.ErrScheduleNotFound},
	"ScheduleRef.Input": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Schedule(x.schedule).Input(ctx)
		return err
	}, engine.ErrScheduleNotFound},
	"ScheduleRef.Pause": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Schedule(x.schedule).Pause(ctx, "")
	}, engine.ErrScheduleNotFound},
	"ScheduleRef.Resume": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Schedule(x.schedule).Resume(ctx)
	}, engine.ErrScheduleNotFound},
	"ScheduleRef.Trigger": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Schedule(x.schedule).Trigger(ctx)
		return err
	}, engine.ErrScheduleNotFound},
	"ScheduleRef.Backfill": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		now := time.Now()
		_, err := c.Schedule(x.schedule).Backfill(ctx, fabrictype.Backfill{From: now.Add(-time.Hour), Until: now})
		return err
	}, engine.ErrScheduleNotFound},
	"ScheduleRef.Edit": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Schedule(x.schedule).Edit(ctx, func(e *runtime.ScheduleEdit) error { return nil })
		return err
	}, engine.ErrScheduleNotFound},
	"ScheduleRef.Next": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		_, err := c.Schedule(x.schedule).Next(ctx, 1)
		return err
	}, engine.ErrScheduleNotFound},
	"ScheduleRef.Delete": {func(ctx context.Context, c *runtime.Client, x foreign) error {
		return c.Schedule(x.schedule).Delete(ctx)
	}, engine.ErrScheduleNotFound},
}

// ofAllNamespaces are the methods of a client and of its references that are not bound to a namespace, and why.
var ofAllNamespaces = map[string]string{
	"Close":    "ends the client itself",
	"Internal": "it sends nothing",
	"Signal":   "the token gives the right, wherever the run is", "Waitpoint": "the token gives the right, wherever the run is",
	"Publish": "it names the flow that it publishes", "Workers": "workers belong to all", "DrainWorker": "workers belong to all",
	"Lanes": "lanes belong to all", "LaneRef.Pause": "lanes belong to all", "LaneRef.Resume": "lanes belong to all",
	"Pauses": "lanes belong to all", "ActivityRef.Pause": "activities belong to all", "ActivityRef.Resume": "activities belong to all",
	"Schedule": "it sends nothing", "Budget": "it sends nothing", "Limit": "it sends nothing", "Lane": "it sends nothing",
	"Activity": "it sends nothing", "BulkJob": "it sends nothing", "Flow": "it sends nothing",
	"As": "it sends nothing", "Use": "it sends nothing", "Run": "it sends nothing", "FlowName": "it sends nothing", "ID": "it sends nothing", "FlowID": "it sends nothing",
}

// errorOf2 is the error of a sequence.
func errorOf2[T any](list func(func(T, error) bool)) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// none2 is the error of a sequence that must be empty.
func none2[T any](list func(func(T, error) bool)) error {
	for x, err := range list {
		return noneOf([]T{x}, err)
	}
	return nil
}

func noneOf[T any](list []T, err error) error {
	if err == nil && len(list) > 0 {
		return fmt.Errorf("something of another namespace is listed: %+v", list)
	}
	return err
}

// A call with the names, or with the ids, of another namespace finds nothing and changes nothing. The tables contain
// each method of a client and of its references, also the methods that belong to all namespaces by their nature.
func TestNamespacesAreApart(t *testing.T) {
	t.Parallel()
	for handle, prefix := range map[reflect.Type]string{
		reflect.TypeFor[*runtime.Client](): "", reflect.TypeFor[*runtime.RunRef](): "",
		reflect.TypeFor[*runtime.ScheduleRef](): "ScheduleRef.", reflect.TypeFor[*runtime.BudgetRef](): "BudgetRef.",
		reflect.TypeFor[*runtime.LimitRef](): "LimitRef.", reflect.TypeFor[*runtime.LaneRef](): "LaneRef.",
		reflect.TypeFor[*runtime.ActivityRef](): "ActivityRef.", reflect.TypeFor[*runtime.BulkJobRef](): "BulkJobRef.",
		reflect.TypeFor[*runtime.FlowRef](): "FlowRef.",
	} {
		for i := range handle.NumMethod() {
			name := prefix + handle.Method(i).Name
			_, apart := acrossNamespaces[name]
			_, shared := ofAllNamespaces[name]
			require.True(t, apart != shared, "%s.%s: add its behaviour across namespaces to one of the tables", handle, name)
		}
	}
	enginetest.Each(t, func(t *testing.T, ours *enginetest.Bench) {
		if ours.Kind == testserver.Embedded {
			t.Skip("an engine in memory has one namespace")
		}
		ctx := enginetest.Context(t)
		theirs := enginetest.Open(t, ours.Kind, ours.URL, ours.Prefix, runtime.OpenConfig{Namespace: "theirs"})
		f := flow.New[int, int]("gate", flow.Budget("money", flow.BudgetConfig{Hard: map[string]int64{"calls": 3}}))
		ok := flow.Waitpoint[int](f, "ok")
		work := activity.New("work", func(_ context.Context, n int) (int, error) { return n, nil })
		flow.Return(f, flow.Node(f, "work", work, ok, activity.Limit("few", activity.LimitConfig{AtOnce: 5})))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, theirs.Client, def, 1, runtime.WithID("r1"))
		require.NoError(t, err)
		_, err = runtime.Start(ctx, theirs.Client, def, 2, runtime.WithKey("customer", runtime.KeyPolicy{}))
		require.NoError(t, err)
		shared := fabrictype.BudgetName{Name: "shared"}
		require.NoError(t, theirs.Client.Publish(ctx, runtime.Publication{Flow: def}))
		require.NoError(t, theirs.Client.Budget(shared).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 4}}))
		require.NoError(t, theirs.Client.As("them").Limit("few", "").Set(ctx, activity.LimitConfig{AtOnce: 7}))
		_, err = runtime.Schedule(ctx, theirs.Client, "nightly", def, 1, runtime.ScheduleConfig{Every: time.Hour})
		require.NoError(t, err)
		for _, id := range []string{"same", "theirs"} {
			_, err = theirs.Client.StartBulkJob(ctx, runtime.RunQuery{Flow: "none"}, fabrictype.BulkAction{Kind: "purge"}, runtime.BulkOptions{ID: id})
			require.NoError(t, err)
		}
		x := foreign{bulkJob: "same", theirJob: "theirs", flow: "gate", run: "r1", node: "ok", budget: shared, limit: "few", schedule: "nightly"}
		// Ids follow from names, so a caller who knows the names knows the ids.
		id := keyspace.FlowIDFor("theirs", x.flow, x.run)
		p, err := engine.ConnOf(ours.Engine.Internal()).FlowPartition(id)
		require.NoError(t, err)
		x.wait = runtime.Waitpoint{Wait: fabrictype.Wait{
			ExecutionID: string(keyspace.NodeExecutionID(p, id, 1)), ID: string(keyspace.WaitpointIDFor(id, "ok")),
		}}
		view := func() []any {
			c := theirs.Client
			described, err := c.Run(x.flow, x.run).Describe(ctx)
			require.NoError(t, err)
			waits, err := c.Run(x.flow, x.run).AllWaitpoints(ctx)
			require.NoError(t, err)
			published, err := c.Flow(x.flow).Describe(ctx)
			require.NoError(t, err)
			budgets, err := c.Budgets(ctx)
			require.NoError(t, err)
			quotas, err := c.Limits(ctx)
			require.NoError(t, err)
			schedule, err := c.Schedule(x.schedule).Describe(ctx)
			require.NoError(t, err)
			job, err := c.BulkJob(x.bulkJob).Describe(ctx)
			require.NoError(t, err)
			return []any{described, waits, published, budgets, quotas, schedule, job}
		}
		before := view()
		for name, m := range acrossNamespaces {
			if err := m.call(ctx, ours.Client, x); m.want == nil {
				assert.NoError(t, err, name)
			} else {
				assert.ErrorIs(t, err, m.want, name)
			}
			require.Equal(t, before, view(), "%s changed something of another namespace", name)
		}
		theirs.Worker(t, []activity.Handler{work})
		require.NoError(t, run.ResumeWait(ctx, x.wait, 5), "their own client may")
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, out)
	}, runtime.OpenConfig{Namespace: "ours"})
}

// A wait of another namespace, or of another run than the one that is named, is one that is not there.
func TestWaitsOfOthersAreUnknown(t *testing.T) {
	t.Parallel()
	def := fixture.Waiter(t, "others")
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("here"))
		require.NoError(t, err)
		w := fixture.OpenWaits(t, ctx, run, 1)[0]
		before := fixture.Contents(t, ctx, b)
		unknown := w
		unknown.ExecutionID = string(keyspace.NewExecutionID(keyspace.Partition{Family: keyspace.FlowFamily}))
		for _, end := range []func(*runtime.RunRef, runtime.Waitpoint) error{
			func(r *runtime.RunRef, w runtime.Waitpoint) error { return r.ResumeWait(ctx, w, 0) },
			func(r *runtime.RunRef, w runtime.Waitpoint) error { return r.CancelWait(ctx, w, "") },
		} {
			for _, elsewhere := range []*runtime.RunRef{b.Client.Run("others", "there"), b.Client.Run("other", "here"), b.Client.Run("", "here")} {
				err := end(elsewhere, w)
				require.ErrorIs(t, err, engine.ErrWaitOver)
				require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
			}
			require.ErrorIs(t, end(run.RunRef, unknown), enginecore.ErrExecutionNotFound)
		}
		p, err := keyspace.PartitionOf(enginecore.ExecutionID(w.ExecutionID))
		require.NoError(t, err)
		_, err = engine.ConnOf(b.Engine.Internal()).EndWait(ctx, enginerpc.EndWaitCall{
			Partition: p, ExecutionID: enginecore.ExecutionID(w.ExecutionID),
			WaitpointID: enginecore.WaitpointID(w.ID), Resume: true, Result: []byte("7"), Namespace: "another",
		})
		require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
		require.Equal(t, before, fixture.Contents(t, ctx, b))
		w.Flow, w.Run = "", ""
		require.NoError(t, run.ResumeWait(ctx, w, 7), "the reference says which run it is")
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, out)
	})
}
