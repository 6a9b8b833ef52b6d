package waittest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

type signals = []activity.Signal[activity.Decision]

// approving is a flow that applies a change that two people have approved, and takes back one that they have not.
func approving(t *testing.T, opts ...flow.WaitOption) *flow.Definition[string, signals] {
	t.Helper()
	f := flow.New[string, signals]("approving")
	ok := flow.Approval(f, "go-live", append([]flow.WaitOption{activity.Approvers(2)}, opts...)...)
	applied := flow.Node(f, "apply", activity.New("approving.apply", func(_ context.Context, s signals) (signals, error) { return s, nil }), ok)
	flow.Node(f, "take-back", activity.New("approving.back", func(_ context.Context, s string) (string, error) { return s, nil }), f.Input(), flow.OnFailure(ok))
	flow.Return(f, applied)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// An approval succeeds when different people have approved, and fails with the first rejection, which the failure
// names.
func TestApproval(t *testing.T) {
	t.Parallel()
	def := approving(t)
	for name, tc := range map[string]struct {
		sent [][3]string // signal, source, comment
		took []string
		says string
	}{
		"two people":           {sent: [][3]string{{"approve", "ann", "fine"}, {"approve", "bob", ""}}, took: []string{"ann", "bob"}},
		"a rejection":          {sent: [][3]string{{"reject", "bob", "not on a Friday"}}, says: "rejected by bob: not on a Friday"},
		"two rejections":       {sent: [][3]string{{"reject", "bob", ""}}, says: "rejected by bob"},
		"of one who agreed":    {sent: [][3]string{{"approve", "ann", ""}, {"reject", "ann", "\"oops\"\nö"}}, says: "rejected by ann: \"oops\"\nö"},
		"with a long comment":  {sent: [][3]string{{"reject", "ann", strings.Repeat("ö", 2000)}}, says: "rejected by ann: " + strings.Repeat("ö", 512) + "…"},
		"a rejection of three": {sent: [][3]string{{"approve", "ann", ""}, {"reject", "bob", "no"}}, says: "rejected by bob: no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				ctx := enginetest.Context(t)
				b.Worker(t, def.Handlers())
				run, err := runtime.Start(ctx, b.Client, def, "v2")
				require.NoError(t, err)
				w := fixture.OpenWaits(t, ctx, run, 1)[0]
				require.Equal(t, []string{"approve", "reject"}, w.Signals)
				for i, s := range tc.sent {
					want := fabrictype.SignalAccepted
					if i == len(tc.sent)-1 {
						want = fabrictype.SignalResumed
					}
					got := fixture.Send(t, ctx, b, w, runtime.Signal{
						Name: s[0], Source: s[1], Payload: activity.Decision{Choice: s[0], Comment: s[2]},
					})
					require.Equal(t, want, got.Outcome, "signal %d", i)
				}
				got, err := run.Result(ctx)
				if tc.says == "" {
					require.NoError(t, err)
					require.Len(t, got, len(tc.took))
					for i, who := range tc.took {
						require.Equal(t, who, got[i].Source)
						require.Equal(t, tc.sent[i][2], got[i].Payload.Comment)
						require.WithinDuration(t, time.Now(), got[i].Time(), time.Hour)
					}
				} else {
					requireRejected(t, ctx, run, err, tc.says)
				}
				b.Settle(t)
			})
		})
	}
}

func requireRejected(t *testing.T, ctx context.Context, run *runtime.Run[signals], err error, says string) {
	t.Helper()
	require.ErrorIs(t, err, runtime.ErrRunFailed)
	d, err := run.Describe(ctx)
	require.NoError(t, err)
	states := make(map[string]fabrictype.NodeState)
	for _, n := range d.Nodes {
		states[n.Name] = n.State
		if n.Name == "go-live" {
			require.Equal(t, [2]string{says, "rejected"}, [2]string{n.Reason, n.Category})
		}
	}
	require.Equal(t, map[string]fabrictype.NodeState{
		"go-live": fabrictype.NodeFailed, "apply": fabrictype.NodeSkipped, "take-back": fabrictype.NodeSucceeded,
	}, states)
}

