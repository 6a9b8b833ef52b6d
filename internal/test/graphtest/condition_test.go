package graphtest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// listing is the result of a scan.
type listing struct {
	Size int    `json:"size"`
	Kind string `json:"kind"`
}

type listingKind string

const (
	image listingKind = "image"
	video listingKind = "video"
)

var (
	scanSize = activity.New("cond.scan", func(_ context.Context, in listing) (listing, error) { return in, nil })
	sayNode  = activity.New("cond.say", func(ctx context.Context, _ listing) (string, error) {
		info, _ := activity.Info(ctx)
		return info.Node, nil
	})
	passText = activity.New("cond.pass", func(_ context.Context, in string) (string, error) { return in, nil })
)

func isLarge(l listing) bool { return l.Size > 100 }

// branching is a flow with a condition on the result of a node, one branch of which has a node more, and a join.
func branching(t *testing.T) *flow.Definition[listing, string] {
	t.Helper()
	f := flow.New[listing, string]("branching")
	scan := flow.Node(f, "scan", scanSize, f.Input())
	large := flow.When(scan, "large", isLarge)
	deep := flow.Node(f, "deep", sayNode, scan, large)
	deeper := flow.Node(f, "deeper", passText, deep)
	quick := flow.Node(f, "quick", sayNode, scan, large.Not())
	flow.Return(f, flow.Node(f, "report", passText, flow.AnyOf(deeper, quick)))
	return fixture.Build(t, f)
}

// runToSuccess starts a run, waits for its success and returns its result and description.
func runToSuccess[In any](
	t *testing.T, b *enginetest.Bench, def *flow.Definition[In, string], in In,
) (string, *runtime.RunDescription) {
	t.Helper()
	run, err := runtime.Start(enginetest.Context(t), b.Client, def, in)
	require.NoError(t, err)
	return successOf(t, run)
}

// successOf waits for the success of a run and returns its result and description.
func successOf(t *testing.T, run *runtime.Run[string]) (string, *runtime.RunDescription) {
	t.Helper()
	result, err := run.Result(enginetest.Context(t))
	require.NoError(t, err)
	d, err := run.Describe(enginetest.Context(t))
	require.NoError(t, err)
	require.Equal(t, fabrictype.RunSucceeded, d.State)
	return result, d
}

func TestConditionSkipsTheOtherBranch(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		def := branching(t)
		b.Worker(t, def.Handlers())

		result, d := runToSuccess(t, b, def, listing{Size: 200})
		require.Equal(t, "deep", result)
		require.Equal(t, fabrictype.NodeSucceeded, fixture.Node(t, d, "large").State)
		require.Equal(t, fabrictype.NodeSkipped, fixture.Node(t, d, "quick").State)
		require.Equal(t, "condition large of node scan is true", fixture.Node(t, d, "quick").Reason)

		result, d = runToSuccess(t, b, def, listing{Size: 2})
		require.Equal(t, "quick", result)
		require.Equal(t, "condition large of node scan is false", fixture.Node(t, d, "deep").Reason)
		require.Equal(t, fabrictype.NodeSkipped, fixture.Node(t, d, "deep").State)
		require.Equal(t, fabrictype.NodeSkipped, fixture.Node(t, d, "deeper").State)
		b.Settle(t)
	})
}

