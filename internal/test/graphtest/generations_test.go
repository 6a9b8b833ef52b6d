package graphtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A signal that comes before its wait is kept until a later generation of the function waits, and so is the waitpoint
// whose token was given away.
func TestEarlySignalsOutliveGenerations(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		tokens, signalled := make(chan activity.Token, 1), make(chan struct{})
		poll := activity.New("poll", func(ctx context.Context, generation int) (string, error) {
			if generation == 1 {
				token, err := activity.OpenWaitpoint(ctx, "by-token", 0)
				if err != nil {
					return "", err
				}
				tokens <- token
				<-signalled
			}
			if generation < 3 {
				return "", activity.ContinueAsNew(generation + 1)
			}
			named, err := activity.Await[string](ctx, "by-name", activity.Timeout(time.Minute, activity.ResumeOnTimeout))
			if err != nil {
				return "", err
			}
			byToken, err := activity.Await[string](ctx, "by-token")
			return named + byToken, err
		})
		b.Keeper(t)
		b.Worker(t, []activity.Handler{poll})
		run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "poller", poll), 1)
		require.NoError(t, err)
		token := <-tokens
		byName := runtime.Signal{Name: "answer", Payload: "a", IdempotencyKey: "one"}
		sent, err := run.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "by-name"}, byName)
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalAccepted, sent.Outcome)
		require.False(t, sent.Counts, "only the wait defines the signals that it needs")
		close(signalled)
		enginetest.Eventually(t, func() string {
			return not(describedNode(t, run.RunRef).State == fabrictype.NodeSuspended, "it waits for the token")
		})
		again, err := run.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "by-name"}, byName)
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalDuplicate, again.Outcome)
		sent, err = b.Client.Signal(ctx, token, runtime.Signal{Name: "answer", Payload: "b"})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalResumed, sent.Outcome)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "ab", out)
		b.Settle(t)
	})
}

// not returns the fault unless something holds.
func not(holds bool, fault string) string {
	if holds {
		return ""
	}
	return "not yet: " + fault
}

// A mailbox: each generation takes one message. Senders that repeat messages which came too late lose none, whenever
// they come, and none is taken twice.
func TestMailboxOfGenerations(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const senders, each = 3, 20
		mailbox := activity.New("mailbox", func(ctx context.Context, got []string) ([]string, error) {
			message, err := activity.Await[string](ctx, "message", activity.Signals("message"))
			if err != nil {
				return nil, err
			}
			if got = append(got, message); len(got) < senders*each {
				return nil, activity.ContinueAsNew(got)
			}
			return got, nil
		})
		b.Keeper(t)
		b.Worker(t, []activity.Handler{mailbox})
		run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "mailbox", mailbox), nil)
		require.NoError(t, err)
		var wg sync.WaitGroup
		var faults atomic.Pointer[error]
		for sender := range senders {
			wg.Go(func() {
				for i := range each {
					if err := post(ctx, run.RunRef, fmt.Sprintf("%d-%d", sender, i)); err != nil {
						faults.Store(&err)
					}
				}
			})
		}
		wg.Wait()
		if fault := faults.Load(); fault != nil {
			require.NoError(t, *fault)
		}
		got, err := run.Result(ctx)
		require.NoError(t, err)
		seen := make(map[string]int)
		for _, message := range got {
			seen[message]++
		}
		require.Len(t, seen, senders*each, "%v", got)
		b.Settle(t)
	})
}

// post sends a message to the mailbox until a wait takes it, twice each time.
func post(ctx context.Context, run *runtime.RunRef, text string) error {
	for ctx.Err() == nil {
		s := runtime.Signal{Name: "message", Payload: text, IdempotencyKey: text}
		sent, err := run.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "message"}, s)
		if err != nil {
			return err
		}
		if sent.Outcome == fabrictype.SignalClosed {
			continue
		}
		again, err := run.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "message"}, s)
		if err == nil && again.Outcome != fabrictype.SignalDuplicate && again.Outcome != fabrictype.SignalClosed {
			err = fmt.Errorf("%s: %s, and again: %s", text, sent.Outcome, again.Outcome)
		}
		return err
	}
	return ctx.Err()
}