// A signal that an open wait does not count is an error that says why. One that comes before the wait of a function is
// none, and the repetition of one that counted is a duplicate.
func TestSignalsThatDoNotCount(t *testing.T) {
	t.Parallel()
	def := approving(t)
	f := flow.New[string, int]("all")
	flow.Return(f, flow.Waitpoint[int](f, "both", activity.Signals("a", "b"), activity.MatchAll()))
	all, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, def, "v2")
		require.NoError(t, err)
		w := fixture.OpenWaits(t, ctx, run, 1)[0]
		approve := runtime.Signal{Name: "approve", Source: "ann", Payload: activity.Decision{}, IdempotencyKey: "1"}
		require.True(t, fixture.Send(t, ctx, b, w, approve).Counts)
		again := fixture.Send(t, ctx, b, w, approve)
		require.Equal(t, [2]fabrictype.SignalOutcome{fabrictype.SignalDuplicate, fabrictype.SignalAccepted}, [2]fabrictype.SignalOutcome{again.Outcome, again.First})
		refused := func(s runtime.Signal, says string) {
			t.Helper()
			for range 2 { // the repetition does not count either
				_, err := b.Client.Signal(ctx, w.Token, s)
				require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount)
				require.ErrorContains(t, err, says)
				_, err = run.SignalWait(ctx, runtime.WaitName{Node: w.Node}, s)
				require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount)
			}
		}
		refused(runtime.Signal{Name: "aprove", Source: "bob", IdempotencyKey: "2"},
			`the signal does not count: the wait takes no signal of that name; the names that count: approve, reject`)
		refused(runtime.Signal{Name: "approve", Source: "ann", IdempotencyKey: "3"},
			`"ann" has answered before, and the wait needs different people; the names that count: approve, reject`)
		require.Equal(t, 1, fixture.OpenWaits(t, ctx, run, 1)[0].Received)

		_, err = b.Client.Signal(ctx, w.Token, runtime.Signal{Name: "approve", Source: "bob", Payload: activity.Decision{Choice: "reject"}})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, `/choice: choice contradicts the signal "approve": "choice" is "reject", and must be "approve"`)

		other, err := runtime.Start(ctx, b.Client, all, "")
		require.NoError(t, err)
		w = fixture.OpenWaits(t, ctx, other, 1)[0]
		require.True(t, fixture.Send(t, ctx, b, w, runtime.Signal{Name: "a", Payload: 1}).Counts)
		_, err = b.Client.Signal(ctx, w.Token, runtime.Signal{Name: "a", Payload: 2})
		require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount)
		require.ErrorContains(t, err, "the wait has enough signals of that name; the names that count: a, b")
	})
}

// A signal with the start of a run that does not count is an error, too; the run is there.
func TestStartWithASignalThatDoesNotCount(t *testing.T) {
	t.Parallel()
	def := approving(t)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		with := func(name, who string) runtime.StartOption {
			return runtime.WithSignal(runtime.WaitName{Node: "go-live"}, runtime.Signal{Name: name, Source: who, Payload: activity.Decision{}})
		}
		_, err := runtime.Start(ctx, b.Client, def, "", runtime.WithID("r"), with("approve", "ann"))
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, def, "", runtime.WithID("r"), with("approve", "ann"))
		require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount)
		_, err = runtime.Start(ctx, b.Client, def, "", runtime.WithID("r"), with("agree", "bob"))
		require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount)
	})
}

// A rejection that comes before the approval has begun fails it with its comment once it begins. A rejection of another wait
// leaves nothing of its comment in the record of the signal.
func TestRejectedAhead(t *testing.T) {
	t.Parallel()
	f := flow.New[string, signals]("ahead")
	begin := flow.Node(f, "begin", activity.New("ahead.begin", func(context.Context, string) (string, error) { return "", nil }), f.Input())
	other := flow.Waitpoint[activity.Decision](f, "other", activity.Signals("reject"))
	flow.Return(f, flow.Approval(f, "go-live", flow.After(begin), flow.After(other)))
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		reject := runtime.Signal{Name: "reject", Source: "ann", Payload: activity.Decision{Comment: "not on a Friday"}}
		run, err := runtime.Start(ctx, b.Client, def, "", runtime.WithSignal(runtime.WaitName{Node: "go-live"}, reject))
		require.NoError(t, err)
		elsewhere, err := run.SignalWait(ctx, runtime.WaitName{Node: "other"}, reject)
		require.NoError(t, err)
		conn, p := engine.ConnOf(b.Engine.Internal()), b.Locate(t, "ahead", run.ID()).Partition
		for id, want := range map[string]bool{run.SignalResult().SignalID: true, elsewhere.SignalID: false} {
			key := conn.Keys().SignalRecord(p, enginecore.SignalID(id))
			kept, err := conn.Client().Do(ctx, conn.Client().B().Hexists().Key(key).Field("comment").Build()).AsBool()
			require.NoError(t, err)
			require.Equal(t, want, kept)
		}
		b.Worker(t, def.Handlers())
		_, err = run.Result(ctx)
		require.ErrorContains(t, err, "rejected by ann: not on a Friday")
		b.Settle(t)
	})
}