// Conditions on values other than results of activities: the input, the payload of a signal, and the results of a map
// and of a sub-flow.
func TestConditionsOnEveryKindOfUpstream(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		inner := flow.New[listing, listing]("inner")
		flow.Return(inner, flow.Node(inner, "scan", scanSize, inner.Input()))
		f := flow.New[listing, string]("kinds")
		large := flow.When(f.Input(), "large", isLarge)
		both := flow.Const([]listing{{Size: 1}, {Size: 2}})
		sizes := flow.Map(f, "sizes", scanSize, both, large)
		two := flow.When(sizes, "two", func(all []listing) bool { return len(all) == 2 })
		sub := flow.Sub(f, "sub", fixture.Build(t, inner), f.Input(), two)
		asked := flow.Waitpoint[listing](f, "asked", flow.When(sub, "wide", isLarge))
		agreed := flow.When(asked, "agreed", isLarge)
		yes := flow.Node(f, "yes", sayNode, f.Input(), agreed)
		no := flow.Node(f, "no", sayNode, f.Input(), agreed.Not())
		flow.Return(f, flow.Node(f, "end", passText, flow.AnyOf(yes, no)))
		def := fixture.Build(t, f)
		b.KeepingWorker(t, def.Handlers())

		run, err := runtime.Start(enginetest.Context(t), b.Client, def, listing{Size: 200})
		require.NoError(t, err)
		var wait runtime.Waitpoint
		enginetest.Eventually(t, func() string {
			waits, err := run.Waitpoints(enginetest.Context(t))
			require.NoError(t, err)
			if len(waits) == 0 || waits[0].State != fabrictype.WaitOpen {
				return "no wait is open"
			}
			wait = waits[0]
			return ""
		})
		_, err = b.Client.Signal(enginetest.Context(t), wait.Token, runtime.Signal{Name: "any", Payload: listing{Size: 1}})
		require.NoError(t, err)
		result, d := successOf(t, run)
		require.Equal(t, "no", result)
		require.Equal(t, "condition agreed of node asked is false", fixture.Node(t, d, "yes").Reason)

		run, err = runtime.Start(enginetest.Context(t), b.Client, def, listing{})
		require.NoError(t, err)
		_, err = run.Result(enginetest.Context(t))
		d, errDescribe := run.Describe(enginetest.Context(t))
		require.NoError(t, errDescribe)
		require.Equal(t, "condition large of the input is false", fixture.Node(t, d, "sizes").Reason)
		require.Equal(t, fabrictype.NodeSkipped, fixture.Node(t, d, "end").State)
		require.ErrorIs(t, err, runtime.ErrNoResult)
		require.ErrorContains(t, err, ": node end was skipped: ")
		b.Settle(t)
	})
}

// switching is a flow with a case for two kinds, and perhaps a default.
func switching(t *testing.T, withDefault bool) *flow.Definition[listing, string] {
	t.Helper()
	f := flow.New[listing, string]("switching")
	kind := flow.Switch(f.Input(), "kind", func(l listing) listingKind { return listingKind(l.Kind) }, image, video)
	branches := []flow.Ref[string]{
		flow.Node(f, "thumb", sayNode, f.Input(), kind.Case(image)),
		flow.Node(f, "clip", sayNode, f.Input(), kind.Case(video)),
	}
	if withDefault {
		branches = append(branches, flow.Node(f, "other", sayNode, f.Input(), kind.Default()))
	}
	flow.Return(f, flow.Node(f, "end", passText, flow.AnyOf(branches...)))
	return fixture.Build(t, f)
}

func TestSwitchTakesOneCase(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		def := switching(t, true)
		b.Worker(t, def.Handlers())
		for kind, want := range map[string]string{"image": "thumb", "video": "clip", "sound": "other", "": "other", "default": "other"} {
			result, d := runToSuccess(t, b, def, listing{Kind: kind})
			require.Equal(t, want, result, kind)
			if want != "clip" {
				name := map[string]string{"thumb": "image", "other": "default"}[want]
				require.Equal(t, "condition kind of the input is "+name, fixture.Node(t, d, "clip").Reason)
			}
		}
		b.Settle(t)
	})
}

func TestUnknownCaseFailsTheCondition(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		def := switching(t, false)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(enginetest.Context(t), b.Client, def, listing{Kind: "sound"})
		require.NoError(t, err)
		_, err = run.Result(enginetest.Context(t))
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "kind", failed.Node)
		require.Contains(t, failed.Reason, `condition kind chose "sound", which is not one of its cases: image, video`)
		d, err := run.Describe(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, 1, fixture.Node(t, d, "kind").Attempts, "another attempt would choose the same")
		require.Empty(t, fixture.Node(t, d, "clip").Reason)
		b.Settle(t)
	})
}

// A rerun of the nodes after a condition keeps the decision; a rerun of the condition decides anew.
func TestRerunKeepsOrRemakesDecisions(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		var decided, failing atomic.Int32
		var small atomic.Bool
		failing.Store(1)
		try := activity.New("cond.try", func(ctx context.Context, _ listing) (string, error) {
			if failing.Add(-1) >= 0 {
				return "", errors.New("not yet")
			}
			info, _ := activity.Info(ctx)
			return info.Node, nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		f := flow.New[listing, string]("rerun-of-conditions")
		scan := flow.Node(f, "scan", scanSize, f.Input())
		large := flow.When(scan, "large", func(l listing) bool {
			decided.Add(1)
			return isLarge(l) && !small.Load()
		})
		deep := flow.Node(f, "deep", try, scan, large)
		quick := flow.Node(f, "quick", try, scan, large.Not())
		flow.Return(f, flow.Node(f, "report", passText, flow.AnyOf(deep, quick)))
		def := fixture.Build(t, f)
		b.Worker(t, def.Handlers())
		ctx := enginetest.Context(t)

		run, err := runtime.Start(ctx, b.Client, def, listing{Size: 200})
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorContains(t, err, "not yet")
		small.Store(true)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		result, d := successOf(t, run)
		require.Equal(t, "deep", result)
		require.Equal(t, "condition large of node scan is true", fixture.Node(t, d, "quick").Reason)
		require.Equal(t, int32(1), decided.Load())

		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFrom("large")))
		result, d = successOf(t, run)
		require.Equal(t, "quick", result)
		require.Equal(t, fabrictype.NodeSkipped, fixture.Node(t, d, "deep").State)
		require.Equal(t, "condition large of node scan is false", fixture.Node(t, d, "deep").Reason)
		require.Empty(t, fixture.Node(t, d, "quick").Reason)
		require.Equal(t, int32(2), decided.Load())

		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFrom("quick")))
		result, d = successOf(t, run)
		require.Equal(t, "quick", result)
		require.Equal(t, fabrictype.NodeSkipped, fixture.Node(t, d, "deep").State)
		require.Equal(t, int32(2), decided.Load())
		b.Settle(t)
	})
}

