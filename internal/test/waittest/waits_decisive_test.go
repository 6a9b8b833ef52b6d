package waittest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// One signal of a decisive name ends the wait, whatever is missing, also from a source that was counted before. Without
// one, it does not matter that there could be.
func TestDecisiveSignals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts []flow.WaitOption
		// sent is names and sources up to the signal that ends the wait; taken are those that the flow gets.
		sent, taken [][2]string
	}{
		"of one who was counted": {
			[]flow.WaitOption{activity.Signals("yes"), activity.AtLeastDistinct(2)},
			[][2]string{{"yes", "ann"}, {"yes", "ann"}, {"other", "bob"}, {"no", "ann"}}, [][2]string{{"yes", "ann"}, {"no", "ann"}},
		},
		"at once":        {[]flow.WaitOption{activity.Signals("yes"), activity.AtLeast(3)}, [][2]string{{"no", "ann"}}, [][2]string{{"no", "ann"}}},
		"among any name": {[]flow.WaitOption{activity.AtLeast(2)}, [][2]string{{"x", "ann"}, {"no", "bob"}}, [][2]string{{"x", "ann"}, {"no", "bob"}}},
		"not needed": {
			[]flow.WaitOption{activity.Signals("yes"), activity.AtLeastDistinct(2)},
			[][2]string{{"yes", "ann"}, {"yes", "bob"}}, [][2]string{{"yes", "ann"}, {"yes", "bob"}},
		},
		"next to all": {
			[]flow.WaitOption{activity.Signals("a", "b"), activity.MatchAll()},
			[][2]string{{"a", "ann"}, {"b", "ann"}}, [][2]string{{"a", "ann"}, {"b", "ann"}},
		},
		"instead of all": {
			[]flow.WaitOption{activity.Signals("a", "b"), activity.MatchAll()},
			[][2]string{{"b", "ann"}, {"no", "ann"}}, [][2]string{{"b", "ann"}, {"no", "ann"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := flow.New[int, []activity.Signal[fixture.Vote]]("decisive")
			flow.Return(f, flow.WaitpointSignals[fixture.Vote](f, "approve", append(tc.opts, activity.Decisive("no"))...))
			def, err := f.Build()
			require.NoError(t, err)
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				ctx := enginetest.Context(t)
				run, err := runtime.Start(ctx, b.Client, def, 1)
				require.NoError(t, err)
				w := fixture.OpenWaits(t, ctx, run, 1)[0]
				require.Contains(t, w.Signals, "no")
				for i, s := range tc.sent {
					want := fabrictype.SignalAccepted
					if i == len(tc.sent)-1 {
						want = fabrictype.SignalResumed
					}
					signal := runtime.Signal{Name: s[0], Source: s[1], Payload: fixture.Vote{By: s[1], Yes: s[0] == "yes"}}
					if i > 0 && (s == tc.sent[i-1] || s[0] == "other") {
						_, err := b.Client.Signal(ctx, w.Token, signal)
						require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount, "signal %d", i)
						require.ErrorContains(t, err, "the names that count: yes, no")
						continue
					}
					got := fixture.Send(t, ctx, b, w, signal)
					require.Equal(t, want, got.Outcome, "signal %d", i)
				}
				signals, err := run.Result(ctx)
				require.NoError(t, err)
				var taken [][2]string
				for _, s := range signals {
					taken = append(taken, [2]string{s.Name, s.Source})
				}
				require.Equal(t, tc.taken, taken)
				b.Settle(t)
			})
		})
	}
}

// A decisive signal that comes before its wait is kept, and decides.
func TestDecisiveSignalBeforeItsWait(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		tokens, waiting := make(chan activity.Token, 1), make(chan struct{})
		ask := activity.New("ask", decisiveAsk(tokens, waiting))
		f := flow.New[int, string]("early")
		flow.Return(f, flow.Node(f, "ask", ask, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		delivery, err := b.Client.Signal(ctx, <-tokens, runtime.Signal{Name: "no", Source: "ann", Payload: fixture.Vote{By: "ann"}})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalAccepted, delivery.Outcome)
		close(waiting)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "no of ann", out)
		b.Settle(t)
	})
}

// decisiveAsk opens its waitpoint, hands the token out and begins to wait when waiting is closed.
func decisiveAsk(tokens chan<- activity.Token, waiting <-chan struct{}) func(context.Context, int) (string, error) {
	return func(ctx context.Context, _ int) (string, error) {
		token, err := activity.OpenWaitpoint(ctx, "answers", 0)
		if err != nil {
			return "", err
		}
		select {
		case tokens <- token:
		default:
		}
		<-waiting
		got, err := activity.AwaitSignals[fixture.Vote](ctx, "answers", activity.Signals("yes"), activity.AtLeast(2), activity.Decisive("no"))
		if err != nil {
			return "", err
		}
		return got[0].Name + " of " + got[0].Payload.By, nil
	}
}