// Early signals to a waitpoint node count as if it were open: at most as many as it needs, and the first one that would
// have decided the wait decides it.
func TestEarlySignalsToANode(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		begin := activity.New("begin", func(context.Context, int) (int, error) { return 1, nil })
		f := flow.New[int, []activity.Signal[string]]("gate")
		first := flow.Node(f, "begin", begin, f.Input())
		gate := flow.WaitpointSignals[string](f, "gate", flow.After(first), activity.Signals("approve", "reject"), activity.AtLeast(1))
		flow.Return(f, gate)
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		send := func(name string) fabrictype.SignalResult {
			sent, err := run.SignalWait(ctx, runtime.WaitName{Node: "gate"}, runtime.Signal{Name: name, Payload: name})
			require.NoError(t, err)
			return sent
		}
		_, err = run.SignalWait(ctx, runtime.WaitName{Node: "gate"}, runtime.Signal{Name: "other", Payload: "other"})
		require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount)
		require.ErrorContains(t, err, "the names that count: approve, reject")
		approve, reject := send("approve"), send("reject")
		require.Equal(t, fabrictype.SignalAccepted, approve.Outcome)
		require.True(t, approve.Counts)
		require.Equal(t, fabrictype.SignalClosed, reject.Outcome)
		b.Check(t, invariant.AnyTime)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		got, err := run.Result(ctx)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, "approve", got[0].Payload)
		b.Settle(t)
	})
}

// A wait of a function that needs one of three early signals takes the first. The later ones go to the next wait of
// that name after ContinueAsNew when they came by name; with a token, they were for the former wait alone.
func TestEarlySignalsBeyondTheNeed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		tokens, signalled := make(chan activity.Token, 1), make(chan struct{})
		take := activity.New("take", func(ctx context.Context, got []string) ([]string, error) {
			if len(got) == 0 {
				token, err := activity.OpenWaitpoint(ctx, "message", 0)
				if err != nil {
					return nil, err
				}
				select {
				case tokens <- token:
				default:
				}
				<-signalled
			}
			list, err := activity.AwaitSignals[string](ctx, "message", activity.Signals("go"))
			if err != nil {
				return nil, err
			}
			for _, s := range list {
				got = append(got, s.Payload)
			}
			if len(got) < 3 {
				return nil, activity.ContinueAsNew(got)
			}
			return got, nil
		})
		b.Keeper(t)
		b.Worker(t, []activity.Handler{take})
		run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "taking", take), nil)
		require.NoError(t, err)
		token := <-tokens
		named := func(name, payload string) {
			sent, err := run.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "message"}, runtime.Signal{Name: name, Payload: payload})
			require.NoError(t, err)
			require.Equal(t, fabrictype.SignalAccepted, sent.Outcome)
			require.False(t, sent.Counts)
		}
		byToken := func(payload string) fabrictype.SignalResult {
			sent, err := b.Client.Signal(ctx, token, runtime.Signal{Name: "go", Payload: payload, IdempotencyKey: payload})
			require.NoError(t, err)
			return sent
		}
		named("stop", "no")
		named("go", "a")
		require.Equal(t, fabrictype.SignalAccepted, byToken("token").Outcome)
		named("go", "b")
		close(signalled)
		enginetest.Eventually(t, func() string {
			return not(describedNode(t, run.RunRef).State == fabrictype.NodeSuspended, "it waits for the third")
		})
		// The token was one for the wait of the first generation.
		require.Equal(t, fabrictype.SignalDuplicate, byToken("token").Outcome)
		require.Equal(t, fabrictype.SignalClosed, byToken("late").Outcome)
		waits, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		require.Len(t, waits, 1)
		sent, err := run.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "message"}, runtime.Signal{Name: "go", Payload: "c"})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalResumed, sent.Outcome)
		got, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, got)
		b.Settle(t)
	})
}