// A worker that has the activities of a flow but not its conditions leaves these to others.
func TestWorkerWithoutTheConditionLeavesIt(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		def := branching(t)
		b.KeepingWorker(t, []activity.Handler{scanSize, sayNode, passText})
		run, err := runtime.Start(enginetest.Context(t), b.Client, def, listing{Size: 200})
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(enginetest.Context(t))
			require.NoError(t, err)
			if why := fixture.Node(t, d, "large").Waiting.Sentence; !strings.Contains(why, "branching.large") {
				return "the condition says: " + why
			}
			return ""
		})
		b.Worker(t, def.Handlers())
		result, _ := successOf(t, run)
		require.Equal(t, "deep", result)
		b.Settle(t)
	})
}

// Two builds of one flow have the same conditions, so that a worker can register both.
func TestConditionsOfOneFlowBuiltTwice(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, "embedded")
	worker, err := runtime.NewWorker(b.Engine, runtime.WorkerConfig{})
	require.NoError(t, err)
	require.NoError(t, worker.Register(branching(t).Handlers()...))
	require.NoError(t, worker.Register(branching(t).Handlers()...))

	f := flow.New[listing, string]("branching")
	flow.Return(f, flow.Node(f, "one", sayNode, f.Input(), flow.When(f.Input(), "large", func(listing) bool { return true })))
	require.ErrorContains(t, worker.Register(fixture.Build(t, f).Handlers()...), `"branching.large" is taken by another activity`)
}

// A program that holds the task of a condition completes it with the name of a case.
func TestHeldTaskDecides(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		def := branching(t)
		b.Worker(t, []activity.Handler{scanSize, sayNode, passText})
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{TaskKinds: []string{"branching.large"}})
		run, err := runtime.Start(h.Ctx, b.Client, def, listing{Size: 200})
		require.NoError(t, err)
		task := h.Next()
		err = task.Complete(h.Ctx, "maybe")
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, `condition large chose "maybe", which is not one of its cases: true, false`)
		require.NoError(t, task.Complete(h.Ctx, "false"))
		result, _ := successOf(t, run)
		require.Equal(t, "quick", result)
		b.Settle(t)
	})
}

// A condition takes a retry policy; an invalid policy is a fault.
func TestRetryPolicyOfACondition(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		f := flow.New[listing, string]("panics")
		large := flow.When(f.Input(), "large", func(listing) bool { panic("no") }).Retry(activity.RetryPolicy{Attempts: 1})
		kind := flow.Switch(f.Input(), "kind", func(listing) listingKind { panic("no") }, image).
			Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 3, Factor: 1})
		flow.Node(f, "thumb", sayNode, f.Input(), kind.Case(image))
		flow.Return(f, flow.Node(f, "deep", sayNode, f.Input(), large))
		def := fixture.Build(t, f)
		b.KeepingWorker(t, def.Handlers())
		run, err := runtime.Start(enginetest.Context(t), b.Client, def, listing{})
		require.NoError(t, err)
		_, err = run.Result(enginetest.Context(t))
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		d, err := run.Describe(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, 1, fixture.Node(t, d, "large").Attempts)
		require.Equal(t, 3, fixture.Node(t, d, "kind").Attempts)
		b.Settle(t)
	})
	f := flow.New[listing, string]("bad")
	large := flow.When(f.Input(), "large", isLarge).Retry(activity.RetryPolicy{Attempts: -1})
	flow.Return(f, flow.Node(f, "deep", sayNode, f.Input(), large))
	_, err := f.Build()
	require.ErrorContains(t, err, "-1 attempts")
}
