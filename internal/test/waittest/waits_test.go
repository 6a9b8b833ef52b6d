package waittest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// picky is a type whose decoding is stricter than its schema.
type picky struct{}

func (*picky) UnmarshalJSON([]byte) error { return errors.New("not today") }

// outcomes lists how the nodes of a run have ended.
func nodeStates[Out any](t *testing.T, ctx context.Context, run *runtime.Run[Out]) map[string]string {
	t.Helper()
	d, err := run.Describe(ctx)
	require.NoError(t, err)
	states := make(map[string]string)
	for _, n := range d.Nodes {
		states[n.Name] = string(n.State)
	}
	return states
}

// A waitpoint node opens when its upstreams have succeeded, and passes its payload to its downstreams.
func TestWaitpointNode(t *testing.T) {
	t.Parallel()
	echo := activity.New("echo", func(_ context.Context, n int) (int, error) { return n, nil })
	tell := activity.New("tell", func(_ context.Context, v fixture.Vote) (string, error) {
		return fmt.Sprintf("%s: %v", v.By, v.Yes), nil
	})
	f := flow.New[int, string]("gate")
	first := flow.Node(f, "first", echo, f.Input())
	ok := flow.Waitpoint[fixture.Vote](f, "approve", flow.After(first), activity.Signals("approve", "reject"), activity.Timeout(time.Hour, activity.Escalate))
	flow.Return(f, flow.Node(f, "tell", tell, ok))
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		waits, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		require.Empty(t, waits, "it opens when its upstream has succeeded")
		b.Worker(t, def.Handlers())
		w := fixture.OpenWaits(t, ctx, run, 1)[0]
		require.Equal(t, "approve", w.Node)
		require.Empty(t, w.Step)
		require.Equal(t, []string{"approve", "reject"}, w.Signals)
		require.Equal(t, [2]int{1, 0}, [2]int{w.Needed, w.Received})
		require.Equal(t, string(activity.Escalate), w.OnTimeout)
		require.True(t, w.OpenedAt.Add(time.Hour).Equal(w.TimeoutAt), "opened %s, timeout %s", w.OpenedAt, w.TimeoutAt)
		require.False(t, w.Escalated)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeSuspended, d.Nodes[1].State)
		require.Contains(t, d.Nodes[1].Waiting.Sentence, "waits for approve or reject")
		require.Len(t, d.Nodes[1].Waits, 1)

		delivery := fixture.Send(t, ctx, b, w, runtime.Signal{Name: "approve", Payload: fixture.Vote{By: "ann", Yes: true}, Source: "ann", IdempotencyKey: "1"})
		require.Equal(t, fabrictype.SignalResumed, delivery.Outcome)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "ann: true", out)
		// The second click gets the first one's answer, another signal gets the outcome closed.
		again := fixture.Send(t, ctx, b, w, runtime.Signal{Name: "approve", Source: "ann", IdempotencyKey: "1"})
		require.Equal(t, fabrictype.SignalResult{Outcome: fabrictype.SignalDuplicate, SignalID: delivery.SignalID, First: fabrictype.SignalResumed, Counts: true}, again)
		require.Equal(t, fabrictype.SignalResumed, again.Answer())
		require.Equal(t, fabrictype.SignalClosed, fixture.Send(t, ctx, b, w, runtime.Signal{Name: "approve"}).Outcome)

		open, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		require.Empty(t, open)
		all, err := run.AllWaitpoints(ctx)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, fabrictype.WaitClosed, all[0].State)
		b.Settle(t)
	})
}

