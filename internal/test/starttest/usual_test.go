package starttest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// oneWay is an engine on which runs are started in one of the two ways.
type oneWay struct {
	t       *testing.T
	ctx     context.Context
	now     time.Time
	session *engine.Session
	client  *runtime.Client
}

func newWay(t *testing.T) *oneWay {
	t.Helper()
	w := &oneWay{t: t, ctx: t.Context(), now: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)}
	shared, err := embedded.Open(w.ctx, embedded.Options{
		Library: lualib.Source(), Clock: func() time.Time { return w.now },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	e, err := runtime.Open(w.ctx, "embedded:", runtime.OpenConfig{
		AllowVolatile: true, Logger: slog.New(slog.DiscardHandler), Partitions: 4,
		Internal: enginelink.HandleOf(&enginelink.Link{Shared: shared}),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	w.session, err = engine.SessionOf(e.Internal())
	require.NoError(t, err)
	w.client, err = runtime.NewClient(e)
	require.NoError(t, err)
	t.Cleanup(w.client.Close)
	return w
}

// dump has the stored data, a text for each key.
func (w *oneWay) dump() map[string]string {
	client := w.session.Core.Client()
	keys, err := invariant.Keys(w.ctx, client, "ff")
	require.NoError(w.t, err)
	out := make(map[string]string, len(keys))
	for _, key := range keys {
		b := client.B()
		kind, err := client.Do(w.ctx, b.Type().Key(key).Build()).ToString()
		require.NoError(w.t, err)
		read := map[string]rueidis.Completed{
			"string": b.Get().Key(key).Build(), "hash": b.Hgetall().Key(key).Build(),
			"list": b.Lrange().Key(key).Start(0).Stop(-1).Build(),
			"set":  b.Smembers().Key(key).Build(), "zset": b.Zrange().Key(key).Min("0").Max("-1").Withscores().Build(),
		}
		command, found := read[kind]
		if !found {
			continue
		}
		value, err := client.Do(w.ctx, command).ToAny()
		require.NoError(w.t, err)
		text := fmt.Sprintf("%q", value)
		if list, ok := value.([]any); ok && kind == "set" {
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			text = fmt.Sprintf("%q", list)
		}
		out[key] = text
	}
	return out
}

// order is the input of the runs.
type order struct {
	Tenant string `json:"tenant"`
	Text   string `json:"text"`
}

// claimOf is the claim that goes with the n-th start.
func claimOf(lane string, n, count int) enginerpc.ClaimRequest {
	if count == 0 {
		return enginerpc.ClaimRequest{}
	}
	return enginerpc.ClaimRequest{
		LaneID: "default", WorkerID: "w", WorkerInstanceID: "w-1",
		ClaimID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, lane, n)).String(),
		Count:   int64(count), LeaseTTL: time.Minute, Kinds: enginerpc.KindSet([]string{"one"}),
	}
}

// TestBothWaysToStartAgree starts runs with ffx_start on one engine and with ffx_submit on another one. Both have the
// same data then, and give the same leases.
func TestBothWaysToStartAgree(t *testing.T) {
	t.Parallel()
	one := activity.New("one", func(_ context.Context, in order) (order, error) { return in, nil })
	join := activity.New("join", func(_ context.Context, in []order) (order, error) { return in[0], nil })
	chain := func(n int, nodes []flow.NodeOption, options ...flow.Option) *flow.Definition[order, order] {
		f := flow.New[order, order]("usual", options...)
		ref := flow.Node(f, "n1", one, f.Input(), nodes...)
		for i := 1; i < n; i++ {
			ref = flow.Node(f, fmt.Sprint("n", i+1), one, ref, nodes...)
		}
		flow.Return(f, ref)
		return fixture.Build(t, f)
	}
	roots := func() *flow.Definition[order, order] {
		f := flow.New[order, order]("usual")
		var refs []flow.Ref[order]
		for i := range 3 {
			refs = append(refs, flow.Node(f, fmt.Sprint("root", i), one, f.Input()))
		}
		flow.Return(f, flow.Node(f, "last", join, flow.List(refs...)))
		return fixture.Build(t, f)
	}
	for name, def := range map[string]*flow.Definition[order, order]{
		"single": chain(1, nil), "chain": chain(3, nil), "long chain": chain(14, nil), "several roots": roots(),
		"tags, deadline, retention": chain(2, nil, flow.Tag("team.name", "a"), flow.Deadline(time.Hour), flow.Retention(time.Hour)),
		"ScheduleToStart":           chain(1, []flow.NodeOption{activity.ScheduleToStart(time.Minute)}),
		"StartToClose":              chain(1, []flow.NodeOption{activity.StartToClose(time.Minute)}),
		"other lane":                chain(1, []flow.NodeOption{activity.Lane("other")}),
		"priority":                  chain(1, []flow.NodeOption{activity.Priority(5)}),
		"limit":                     chain(1, []flow.NodeOption{activity.Limit("few", activity.LimitConfig{AtOnce: 2})}),
		"fair":                      chain(1, nil, flow.FairBy("tenant")),
		"budget": chain(1, nil, flow.Budget("much", flow.BudgetConfig{
			Hard: map[string]int64{"calls": 5}, PerFlow: true, OnExceeded: flow.BlockNodes,
		})),
	} {
		for _, slots := range []int{0, 2, 16} {
			for _, text := range []string{"a", strings.Repeat("b", 2000)} {
				t.Run(fmt.Sprint(name, " ", slots, " ", len(text)), func(t *testing.T) {
					t.Parallel()
					usual, general := newWay(t), newWay(t)
					for n := range 4 { // the first call stores the graph
						var leased [2][]enginerpc.ClaimedExecution
						for i, w := range []*oneWay{usual, general} {
							w.now = w.now.Add(time.Millisecond)
							leased[i] = w.start(def, text, n, slots, n > 0 && w == usual)
						}
						require.Equal(t, leased[1], leased[0])
						require.Equal(t, general.dump(), usual.dump())
					}
					var claimed [2]enginerpc.ClaimReply
					for i, w := range []*oneWay{usual, general} {
						w.now = w.now.Add(time.Millisecond)
						var err error
						claimed[i], err = w.session.Core.Claim(w.ctx, enginerpc.ClaimCall{
							Partition: keyspace.Partition{Family: keyspace.FlowFamily}, ClaimRequest: claimOf(t.Name(), 9, 9),
						})
						require.NoError(t, err)
					}
					require.Equal(t, claimed[1], claimed[0])
					require.Equal(t, general.dump(), usual.dump())
				})
			}
		}
	}
}

// start starts some runs of one partition.
func (w *oneWay) start(def *flow.Definition[order, order], text string, n, slots int, usual bool) []enginerpc.ClaimedExecution {
	var plans []*submit.RunPlan
	first, err := fixture.NewPlan(w.client, def, order{Tenant: "0"}, "first")
	require.NoError(w.t, err)
	for i := 0; len(plans) < 3; i++ {
		tags := map[string]string{}
		if i%2 == 1 {
			tags["own.tag"] = fmt.Sprint(i)
		}
		plan, err := fixture.NewTaggedPlan(w.client, def, order{fmt.Sprint(i % 2), text}, fmt.Sprintf("%d-%d", n, i), tags)
		require.NoError(w.t, err)
		if plan.Partition == first.Partition {
			plans = append(plans, plan)
		}
	}
	// Runs that begin at the same time have the order of their ids in a lane.
	slices.SortFunc(plans, func(a, b *submit.RunPlan) int { return cmp.Compare(a.FlowID, b.FlowID) })
	key := submit.StartKeyOf(plans[0])
	claim := claimOf(w.t.Name(), n, slots)
	if !usual {
		call := submit.StartCall(key, plans)
		call.ClaimRequest = claim
		reply, err := submit.NewStarter(w.session, nil).Send(w.ctx, key, call)
		require.NoError(w.t, err)
		return reply.Executions
	}
	call := submit.UsualCall(key, plans)
	call.ClaimRequest = claim
	reply, err := w.session.Core.Start(w.ctx, call)
	require.NoError(w.t, err)
	require.Empty(w.t, reply.Outcomes)
	return reply.Executions
}

// A repeated start leases runs that it has created before. Their leases are in the index by which they expire.
func TestRepeatedStart_IndexesItsLeases(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	f := flow.New[order, order]("repeated")
	flow.Return(f, flow.Node(f, "n1", activity.New("one", func(_ context.Context, in order) (order, error) { return in, nil }), f.Input()))
	def := fixture.Build(t, f)
	plan, err := fixture.NewPlan(w.client, def, order{Tenant: "0"}, "run")
	require.NoError(t, err)
	_, err = fixture.SubmitAlone(w.ctx, w.client, plan)
	require.NoError(t, err)
	call := submit.UsualCall(submit.StartKeyOf(plan), []*submit.RunPlan{plan})
	call.ClaimRequest = claimOf(t.Name(), 1, 2)
	reply, err := w.session.Core.Start(w.ctx, call)
	require.NoError(t, err)
	require.Equal(t, "0", reply.Outcomes)
	require.Len(t, reply.Executions, 1)
	client := w.session.Core.Client()
	index := w.session.Core.Keys().IndexLeaseExpiry(plan.Partition)
	leased, err := client.Do(w.ctx, client.B().Zrange().Key(index).Min("0").Max("-1").Build()).AsStrSlice()
	require.NoError(t, err)
	require.Equal(t, []string{string(reply.Executions[0].ExecutionID)}, leased)
}
