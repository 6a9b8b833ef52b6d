package limittest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A released permit goes to the next waiting execution in the same call, also when the caller has no slot for it: no
// keeper is needed.
func TestFreedPermitIsHandedOnAtOnce(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		id := keyspace.QuotaIDFor("test", "handed on", "")
		partition, err := core.Partitioning().QuotaPartition(id)
		require.NoError(t, err)
		call := enginerpc.ExchangeCall{Partition: partition, QuotaPolicyID: id, Name: "handed on", Cap: 2, Want: 2}
		for i := range 4 {
			call.Requests = append(call.Requests, enginerpc.ExchangeRequest{Execution: fmt.Sprint("e", i), Token: 1, Score: strconv.Itoa(i)})
		}
		reply, err := core.Exchange(ctx, call)
		require.NoError(t, err)
		require.Len(t, reply.Granted, 2)
		require.Zero(t, reply.Room)
		call.Want, call.Requests = 0, nil
		call.Releases = []enginerpc.ExchangeRelease{{Execution: "e0", Token: 1}, {Execution: "e1", Token: 1}}
		reply, err = core.Exchange(ctx, call)
		require.NoError(t, err)
		require.Len(t, reply.Granted, 2)
		require.Equal(t, "e2", reply.Granted[0].Execution)
		// The same holds for places that go back from a block.
		hold := enginerpc.HoldPlacesCall{
			Partition: partition, QuotaPolicyID: id, Name: "handed on", Cap: 3, WorkerInstanceID: "w", Places: 3, Needed: 3, Seq: 1,
		}
		held, err := core.HoldPlaces(ctx, hold)
		require.NoError(t, err)
		require.EqualValues(t, 1, held.Held)
		_, err = core.Exchange(ctx, enginerpc.ExchangeCall{
			Partition: partition, QuotaPolicyID: id, Name: "handed on", Cap: 3,
			Requests: []enginerpc.ExchangeRequest{{Execution: "e4", Token: 1, Score: "4"}},
		})
		require.NoError(t, err)
		hold.Places, hold.Needed, hold.Seq = 0, 0, 2
		held, err = core.HoldPlaces(ctx, hold)
		require.NoError(t, err)
		require.Zero(t, held.Held)
		require.Len(t, held.Granted, 1)
		require.Equal(t, "e4", held.Granted[0].Execution)
	})
}

// modelBlocks is a model of a quota with blocks of permits.
type modelBlocks struct {
	cap     int64
	held    map[string]int64 // by worker
	seq     map[string]int64
	running map[string]bool
	waiting []string // by score
}

func (m *modelBlocks) used() int64 {
	n := int64(len(m.running))
	for _, held := range m.held {
		n += held
	}
	return n
}

func (m *modelBlocks) spare() int64 { return max(0, min(256, m.cap/2-m.used())) }

func (m *modelBlocks) grant(most int64) (granted []string) {
	for len(m.waiting) > 0 && m.used() < m.cap && most > 0 {
		m.running[m.waiting[0]] = true
		granted = append(granted, m.waiting[0])
		m.waiting = m.waiting[1:]
		most--
	}
	return granted
}

// hold models one request of a worker for a block. Permits that it returns go to waiting executions.
func (m *modelBlocks) hold(worker string, places, needed, seq int64) []string {
	if seq <= m.seq[worker] {
		return nil
	}
	m.seq[worker] = seq
	held := m.held[worker]
	switch {
	case places <= held:
		m.held[worker] = places
	case len(m.waiting) == 0:
		m.held[worker] += max(0, min(needed-held, m.cap-m.used()), min(places-held, m.spare()))
	}
	return m.grant(256)
}

// Random requests for blocks, late and repeated ones among them, between admissions that wait and others that do not,
// return the permits that the model returns, and never more permits than the limit has.
func TestPermitBlocks_FollowTheModel(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		r := rand.New(rand.NewPCG(randseed.Of(t, 0), 1))
		names := func(places []enginerpc.Place) (list []string) {
			for _, p := range places {
				list = append(list, p.Execution)
			}
			return list
		}
		for round := range 6 {
			m := &modelBlocks{cap: 1 + r.Int64N(20), held: make(map[string]int64), seq: make(map[string]int64), running: make(map[string]bool)}
			id := keyspace.QuotaIDFor("model", "blocks", strconv.Itoa(round))
			partition, err := core.Partitioning().QuotaPartition(id)
			require.NoError(t, err)
			for i := range 120 {
				if r.IntN(2) == 0 {
					worker := fmt.Sprint("w", r.IntN(3))
					needed := r.Int64N(12)
					places, seq := needed+r.Int64N(4), m.seq[worker]+int64(r.IntN(4))
					if seq == 0 {
						seq = 1
					}
					reply, err := core.HoldPlaces(ctx, enginerpc.HoldPlacesCall{
						Partition: partition, QuotaPolicyID: id, Name: "blocks", Cap: m.cap, WorkerInstanceID: enginecore.WorkerInstanceID(worker),
						Places: places, Needed: needed, Seq: seq,
					})
					require.NoError(t, err)
					require.Equal(t, m.hold(worker, places, needed, seq), names(reply.Granted))
					require.Equal(t, [2]int64{m.held[worker], m.seq[worker]}, [2]int64{reply.Held, reply.LastSeq})
					require.Equal(t, len(m.waiting) > 0, reply.Contended)
					if len(m.waiting) == 0 {
						require.Equal(t, m.spare(), reply.Room)
					}
				} else {
					call := enginerpc.ExchangeCall{Partition: partition, QuotaPolicyID: id, Name: "blocks", Cap: m.cap, Want: 1000}
					for execution := range m.running {
						if r.IntN(2) == 0 {
							call.Releases = append(call.Releases, enginerpc.ExchangeRelease{Execution: execution, Token: 1})
							delete(m.running, execution)
						}
					}
					waits, passes := fmt.Sprint("waits", i), fmt.Sprint("passes", i)
					call.Requests = []enginerpc.ExchangeRequest{
						{Execution: passes, Token: 1}, {Execution: waits, Token: 1, Score: strconv.Itoa(i)},
					}
					m.waiting = append(m.waiting, waits)
					want := m.grant(1000)
					if len(m.waiting) == 0 && m.used() < m.cap {
						m.running[passes] = true
						want = append(want, passes)
					}
					reply, err := core.Exchange(ctx, call)
					require.NoError(t, err)
					require.Equal(t, want, names(reply.Granted))
				}
				require.LessOrEqual(t, m.used(), m.cap)
			}
			state, err := core.Quotas(ctx, enginerpc.QuotasCall{Partition: partition})
			require.NoError(t, err)
			i := slices.IndexFunc(state.Quotas, func(q enginerpc.QuotaState) bool { return q.QuotaPolicyID == id })
			require.Equal(t, [2]int64{m.used(), int64(len(m.waiting))}, [2]int64{state.Quotas[i].Running, state.Quotas[i].Waiting})
		}
	})
}

// Under a limit that is far from binding, executions share the permits of their workers: no more run than the limit
// allows when it becomes binding, and all permits are returned at rest.
func TestLimitFarThenNear(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const places = 24
		var g fixture.Gauge
		a := g.Measured("measured", time.Millisecond, activity.Limit("wide", activity.LimitConfig{AtOnce: places}))
		for range 4 {
			b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 8})
		}
		b.Keeper(t)
		def := fixture.Single(t, a)
		for _, n := range []int{8, 2, 60, 200, 8} {
			fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, b.Client, def, n))
		}
		require.LessOrEqual(t, g.Most, places)
		fixture.AtRest(ctx, t, b.Client)
		b.Settle(t)
	})
}