// The waits of a generation are deleted before the next one begins: a function that polls or takes signals for ever
// keeps as many keys as in its second generation.
func TestGenerationsDoNotGrow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const last = 12
		poll := activity.New("poll", func(ctx context.Context, generation int) (int, error) {
			for range 3 {
				if err := activity.Sleep(ctx, "nap", time.Millisecond); err != nil {
					return 0, err
				}
			}
			if _, err := activity.Await[int](ctx, "message", activity.Signals("one"), activity.AtLeast(2)); err != nil {
				return 0, err
			}
			if generation < last {
				return 0, activity.ContinueAsNew(generation + 1)
			}
			return activity.Await[int](ctx, "stop")
		})
		b.Keeper(t)
		b.Worker(t, []activity.Handler{poll})
		run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "growing", poll), 1)
		require.NoError(t, err)
		kinds := make(map[string]int)
		for generation := 1; generation <= last; generation++ {
			for i := range 2 {
				enginetest.Eventually(t, func() string {
					sent, err := run.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "message"}, runtime.Signal{
						Name: "one", Payload: generation, IdempotencyKey: fmt.Sprintf("%d-%d", generation, i),
					})
					require.NoError(t, err)
					return not(sent.Outcome != fabrictype.SignalClosed, "the wait of the next generation")
				})
			}
		}
		enginetest.Eventually(t, func() string {
			d := describedNode(t, run.RunRef)
			return not(d.Generation == last && len(d.Waits) == 1 && d.Waits[0].Step == "stop", "the last wait")
		})
		for _, name := range b.Check(t, invariant.AnyTime).KeyNames() {
			for _, kind := range []string{":wp:", ":signal:", ":sigdedup:"} {
				if strings.Contains(name, kind) {
					kinds[kind]++
				}
			}
		}
		// The keys of the last generation: three sleeps, a wait with its stream and its two signals, and the open wait.
		require.Equal(t, map[string]int{":wp:": 5*2 + 1, ":signal:": 2 * 2, ":sigdedup:": 2}, kinds)
		_, err = run.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "stop"}, runtime.Signal{Name: "one", Payload: 1})
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.NoError(t, run.Purge(ctx))
		b.Settle(t)
	})
}

// More than one call may remove is removed by the keeper, and does not count as signals of the next generation.
func TestLargeGenerationIsRemoved(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const many = 900
		gather := activity.New("gather", func(ctx context.Context, generation int) (int, error) {
			if generation == 2 {
				return activity.Await[int](ctx, "last")
			}
			if _, err := activity.AwaitSignals[int](ctx, "many", activity.AtLeast(many)); err != nil {
				return 0, err
			}
			return 0, activity.ContinueAsNew(2)
		})
		b.Worker(t, []activity.Handler{gather})
		run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "large", gather), 1)
		require.NoError(t, err)
		var wg sync.WaitGroup
		var failed atomic.Int64
		for sender := range 8 {
			wg.Go(func() {
				for i := sender; i < many; i += 8 {
					_, err := run.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "many"}, runtime.Signal{
						Name: "one", Payload: i, IdempotencyKey: fmt.Sprint(i),
					})
					if err != nil {
						failed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.Zero(t, failed.Load())
		enginetest.Eventually(t, func() string {
			d := describedNode(t, run.RunRef)
			return not(d.Generation == 2 && d.State == fabrictype.NodeSuspended, "the second generation waits")
		})
		b.Check(t, invariant.AnyTime)
		b.Keeper(t)
		enginetest.Eventually(t, func() string {
			left := 0
			for _, name := range b.Check(t, invariant.AnyTime).KeyNames() {
				if strings.Contains(name, ":signal:") || strings.Contains(name, ":sigdedup:") {
					left++
				}
			}
			return not(left == 0, fmt.Sprintf("%d keys are left", left))
		})
		_, err = run.SignalWait(ctx, runtime.WaitName{Node: "node", Step: "last"}, runtime.Signal{Name: "one", Payload: 7})
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, out)
		b.Settle(t)
	})
}

// describedNode describes the only node of a run.
func describedNode(t *testing.T, run *runtime.RunRef) fabrictype.Node {
	t.Helper()
	d, err := run.Describe(enginetest.Context(t))
	require.NoError(t, err)
	require.Len(t, d.Nodes, 1)
	return d.Nodes[0]
}
