package waittest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
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

// Tokens that give no right all get the same answer, and change nothing.
func TestInvalidTokensAreRefused(t *testing.T) {
	t.Parallel()
	def := fixture.Waiter(t, "guarded")
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var waits []runtime.Waitpoint
		for i := range 2 {
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			waits = append(waits, fixture.OpenWaits(t, ctx, run, 1)[0])
		}
		own, foreign := waits[0].Token.Reveal(), waits[1].Token.Reveal()
		bad := map[string]string{
			"empty": "", "no token": "approve", "cut short": own[:len(own)-4], "longer": own + "AAAA",
			// The places of one in the signature of the other.
			"foreign signature": own[:47] + foreign[47:],
			"foreign waitpoint": own[:24] + foreign[24:],
		}
		for i := 0; i < len(own); i += 3 {
			changed := byte('A')
			if own[i] == 'A' {
				changed = 'B'
			}
			bad["changed at "+strconv.Itoa(i)] = own[:i] + string(changed) + own[i+1:]
		}
		before := fixture.Contents(t, ctx, b)
		for name, text := range bad {
			d, err := b.Client.Signal(ctx, activity.NewToken(text), runtime.Signal{Name: "x", Payload: 1})
			require.Equal(t, runtime.ErrInvalidToken, err, name)
			require.Zero(t, d, name)
		}
		require.Equal(t, before, fixture.Contents(t, ctx, b))
		// A genuine token works where a forged one did not.
		require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, waits[0], runtime.Signal{Name: "x", Payload: 1}).Outcome)
		require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, waits[1], runtime.Signal{Name: "x", Payload: 1}).Outcome)
	})
}

func TestInvalidSignalsAreRefused(t *testing.T) {
	t.Parallel()
	def := fixture.Waiter(t, "strict")
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		w := fixture.OpenWaits(t, ctx, run, 1)[0]
		for _, tc := range []struct {
			signal runtime.Signal
			want   error
			text   string
		}{
			{runtime.Signal{}, runtime.ErrInvalid, "bad name"},
			{runtime.Signal{Name: "a b"}, runtime.ErrInvalid, "bad name"},
			{runtime.Signal{Name: "a", Payload: make(chan int)}, runtime.ErrInvalid, "payload of type chan int does not encode"},
			{runtime.Signal{Name: "a", Payload: json.RawMessage("{")}, runtime.ErrInvalid, "does not encode"},
			{runtime.Signal{Name: "a", Payload: strings.Repeat("x", 64<<10)}, runtime.ErrTooLarge, `signal "a": too large: payload has 65538 bytes, at most 65536`},
			{runtime.Signal{Name: "a", Source: strings.Repeat("x", 257)}, runtime.ErrTooLarge, "source has 257 bytes"},
			{runtime.Signal{Name: "a", IdempotencyKey: strings.Repeat("x", 257)}, runtime.ErrTooLarge, "idempotency key has 257 bytes"},
		} {
			_, err := b.Client.Signal(ctx, w.Token, tc.signal)
			require.ErrorIs(t, err, tc.want)
			require.NotContains(t, err.Error(), w.Token.Reveal())
			_ = tc.text
		}
		require.Zero(t, fixture.OpenWaits(t, ctx, run, 1)[0].Received)
		largest := json.RawMessage(strings.Repeat(" ", 64<<10-1) + "1")
		require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, w, runtime.Signal{Name: "a", Payload: largest}).Outcome)
	})
}

// Tokens stay valid through a rotation for the grace time, and not longer.
func TestTokensOutliveARotation(t *testing.T) {
	t.Parallel()
	def := fixture.Waiter(t, "rotated")
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var waits []runtime.Waitpoint
		for i := range 2 {
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			waits = append(waits, fixture.OpenWaits(t, ctx, run, 1)[0])
		}
		_, err := b.Engine.RotateSecrets(ctx, time.Hour)
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, waits[0], runtime.Signal{Name: "x", Payload: 1}).Outcome)
		// The grace of the first secret stays; the grace of the second is over at once. Neither signs new tokens.
		run, err := runtime.Start(ctx, b.Client, def, 3)
		require.NoError(t, err)
		fresh := fixture.OpenWaits(t, ctx, run, 1)[0]
		_, err = b.Engine.RotateSecrets(ctx, time.Millisecond)
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			if _, err := b.Client.Signal(ctx, fresh.Token, runtime.Signal{Name: "x"}); err != nil {
				require.Equal(t, runtime.ErrInvalidToken, err)
				return ""
			}
			return "the token is still good"
		})
		require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, waits[1], runtime.Signal{Name: "x", Payload: 1}).Outcome)
	})
}

