package metertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/luameter"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/runtime"
)

const (
	lane     = "default"
	instance = "meter-1"
	// home is the partition that has the order of the lanes of one server.
	home = 0
	// place is the partition of the runs.
	place = 1
	// step is how far the clock advances with each batch of calls.
	step = time.Millisecond
)

// rig is an engine with a meter, a client, and the calls of a worker. Its clock advances with the calls alone, and one
// goroutine makes them, so that the same work takes the same instructions.
type rig struct {
	t      *testing.T
	ctx    context.Context
	meter  *luameter.Meter
	clock  atomic.Int64 // milliseconds since 1970
	client *runtime.Client
	core   *enginerpc.Conn

	work   workload
	def    *flow.Definition[string, string]
	names  int // counts ids and keys
	claims int
	sent   int    // calls with sums of usage
	origin string // the run that forks are of
	held   []enginerpc.ClaimedExecution
	open   map[string]int // how many ends each run has before it
}

func newRig(t *testing.T, w workload, meter *luameter.Meter) *rig {
	t.Helper()
	r := &rig{t: t, meter: meter, work: w, open: make(map[string]int)}
	r.clock.Store(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r.ctx = ctx
	shared, err := embedded.Open(luameter.With(ctx, meter), embedded.Options{
		Library: lualib.Source(), Clock: func() time.Time { return time.UnixMilli(r.clock.Load()) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	e, err := runtime.Open(ctx, "embedded:", runtime.OpenConfig{
		AllowVolatile: true, Logger: slog.New(slog.DiscardHandler), Internal: enginelink.HandleOf(&enginelink.Link{Shared: shared}),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	r.client, err = runtime.NewClient(e)
	require.NoError(t, err)
	t.Cleanup(r.client.Close)
	r.core = engine.ConnOf(e.Internal())
	r.def, err = w.build()
	require.NoError(t, err)
	return r
}

// pass advances the clock.
func (r *rig) pass(d time.Duration) { r.clock.Add(d.Milliseconds()) }

// now is the time of the clock.
func (r *rig) now() time.Time { return time.UnixMilli(r.clock.Load()) }

// name returns a name that has not been used and for which found is true.
func (r *rig) name(found func(name string) bool) string {
	for {
		r.names++
		if name := fmt.Sprintf("name-%08d", r.names); found(name) {
			return name
		}
	}
}

// id returns the id of a new run in the partition of the runs.
func (r *rig) id() string {
	return r.name(func(id string) bool {
		return r.core.Partitioning().FlowPartitionFor(engine.DefaultNamespace, r.def.Name(), id).Index == place
	})
}

// key returns a new key, whose runs are in the partition of the runs.
func (r *rig) key() string {
	return r.name(func(key string) bool {
		p, err := r.core.Partitioning().RunKeyPartition(
			keyspace.RunKeyIDFor(engine.DefaultNamespace, r.def.Name(), key))
		require.NoError(r.t, err)
		return p.Index == place
	})
}

// start starts runs: with one call as far as the engine allows, or one by one.
func (r *rig) start(count int) {
	r.pass(step)
	var ids []string
	switch {
	case r.work.start != nil:
		for range count {
			id, err := r.work.start(r)
			require.NoError(r.t, err)
			ids = append(ids, id)
		}
	default:
		runs := make([]runtime.NewRun[string], count)
		for i := range runs {
			id := r.id
			if r.work.id != nil {
				id = func() string { return r.work.id(r) }
			}
			runs[i].Input, runs[i].Options = payload, []runtime.StartOption{runtime.WithID(id())}
			if r.work.options != nil {
				runs[i].Options = append(runs[i].Options, r.work.options(r)...)
			}
		}
		started, err := runtime.StartMany(r.ctx, r.client, r.def, runs)
		require.NoError(r.t, err)
		for _, one := range started {
			require.NoError(r.t, one.Err)
			ids = append(ids, one.Run.ID())
		}
	}
	for _, id := range ids {
		r.open[id] = r.work.ends
	}
}

// claim is the claim of as many executions as there are slots.
func (r *rig) claim(slots int) enginerpc.ClaimRequest {
	r.claims++
	return enginerpc.ClaimRequest{
		LaneID: lane, WorkerID: "meter", WorkerInstanceID: instance, LeaseTTL: time.Minute, Count: int64(slots),
		ClaimID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, r.claims)).String(), Kinds: kinds,
	}
}

// exchange reports the ends of the held executions, and claims as many as there are slots.
func (r *rig) exchange(slots int) {
	r.pass(step)
	var ended []enginerpc.ClaimedExecution
	for _, x := range r.held {
		switch {
		case r.work.drops != nil && r.work.drops(x):
			// Its worker drops it, as the engine has cancelled it.
		case r.work.fails != nil && r.work.fails(x):
			_, err := r.core.Fail(r.ctx, enginerpc.FailCall{
				Partition: r.partition(x), ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch,
				AttemptID: x.AttemptID, AttemptIndex: x.AttemptIndex, Reason: "first attempt", Category: "error",
				Retryable: true,
			})
			require.NoError(r.t, err)
		default:
			ended = append(ended, x)
		}
	}
	if len(ended) == 0 {
		reply, err := r.core.Claim(r.ctx, enginerpc.ClaimCall{
			Partition: keyspace.Partition{Family: keyspace.FlowFamily, Index: home}, ClaimRequest: r.claim(slots),
		})
		require.NoError(r.t, err)
		r.held = reply.Executions
		return
	}
	r.held = nil
	for group := range slices.Chunk(ended, maxCompletions) {
		call := enginerpc.WorkCall{Partition: r.partition(group[0]), ClaimRequest: r.claim(slots)}
		var done []*enginerpc.ClaimedExecution
		for i := range group {
			done = append(done, &group[i])
			call.Completions = append(call.Completions, enginerpc.Completed(&group[i], result))
		}
		if r.work.uses {
			call.Sums = r.sums(len(group))
		}
		reply, err := r.core.Commit(r.ctx, call, done)
		require.NoError(r.t, err)
		for _, outcome := range strings.Fields(reply.Outcomes) {
			require.Equal(r.t, "OK", outcome)
		}
		r.held = append(r.held, reply.Executions...)
	}
	for _, x := range ended {
		if r.open[x.RunID]--; r.open[x.RunID] == 0 {
			delete(r.open, x.RunID)
		}
	}
}

// sums are the sums of some reports to the budget of the runs, which the first call creates.
func (r *rig) sums(reports int) []enginerpc.UsageSum {
	id := submit.BudgetID(engine.DefaultNamespace, fabrictype.BudgetName{Name: budgetName, Flow: r.def.Name()})
	p, err := r.core.Partitioning().BudgetPartition(id)
	require.NoError(r.t, err)
	if r.sent++; r.sent == 1 {
		_, err := r.core.UseBudget(r.ctx, enginerpc.UseBudgetCall{
			Partition: p, BudgetID: id, Declares: true, Dims: []enginerpc.UseBudgetDim{{Name: "calls", Hard: budgetLimit}},
			BudgetDeclaration: enginerpc.BudgetDeclaration{
				Name: budgetName, ScopeType: "flow", ScopeID: r.def.Name(), Effect: "block", Declared: "block 0 calls",
			},
		})
		require.NoError(r.t, err)
	}
	return []enginerpc.UsageSum{{
		Partition: int64(p.Index), BudgetID: id, Dimension: "calls", Amount: int64(reports), Account: "account", Serial: int64(r.sent),
		Declares: true, Declared: "block 0 calls",
	}}
}

// maxCompletions is how many completions a worker sends with one call.
const maxCompletions = 16

func (r *rig) partition(x enginerpc.ClaimedExecution) keyspace.Partition {
	p, err := keyspace.PartitionOf(x.ExecutionID)
	require.NoError(r.t, err)
	return p
}

// tick does the work of a keeper once something is due.
func (r *rig) tick() {
	r.pass(due)
	for more := true; more; {
		reply, err := r.core.Tick(r.ctx, enginerpc.TickCall{
			Partition: keyspace.Partition{Family: keyspace.FlowFamily, Index: place}, Limit: engine.TickLimit,
		})
		require.NoError(r.t, err)
		more = reply.More
	}
}

// errStuck is the failure of runs that do not end.
var errStuck = errors.New("the runs do not end")

// cycle starts a batch of runs and works until all of them have ended. Where the nodes of a run are one after the
// other, it works until all earlier ones have, so that a call of a worker under load, which reports some ends and gets
// other executions, is the usual one.
func (r *rig) cycle(runs int) {
	keep := 0
	if r.work.isLine {
		keep = runs
	}
	r.start(runs)
	for rounds := 0; len(r.open) > keep; rounds++ {
		if rounds > 100 {
			require.NoError(r.t, errStuck)
		}
		waited := len(r.held) == 0
		r.exchange(runs * max(1, r.work.width))
		if waited && len(r.held) == 0 {
			r.tick()
		}
	}
}

// idOf is the id of a started run.
func idOf[T any](run *runtime.Run[T], err error) (string, error) {
	if err != nil {
		return "", err
	}
	return run.ID(), nil
}