// Signals that do not count change nothing; two people are needed, and one cannot be both.
func TestWaitpointCollects(t *testing.T) {
	t.Parallel()
	f := flow.New[int, []activity.Signal[fixture.Vote]]("two")
	flow.Return(f, flow.WaitpointSignals[fixture.Vote](f, "approve", activity.Signals("approve"), activity.AtLeastDistinct(2)))
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		w := fixture.OpenWaits(t, ctx, run, 1)[0]
		require.Equal(t, 2, w.Needed)
		require.True(t, w.Distinct)
		for i, who := range []string{"ann", "ann", "eve"} {
			name := "approve"
			if who == "eve" {
				name = "other"
			}
			signal := runtime.Signal{Name: name, Source: who, Payload: fixture.Vote{By: who, Yes: true}}
			if i == 0 {
				require.Equal(t, fabrictype.SignalAccepted, fixture.Send(t, ctx, b, w, signal).Outcome)
				continue
			}
			_, err := b.Client.Signal(ctx, w.Token, signal)
			require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount, "signal %d", i)
		}
		require.Equal(t, 1, fixture.OpenWaits(t, ctx, run, 1)[0].Received)
		require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, w, runtime.Signal{Name: "approve", Source: "bob", Payload: fixture.Vote{By: "bob", Yes: true}}).Outcome)
		signals, err := run.Result(ctx)
		require.NoError(t, err)
		require.Len(t, signals, 2)
		for i, who := range []string{"ann", "bob"} {
			require.Equal(t, "approve", signals[i].Name)
			require.Equal(t, who, signals[i].Source)
			require.Equal(t, fixture.Vote{By: who, Yes: true}, signals[i].Payload)
			require.WithinDuration(t, time.Now(), signals[i].Time(), time.Hour)
		}
		b.Settle(t)
	})
}

// The outcomes of a waitpoint that times out, and the inputs of nodes after it.
func TestWaitpointTimeouts(t *testing.T) {
	t.Parallel()
	seen := activity.New("seen", func(_ context.Context, v *fixture.Vote) (string, error) {
		if v == nil {
			return "nobody", nil
		}
		return v.By, nil
	})
	say := activity.New("say", func(_ context.Context, text string) (string, error) { return text, nil })
	define := func(then activity.TimeoutBehavior) *flow.Definition[int, string] {
		f := flow.New[int, string]("timeout-" + string(then))
		w := flow.Waitpoint[*fixture.Vote](f, "wait", activity.Timeout(300*time.Millisecond, then))
		next := flow.Node(f, "next", seen, w)
		flow.Node(f, "compensate", say, flow.Const("x"), flow.OnFailure(w))
		flow.Node(f, "clean", say, flow.Const("x"), flow.Always(next))
		flow.Return(f, next)
		def, err := f.Build()
		require.NoError(t, err)
		return def
	}
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Worker(t, []activity.Handler{seen, say})
		for _, tc := range []struct {
			then  activity.TimeoutBehavior
			state string
			err   error
		}{
			{activity.FailOnTimeout, "failed", runtime.ErrRunFailed},
			{activity.CancelOnTimeout, "cancelled", runtime.ErrRunCancelled},
			{activity.ExpireOnTimeout, "expired", runtime.ErrRunFailed},
			{activity.ResumeOnTimeout, "completed", nil},
		} {
			run, err := runtime.Start(ctx, b.Client, define(tc.then), 1)
			require.NoError(t, err)
			token := fixture.OpenWaits(t, ctx, run, 1)[0].Token
			keeper := b.Keeper(t) // only from now on, a timeout ends a wait
			out, err := run.Result(ctx)
			require.ErrorIs(t, err, tc.err, tc.then)
			want := map[string]string{"wait": tc.state, "next": "skipped", "compensate": "completed", "clean": "completed"}
			if tc.err == nil {
				require.Equal(t, "nobody", out)
				want["next"], want["compensate"] = "completed", "skipped"
			}
			require.Equal(t, want, nodeStates(t, ctx, run), tc.then)
			late, err := b.Client.Signal(ctx, token, runtime.Signal{Name: "late"})
			require.NoError(t, err)
			require.Contains(t, []fabrictype.SignalOutcome{fabrictype.SignalExpired, fabrictype.SignalClosed}, late.Outcome)
			require.NoError(t, keeper.Stop())
		}
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, define(activity.Escalate), 1)
		require.NoError(t, err)
		for event, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
			if event.Kind == fabrictype.EventEscalated {
				require.Equal(t, "wait", event.Node)
				break
			}
		}
		w := fixture.OpenWaits(t, ctx, run, 1)[0]
		require.True(t, w.Escalated)
		require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, w, runtime.Signal{Name: "x", Payload: fixture.Vote{By: "ann"}}).Outcome)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "ann", out)
		b.Settle(t)
	})
}