// Nothing that is printed, logged or described has a token in it: only Waitpoints gives them.
func TestTokensNeverShow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		asked := make(chan activity.Token, 1)
		f := flow.New[int, int]("shown")
		w := flow.Waitpoint[int](f, "outside", activity.Timeout(time.Hour, activity.Escalate))
		flow.Return(f, flow.Node(f, "talk", talker(asked), w))
		def, err := f.Build()
		require.NoError(t, err)
		var out strings.Builder
		logger := slog.New(slog.NewJSONHandler(&out, nil))
		var tokens []activity.Token
		show := func(run *runtime.Run[int]) {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			data, err := json.Marshal(d)
			require.NoError(t, err)
			fmt.Fprintf(&out, "%v %+v %#v\n%s\n", d, d, d.Nodes, data)
			waits, err := run.Waitpoints(ctx)
			require.NoError(t, err)
			for _, w := range waits {
				tokens = append(tokens, w.Token)
				logger.Info("wait", "wait", w, "token", w.Token)
				fmt.Fprintf(&out, "%v %+v %#v %s\n", w, w, w, w.Token)
			}
		}
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		first := fixture.OpenWaits(t, ctx, run, 1)[0]
		show(run)
		fixture.Send(t, ctx, b, first, runtime.Signal{Name: "x", Payload: 1})
		tokens = append(tokens, <-asked)
		fixture.OpenWaits(t, ctx, run, 1)
		show(run)
		forged := first.Token.Reveal()[:70] + "AAAA" + first.Token.Reveal()[74:]
		_, err = b.Client.Signal(ctx, activity.NewToken(forged), runtime.Signal{Name: "x"})
		fmt.Fprintln(&out, err)
		second := fixture.OpenWaits(t, ctx, run, 1)[0]
		_, err = b.Client.Signal(ctx, second.Token, runtime.Signal{Name: "x", Payload: "not a number"})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		fmt.Fprintln(&out, err)
		require.NoError(t, run.CancelWait(ctx, second, "enough"))
		_, err = run.Result(ctx)
		require.Error(t, err)
		fmt.Fprintln(&out, err)
		show(run)
		for event, err := range run.Watch(ctx, "") {
			fmt.Fprintf(&out, "%+v %v\n", event, err)
		}
		for frame, err := range run.Stream(ctx, "talk", "") {
			fmt.Fprintf(&out, "%s %+v %v\n", frame.Payload(), frame, err)
		}
		out.WriteString(b.Log())
		require.GreaterOrEqual(t, len(tokens), 3)
		shown := out.String()
		require.Contains(t, shown, "[token]")
		for _, token := range tokens {
			require.NotContains(t, shown, token.Reveal())
			require.NotContains(t, shown, enginetest.TokenSecret(t, token))
		}
	})
}

// talker hands the token of its wait over, and shows it wherever a function can show something.
func talker(asked chan<- activity.Token) *activity.Activity[int, int] {
	return activity.New("talk", func(ctx context.Context, n int) (int, error) {
		token, err := activity.OpenWaitpoint(ctx, "inside", 0)
		if err != nil {
			return 0, err
		}
		if err := activity.Emit(ctx, activity.Frame{Kind: "token", Payload: map[string]any{"token": token}}); err != nil {
			return 0, err
		}
		select {
		case asked <- token:
		default: // handed over before the wait
		}
		_ = activity.Progress(ctx, 10, fmt.Sprint("asked ", token))
		_, err = activity.Await[int](ctx, "inside")
		return 0, fmt.Errorf("token %v %+v %#v: %w", token, token, token, err)
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
}

// waitingCount is how many runs wait at a time: few by default, 10,000 in soak tests.
func waitingCount(t *testing.T) int {
	t.Helper()
	text := os.Getenv("FLOWFABRIC_TEST_WAITING")
	if text == "" {
		return 150
	}
	count, err := strconv.Atoi(text)
	require.NoError(t, err)
	return count
}

// Many executions wait while one worker with one slot continues with other work.
func TestManyWaits_HoldNoSlots(t *testing.T) {
	t.Parallel()
	count := waitingCount(t)
	talk := activity.New("talk", func(ctx context.Context, n int) (int, error) { return activity.Await[int](ctx, "w") })
	plain := activity.New("plain", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	nodes, functions, work := fixture.Waiter(t, "waiting-node"), fixture.OneNode(t, "waiting-function", talk), fixture.OneNode(t, "plain", plain)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*enginetest.Patience)
		defer cancel()
		b.Keeper(t)
		b.Worker(t, []activity.Handler{talk, plain}, runtime.WorkerConfig{Concurrency: 1})
		runs := make([]*runtime.Run[int], count)
		parallel(t, count, func(i int) error {
			var err error
			if i%2 == 0 {
				runs[i], err = runtime.Start(ctx, b.Client, nodes, i)
			} else {
				runs[i], err = runtime.Start(ctx, b.Client, functions, i)
			}
			return err
		})
		begun := time.Now()
		for i := range 50 {
			run, err := runtime.Start(ctx, b.Client, work, i)
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, i+1, out)
		}
		t.Logf("50 runs one after the other while %d wait: %s", count, time.Since(begun))
		waits := make([]runtime.Waitpoint, count)
		for i, run := range runs {
			waits[i] = fixture.OpenWaits(t, ctx, run, 1)[0]
		}
		begun = time.Now()
		parallel(t, count, func(i int) error {
			d, err := b.Client.Signal(ctx, waits[i].Token, runtime.Signal{Name: "x", Payload: i})
			if err == nil && d.Outcome != fabrictype.SignalResumed {
				err = fmt.Errorf("signal %d: %s", i, d.Outcome)
			}
			return err
		})
		for i, run := range runs {
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, i, out)
		}
		t.Logf("%d signalled and finished in %s", count, time.Since(begun))
		b.Settle(t)
	})
}