// Operators end waits as well.
func TestOperatorsEndWaits(t *testing.T) {
	t.Parallel()
	talk := activity.New("talk", func(ctx context.Context, n int) (int, error) { return activity.Await[int](ctx, "w") })
	f := flow.New[int, int]("operated")
	node := flow.Waitpoint[int](f, "node")
	flow.Return(f, flow.Node(f, "talk", talk, node))
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		w := fixture.OpenWaits(t, ctx, run, 1)[0]
		require.NoError(t, run.ResumeWait(ctx, w, 5))
		inside := fixture.OpenWaits(t, ctx, run, 1)[0]
		require.Equal(t, "talk", inside.Node)
		require.Equal(t, "w", inside.Step)
		require.ErrorIs(t, run.ResumeWait(ctx, w, 5), engine.ErrWaitOver)
		require.NoError(t, run.ResumeWait(ctx, inside, 6))
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 6, out)

		run, err = runtime.Start(ctx, b.Client, def, 2)
		require.NoError(t, err)
		w = fixture.OpenWaits(t, ctx, run, 1)[0]
		require.NoError(t, run.CancelWait(ctx, w, "not needed"))
		require.ErrorIs(t, run.CancelWait(ctx, w, "not needed"), engine.ErrWaitOver)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Equal(t, map[string]string{"node": "cancelled", "talk": "skipped"}, nodeStates(t, ctx, run))
		b.Settle(t)
	})
}

// Several waits, in a loop too, and steps between them that happen once, whatever happens around them.
func TestAwaitAndOnce(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		var asked, attempts atomic.Int64
		survey := activity.New("survey", func(ctx context.Context, people int) ([]string, error) {
			attempts.Add(1)
			var out []string
			for i := range people {
				who, err := activity.Step(ctx, "ask", func(context.Context) (string, error) { return fmt.Sprint("q", asked.Add(1)), nil })
				if err != nil {
					return nil, err
				}
				v, err := activity.Await[fixture.Vote](ctx, "answer")
				if err != nil {
					return nil, fmt.Errorf("person %d: %w", i, err)
				}
				out = append(out, who+" "+v.By)
			}
			if info, _ := activity.Info(ctx); info.Attempt == 1 {
				return nil, errors.New("a failure after all waits")
			}
			return out, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 3, Factor: 1}))
		ctx := enginetest.Context(t)
		def := fixture.OneNode(t, "survey", survey)
		b.Keeper(t)
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 1})
		run, err := runtime.Start(ctx, b.Client, def, 3)
		require.NoError(t, err)
		for i := range 3 {
			enginetest.Eventually(t, func() string {
				want := "answer"
				if i > 0 {
					want = fmt.Sprintf("answer#%d", i+1)
				}
				waits, err := run.Waitpoints(ctx)
				require.NoError(t, err)
				if len(waits) != 1 || waits[0].Step != want || waits[0].State != fabrictype.WaitOpen {
					return fmt.Sprintf("%s: %+v", want, waits)
				}
				require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, waits[0], runtime.Signal{Name: "x", Payload: fixture.Vote{By: fmt.Sprint("p", i)}}).Outcome)
				return ""
			})
		}
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"q1 p0", "q2 p1", "q3 p2"}, out)
		require.EqualValues(t, 3, asked.Load())
		require.EqualValues(t, 5, attempts.Load(), "once for each wait, once to the failure, and the retry")
		b.Settle(t)
	})
}

// A signal that comes before its wait is kept, and the function continues at once when it gets there.
func TestSignalBeforeItsWait(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		tokens, signalled := make(chan activity.Token, 1), make(chan struct{})
		def := fixture.OneNode(t, "early", opensAhead(tokens, signalled))
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		token := <-tokens
		waits, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		require.Len(t, waits, 1)
		require.Equal(t, fabrictype.WaitPending, waits[0].State)
		require.Equal(t, token.Reveal(), waits[0].Token.Reveal())
		d, err := b.Client.Signal(ctx, token, runtime.Signal{Name: "answer", Payload: 41, IdempotencyKey: "k"})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalAccepted, d.Outcome)
		again, err := b.Client.Signal(ctx, token, runtime.Signal{Name: "answer", Payload: 5, IdempotencyKey: "k"})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalDuplicate, again.Outcome)
		require.Equal(t, fabrictype.SignalAccepted, again.Answer())
		signalled <- struct{}{}
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 42, out)
		b.Settle(t)
	})
}

// opensAhead opens the waitpoint of its wait, hands its token over, and waits only when it was signalled.
func opensAhead(tokens chan<- activity.Token, signalled <-chan struct{}) *activity.Activity[int, int] {
	return activity.New("early", func(ctx context.Context, n int) (int, error) {
		if _, err := activity.Step(ctx, "hand over", func(context.Context) (int, error) { return 0, nil }); err == nil {
			return 0, errors.New("a bad name was taken")
		}
		token, err := activity.OpenWaitpoint(ctx, "answer", 0)
		if err != nil {
			return 0, err
		}
		same, err := activity.OpenWaitpoint(ctx, "answer", 0)
		if err != nil || same.Reveal() != token.Reveal() {
			return 0, fmt.Errorf("another token, %w", err)
		}
		_, err = activity.Step(ctx, "hand-over", func(ctx context.Context) (int, error) {
			tokens <- token
			select {
			case <-signalled:
			case <-ctx.Done():
			}
			return 0, context.Cause(ctx)
		})
		if err != nil {
			return 0, err
		}
		first, err := activity.Await[int](ctx, "answer", activity.Signals("answer"))
		if err != nil {
			return 0, err
		}
		return first + n, nil
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
}

// A wait in a function that times out.
func TestAwaitTimeouts(t *testing.T) {
	t.Parallel()
	behaviours := []activity.TimeoutBehavior{
		activity.FailOnTimeout, activity.CancelOnTimeout, activity.ExpireOnTimeout, activity.ResumeOnTimeout,
	}
	replies := activity.New("fixture", func(ctx context.Context, i int) (string, error) {
		_, err := activity.Await[int](ctx, "w", activity.Timeout(20*time.Millisecond, behaviours[i]))
		if errors.Is(err, activity.ErrWaitTimedOut) {
			return "no signal came", nil
		}
		return "", err
	})
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := fixture.OneNode(t, "fixture", replies)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		for i, want := range []string{"failed", "cancelled", "expired", "completed"} {
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			out, err := run.Result(ctx)
			if want == "completed" {
				require.NoError(t, err)
				require.Equal(t, "no signal came", out)
			} else {
				require.Error(t, err)
			}
			require.Equal(t, map[string]string{"node": want}, nodeStates(t, ctx, run))
			var runError *runtime.RunError
			if want == "failed" && errors.As(err, &runError) {
				require.Equal(t, activityspec.CategoryTimeout, runError.Category)
			}
		}
		b.Settle(t)
	})
}

// Mistakes in a function with waits fail with an error that names the remedy, and are not repeated.
func TestAwaitMistakes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		var calls atomic.Int64
		mistakes := map[string]func(ctx context.Context) error{
			"the error of activity.Await was not returned: it waits at \"w\", but the function returned without an error": func(ctx context.Context) error {
				_, _ = activity.Await[int](ctx, "w")
				return nil
			},
			"the error of activity.Await was not returned: it waits at \"w\", but the function returned: hidden": func(ctx context.Context) error {
				_, err := activity.Await[int](ctx, "w")
				return fmt.Errorf("hidden %T", err)
			},
			"the signal's payload does not decode into waittest.picky": func(ctx context.Context) error {
				_, err := activity.Await[picky](ctx, "typed")
				return err
			},
			"200000 signals are waited for, the limit is 1024": func(ctx context.Context) error {
				_, err := activity.Await[int](ctx, "w", activity.AtLeast(200_000))
				return err
			},
		}
		wrong := activity.New("wrong", func(ctx context.Context, which string) (int, error) {
			calls.Add(1)
			return 0, mistakes[which](ctx)
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Factor: 1}))
		ctx := enginetest.Context(t)
		def := fixture.OneNode(t, "wrong", wrong)
		b.Worker(t, def.Handlers())
		for text := range mistakes {
			calls.Store(0)
			run, err := runtime.Start(ctx, b.Client, def, text)
			require.NoError(t, err)
			wantCalls := int64(1)
			if strings.Contains(text, "decode") {
				w := fixture.OpenWaits(t, ctx, run, 1)[0]
				fixture.Send(t, ctx, b, w, runtime.Signal{Name: "x", Payload: "text"})
				wantCalls = 2
			}
			_, err = run.Result(ctx)
			require.ErrorContains(t, err, text)
			require.Equal(t, wantCalls, calls.Load(), text)
			var runError *runtime.RunError
			require.ErrorAs(t, err, &runError)
			if wantCalls == 2 {
				require.Equal(t, activityspec.CategoryDecode, runError.Category)
			}
		}
		b.Settle(t)
	})
}