// parallel calls do for 0 to n-1 from several goroutines.
func parallel(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	next := make(chan int)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// Every kind of edge after every outcome, against the table of the page on waits.
func TestEdgeKinds(t *testing.T) {
	t.Parallel()
	outcomes := []string{"success", "failed", "expired", "cancelled", "skipped"}
	table := map[string]map[string]string{
		"after":      {"success": "completed", "failed": "skipped", "expired": "skipped", "cancelled": "skipped", "skipped": "skipped"},
		"on-failure": {"success": "skipped", "failed": "completed", "expired": "completed", "cancelled": "completed", "skipped": "skipped"},
		"always":     {"success": "completed", "failed": "completed", "expired": "completed", "cancelled": "completed", "skipped": "completed"},
	}
	page, err := os.ReadFile("../../../docs/concepts/waits.md")
	require.NoError(t, err)
	for _, outcome := range outcomes {
		row := "| " + outcome
		for _, kind := range []string{"after", "on-failure", "always"} {
			row += " | " + map[string]string{"completed": "satisfied", "skipped": "impossible"}[table[kind][outcome]]
		}
		require.Contains(t, string(page), row+" |")
	}
	say := activity.New("say", func(_ context.Context, ok bool) (bool, error) {
		if !ok {
			return false, activity.NonRetryable(fmt.Errorf("set to fail"))
		}
		return true, nil
	})
	f := flow.New[int, struct{}]("edges")
	yes, no := flow.Const(true), flow.Const(false)
	failed := flow.Node(f, "failed", say, no)
	ups := map[string]flow.Upstream{
		"success": flow.Node(f, "success", say, yes), "failed": failed,
		"expired":   flow.Waitpoint[int](f, "expired", activity.Timeout(20*time.Millisecond, activity.ExpireOnTimeout)),
		"cancelled": flow.Waitpoint[int](f, "cancelled", activity.Timeout(20*time.Millisecond, activity.CancelOnTimeout)),
		"skipped":   flow.Node(f, "skipped", say, failed),
	}
	want := make(map[string]string)
	for _, outcome := range outcomes {
		for kind, opt := range map[string]flow.OrderOption{
			"after": flow.After(ups[outcome]), "on-failure": flow.OnFailure(ups[outcome]), "always": flow.Always(ups[outcome]),
		} {
			flow.Node(f, kind+"-"+outcome, say, yes, opt)
			want[kind+"-"+outcome] = table[kind][outcome]
		}
	}
	// Edges of several kinds: all must be satisfied.
	flow.Node(f, "mixed", say, yes, flow.After(ups["success"]), flow.OnFailure(ups["failed"], ups["expired"]), flow.Always(ups["skipped"]))
	flow.Node(f, "mixed-not", say, yes, flow.After(ups["success"]), flow.OnFailure(ups["skipped"]), flow.Always(ups["failed"]))
	w := flow.Waitpoint[int](f, "gate", flow.OnFailure(ups["failed"]), activity.Timeout(20*time.Millisecond, activity.ResumeOnTimeout))
	flow.Node(f, "behind-gate", say, yes, flow.After(w))
	want["mixed"], want["mixed-not"], want["gate"], want["behind-gate"] = "completed", "skipped", "completed", "completed"
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		got := nodeStates(t, ctx, run)
		for node, state := range want {
			require.Equal(t, state, got[node], node)
		}
		b.Settle(t)
	})
}

// Nothing starts in a run that was cancelled, whatever its edges say.
func TestNoCleanupAfterACancel(t *testing.T) {
	t.Parallel()
	say := activity.New("say", func(_ context.Context, ok bool) (bool, error) { return ok, nil })
	f := flow.New[int, struct{}]("cancelled")
	w := flow.Waitpoint[int](f, "wait")
	flow.Node(f, "clean", say, flow.Const(true), flow.Always(w))
	flow.Node(f, "compensate", say, flow.Const(true), flow.OnFailure(w))
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		waits := fixture.OpenWaits(t, ctx, run, 1)
		require.NoError(t, run.Cancel(ctx, "enough"))
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Equal(t, map[string]string{"wait": "cancelled", "clean": "cancelled", "compensate": "cancelled"}, nodeStates(t, ctx, run))
		require.Equal(t, fabrictype.SignalClosed, fixture.Send(t, ctx, b, waits[0], runtime.Signal{Name: "x"}).Outcome)
		b.Settle(t)
	})
}