// The library keeps the signals of a wait without reading them: all who read the result get the list of the payloads as they
// came, its size, and the part of it that they ask for.
func TestCollectedSignalsAreReadEverywhere(t *testing.T) {
	t.Parallel()
	type list = []activity.Signal[json.RawMessage]
	inner := flow.New[int, list]("inner")
	flow.Return(inner, flow.WaitpointSignals[json.RawMessage](inner, "ask", activity.AtLeast(2)))
	innerDef, err := inner.Build()
	require.NoError(t, err)
	texts := activity.New("texts", func(_ context.Context, in list) (string, error) {
		var out []string
		for _, s := range in {
			out = append(out, s.Name+string(s.Payload))
		}
		return strings.Join(out, "|"), nil
	})
	awaits := activity.New("awaits", func(ctx context.Context, _ int) (list, error) {
		return activity.AwaitSignals[json.RawMessage](ctx, "answers", activity.AtLeast(2))
	})
	f := flow.New[int, string]("collecting")
	sub := flow.Node(f, "of-sub", texts, flow.Sub(f, "sub", innerDef, f.Input()))
	node := flow.Node(f, "of-node", texts, flow.WaitpointSignals[json.RawMessage](f, "node", activity.AtLeast(2)))
	function := flow.Node(f, "of-function", texts, flow.Node(f, "function", awaits, f.Input()))
	all := activity.New("all", func(_ context.Context, in []string) (string, error) { return strings.Join(in, "\n"), nil })
	flow.Return(f, flow.Node(f, "all", all, flow.List(sub, node, function)))
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.KeepingWorker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		first, second := `{"z":1.0,"a":["<",1E+2,"]"]}`, `"`+strings.Repeat("ü", 3000)+`"`
		for _, w := range fixture.OpenWaits(t, ctx, run, 3) {
			fixture.Send(t, ctx, b, w, runtime.Signal{Name: "one", Source: `a"b`, Payload: json.RawMessage(first)})
			fixture.Send(t, ctx, b, w, runtime.Signal{Name: "two", Payload: json.RawMessage(second)})
		}
		want := "one" + first + "|two" + second
		got, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, want+"\n"+want+"\n"+want, got)

		desk, err := admin.New(b.Engine)
		require.NoError(t, err)
		stored, found, err := desk.ExecutionResult(ctx, b.Node(t, b.Locate(t, def.Name(), run.ID()), "node"))
		require.NoError(t, err)
		require.True(t, found)
		var signals list
		require.NoError(t, json.Unmarshal(stored, &signals))
		require.Equal(t, `a"b`, signals[0].Source)
		require.Equal(t, second, string(signals[1].Payload))
		for _, size := range []int{10, 1 << 20} {
			d, err := run.Describe(ctx, runtime.DescribeOptions{Values: true, ValueBytes: size})
			require.NoError(t, err)
			shown := map[string]*fabrictype.Value{}
			for _, n := range d.Nodes {
				shown[n.Name], shown["input "+n.Name] = n.Result, n.Input
			}
			for _, name := range []string{"node", "input of-node"} {
				value := shown[name]
				require.Equal(t, len(stored), value.Size, name)
				require.Equal(t, size == 10, value.Truncated, name)
				require.Equal(t, string(stored[:min(size, len(stored))]), string(value.Bytes()), name)
			}
		}
		fork, err := run.Fork(ctx, runtime.ForkOptions{From: []string{"of-node"}})
		require.NoError(t, err)
		forked, err := runtime.Attach(fork, def)
		require.NoError(t, err)
		again, err := forked.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, got, again)
		b.Settle(t)
	})
}

// A client that waits for a run whose result are the signals of a waitpoint gets them, although the message about the end
// of the run has the list that the library keeps.
func TestCollectedSignalsAreTheResultOfAWaitingClient(t *testing.T) {
	t.Parallel()
	f := flow.New[int, []activity.Signal[string]]("collected")
	flow.Return(f, flow.WaitpointSignals[string](f, "votes", activity.AtLeast(2)))
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		waits := fixture.OpenWaits(t, ctx, run, 1)
		type end struct {
			signals []activity.Signal[string]
			err     error
		}
		ended := make(chan end, 1)
		go func() {
			signals, err := run.Result(ctx)
			ended <- end{signals, err}
		}()
		for _, vote := range []string{"yes", "no"} {
			fixture.Send(t, ctx, b, waits[0], runtime.Signal{Name: "vote", Payload: vote})
		}
		got := <-ended
		require.NoError(t, got.err)
		require.Len(t, got.signals, 2)
		require.Equal(t, "yesno", got.signals[0].Payload+got.signals[1].Payload)
		b.Settle(t)
	})
}
