package limittest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
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

// brittle takes executions through their limits by hand, to stop anywhere.
type brittle struct {
	t       *testing.T
	ctx     context.Context
	core    *enginerpc.Conn
	request enginerpc.ClaimRequest
	// namespace is the namespace of the bench.
	namespace keyspace.Namespace
}

func newBrittle(ctx context.Context, t *testing.T, b *enginetest.Bench) *brittle {
	return &brittle{t, ctx, engine.ConnOf(b.Engine.Internal()), enginerpc.ClaimRequest{
		LaneID: activity.DefaultLane, WorkerID: "brittle", WorkerInstanceID: enginecore.WorkerInstanceID("brittle-" + uuid.NewString()),
		LeaseTTL: time.Second, Kinds: "\nmeasured\n", Count: 1,
	}, "default"}
}

// live makes leases that do not run out before the test has finished its steps.
func (x *brittle) live() { x.request.LeaseTTL = enginetest.LongLease }

func (x *brittle) claim() []enginerpc.Candidate {
	var candidates []enginerpc.Candidate
	for _, p := range x.core.Partitioning().FlowPartitions() {
		x.request.ClaimID = uuid.NewString()
		reply, err := x.core.Claim(x.ctx, enginerpc.ClaimCall{Partition: p, ClaimRequest: x.request})
		require.NoError(x.t, err)
		require.Empty(x.t, reply.Executions, "nothing is leased before it is admitted")
		candidates = append(candidates, reply.Candidates...)
	}
	return candidates
}

// claimAhead leases one execution of the limit "one" ahead of its place.
func (x *brittle) claimAhead() enginerpc.ClaimedExecution {
	x.request.Rooms = fmt.Sprintf("%s 1\n", x.quota())
	for _, p := range x.core.Partitioning().FlowPartitions() {
		x.request.ClaimID = uuid.NewString()
		reply, err := x.core.Claim(x.ctx, enginerpc.ClaimCall{Partition: p, ClaimRequest: x.request})
		require.NoError(x.t, err)
		if len(reply.Executions) > 0 {
			require.Regexp(x.t, `^\?0 1 waits for room under limit "one": 1 at once\n`, reply.Executions[0].Admission)
			return reply.Executions[0]
		}
	}
	require.FailNow(x.t, "nothing to lease")
	return enginerpc.ClaimedExecution{}
}

func (x *brittle) quota() enginecore.QuotaPolicyID {
	return keyspace.QuotaIDFor(x.namespace, "one", "")
}

// hold requests or returns permits of the block of the limit "one".
func (x *brittle) hold(places, seq int64) enginerpc.HoldPlacesReply {
	partition, err := x.core.Partitioning().QuotaPartition(x.quota())
	require.NoError(x.t, err)
	reply, err := x.core.HoldPlaces(x.ctx, enginerpc.HoldPlacesCall{
		Partition: partition, QuotaPolicyID: x.quota(), Name: "one", Cap: 1, WorkerInstanceID: x.request.WorkerInstanceID,
		Places: places, Needed: places, Seq: seq,
	})
	require.NoError(x.t, err)
	return reply
}

func (x *brittle) exchange(limits string, change func(*enginerpc.ExchangeCall)) []enginerpc.Place {
	_, data, _ := strings.Cut(limits, "\n")
	var list []struct {
		Q enginecore.QuotaPolicyID
		N string
		C int64
	}
	require.NoError(x.t, json.Unmarshal([]byte(data), &list))
	partition, err := x.core.Partitioning().QuotaPartition(list[0].Q)
	require.NoError(x.t, err)
	call := enginerpc.ExchangeCall{Partition: partition, QuotaPolicyID: list[0].Q, Name: list[0].N, Cap: list[0].C, Want: 1}
	change(&call)
	reply, err := x.core.Exchange(x.ctx, call)
	require.NoError(x.t, err)
	return reply.Granted
}

func (x *brittle) ask(candidates []enginerpc.Candidate) []enginerpc.Place {
	return x.exchange(candidates[0].Limits, func(call *enginerpc.ExchangeCall) {
		for _, c := range candidates {
			call.Requests = append(call.Requests, enginerpc.ExchangeRequest{Execution: string(c.ExecutionID), Token: c.Token, Score: c.Score})
		}
	})
}

func (x *brittle) admit(place enginerpc.Place) enginerpc.ClaimedExecution {
	id := enginecore.ExecutionID(place.Execution)
	p, err := keyspace.PartitionOf(id)
	require.NoError(x.t, err)
	x.request.ClaimID = uuid.NewString()
	reply, err := x.core.Admit(x.ctx, enginerpc.AdmitCall{
		Partition: p, ClaimRequest: x.request, Admissions: []enginerpc.AdmitAdmission{{ExecutionID: id, Token: place.Token, Complete: true}},
	})
	require.NoError(x.t, err)
	require.Len(x.t, reply.Executions, 1)
	return reply.Executions[0]
}

func (x *brittle) complete(claimed enginerpc.ClaimedExecution) {
	p, err := keyspace.PartitionOf(claimed.ExecutionID)
	require.NoError(x.t, err)
	request := x.request
	request.Count = 0
	_, err = x.core.Complete(x.ctx, enginerpc.CompleteCall{
		Partition: p, ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID, LeaseEpoch: claimed.LeaseEpoch,
		AttemptID: claimed.AttemptID, Result: []byte("1"), ClaimRequest: request,
	})
	require.NoError(x.t, err)
}

// A process may die between any two steps of an admission: keepers complete it, and no place is lost or given twice.
func TestLimitCrashes(t *testing.T) {
	t.Parallel()
	steps := []struct {
		name string
		run  func(x *brittle)
	}{
		{"after the claim", func(x *brittle) { x.claim() }},
		{"after the offer to a keeper", func(x *brittle) {
			x.claim()
			enginetest.Eventually(x.t, func() string {
				for _, p := range x.core.Partitioning().FlowPartitions() {
					reply, err := x.core.Keep(x.ctx, enginerpc.KeepCall{Partition: p, Limit: 10})
					require.NoError(x.t, err)
					if len(reply.Candidates) > 0 {
						return ""
					}
				}
				return "an offer"
			})
		}},
		{"after the places were given", func(x *brittle) { x.ask(x.claim()) }},
		{"after the lease", func(x *brittle) { x.admit(x.ask(x.claim())[0]) }},
		{"after the end", func(x *brittle) {
			x.live()
			x.complete(x.admit(x.ask(x.claim())[0]))
		}},
		{"after a place was handed on", func(x *brittle) {
			x.live()
			candidates := x.claim()
			first := x.ask(candidates)[0]
			x.complete(x.admit(first))
			next := x.exchange(candidates[0].Limits, func(call *enginerpc.ExchangeCall) {
				call.Releases = []enginerpc.ExchangeRelease{{Execution: first.Execution, Token: first.Token}}
			})
			require.Len(x.t, next, 1, "the place goes to the one that waits")
		}},
		{"after a lease ahead of the place", func(x *brittle) { x.claimAhead() }},
		{"after a block was given", func(x *brittle) { require.EqualValues(x.t, 1, x.hold(1, 7).Held) }},
		{"after a lease ahead in a block", func(x *brittle) {
			x.claimAhead()
			require.EqualValues(x.t, 1, x.hold(1, 7).Held)
		}},
		{"after the end in a block", func(x *brittle) {
			x.live()
			claimed := x.claimAhead()
			require.EqualValues(x.t, 1, x.hold(1, 7).Held)
			x.complete(claimed)
		}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				ctx := enginetest.Context(t)
				var g fixture.Gauge
				a := g.Measured("measured", time.Millisecond, activity.Limit("one", activity.LimitConfig{AtOnce: 1}))
				runs := fixture.StartAll(ctx, t, b.Client, fixture.Single(t, a), 3)
				step.run(newBrittle(ctx, t, b))
				b.Worker(t, []activity.Handler{a})
				b.Keeper(t)
				fixture.AwaitAll(ctx, t, runs)
				require.LessOrEqual(t, g.Most, 1)
				enginetest.Eventually(t, func() string {
					list, err := b.Client.Limits(ctx)
					require.NoError(t, err)
					for _, q := range list { // one that is no longer in use may be forgotten
						if q.Running != 0 || q.Waiting != 0 {
							return fmt.Sprintf("%+v", q)
						}
					}
					return ""
				})
			}, runtime.OpenConfig{Partitions: 2})
		})
	}
}

// modelQuota is a model of a quota in a few lines.
type modelQuota struct {
	cap, rate int
	holders   map[string]int64 // by execution
	counted   map[string]int   // starts in a window that is longer than the test, by execution and lease
	waiting   []modelWaiter
	reserved  bool // places are not begun with, so that they count only while they are held
}

type modelWaiter struct {
	execution string
	token     int64
	score     int
}

func (m *modelQuota) release(execution string, token int64, refund bool) {
	m.waiting = slices.DeleteFunc(m.waiting, func(w modelWaiter) bool { return w.execution == execution && w.token == token })
	if held, ok := m.holders[execution]; !ok || held != token {
		return
	}
	delete(m.holders, execution)
	if refund || m.reserved {
		m.counted[placeName(execution, token)]--
	}
}

func placeName(execution string, token int64) string { return fmt.Sprint(execution, " ", token) }

// request gives the place that the execution has already, if it has.
func (m *modelQuota) request(execution string, token int64, score int) bool {
	if held, ok := m.holders[execution]; ok {
		if held >= token {
			return held == token
		}
		m.release(execution, held, false)
	}
	if !slices.ContainsFunc(m.waiting, func(w modelWaiter) bool { return w.execution == execution && w.token == token }) {
		m.waiting = append(m.waiting, modelWaiter{execution, token, score})
	}
	return false
}

// starts is how many starts count.
func (m *modelQuota) starts() int {
	n := 0
	for _, starts := range m.counted {
		n += starts
	}
	return n
}

func (m *modelQuota) grant() []string {
	slices.SortStableFunc(m.waiting, func(a, b modelWaiter) int { return a.score - b.score })
	var granted []string
	for len(m.waiting) > 0 && len(m.holders) < m.cap && m.starts() < m.rate {
		w := m.waiting[0]
		m.waiting = m.waiting[1:]
		if held, ok := m.holders[w.execution]; ok && held >= w.token {
			continue
		}
		m.holders[w.execution] = w.token
		m.counted[placeName(w.execution, w.token)]++
		granted = append(granted, placeName(w.execution, w.token))
	}
	return granted
}

// Random requests and releases, repeated, late and wrong ones among them, return the results of the model.
func TestQuotaModel(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		r := rand.New(rand.NewPCG(randseed.Of(t, 0), 1))
		for round := range 10 {
			m := &modelQuota{
				cap: 1 + r.IntN(5), rate: 40 + r.IntN(100), holders: make(map[string]int64), counted: make(map[string]int),
				reserved: round%2 == 1,
			}
			id := keyspace.QuotaIDFor("model", "quota", strconv.Itoa(round))
			partition, err := core.Partitioning().QuotaPartition(id)
			require.NoError(t, err)
			scores := make(map[string]int)
			for range 120 {
				call := enginerpc.ExchangeCall{
					Partition: partition, QuotaPolicyID: id, Name: "quota", Rate: int64(m.rate), WindowMs: time.Hour.Milliseconds(), Cap: int64(m.cap), Want: 1000,
					Begins: !m.reserved,
				}
				var want []string
				asked := make(map[string]bool)
				for range r.IntN(3) {
					execution, token := fmt.Sprintf("e%d", r.IntN(12)), int64(r.IntN(3))
					if held, ok := m.holders[execution]; ok && r.IntN(3) > 0 {
						token = held
					}
					refund := r.IntN(2) == 0
					call.Releases = append(call.Releases, enginerpc.ExchangeRelease{Execution: execution, Token: token, Refund: refund})
					m.release(execution, token, refund)
				}
				for range r.IntN(4) {
					execution, token := fmt.Sprintf("e%d", r.IntN(12)), int64(r.IntN(3))
					name := placeName(execution, token)
					if asked[execution] {
						continue // an execution has one lease at a time
					}
					asked[execution] = true
					if scores[name] == 0 {
						scores[name] = len(scores) + 1 + 1000*r.IntN(3)
					}
					call.Requests = append(call.Requests, enginerpc.ExchangeRequest{Execution: execution, Token: token, Score: strconv.Itoa(scores[name])})
					if m.request(execution, token, scores[name]) {
						want = append(want, name)
					}
				}
				want = append(want, m.grant()...)
				reply, err := core.Exchange(ctx, call)
				require.NoError(t, err)
				var got []string
				for _, p := range reply.Granted {
					got = append(got, placeName(p.Execution, p.Token))
				}
				require.Equal(t, want, got)
				require.Equal(t, len(m.waiting) > 0, reply.Contended)
			}
			state, err := core.Quotas(ctx, enginerpc.QuotasCall{Partition: partition})
			require.NoError(t, err)
			i := slices.IndexFunc(state.Quotas, func(q enginerpc.QuotaState) bool { return q.QuotaPolicyID == id })
			require.Equal(t, [3]int64{int64(len(m.holders)), int64(len(m.waiting)), int64(m.starts())},
				[3]int64{state.Quotas[i].Running, state.Quotas[i].Waiting, state.Quotas[i].InWindow})
		}
	})
}

// In any window exactly the allowed number is admitted, and no request is refused while there is room. The exact time
// of the engine's decision is not known, only bounds before and after it.
func TestQuotaWindow(t *testing.T) {
	t.Parallel() // most of it is waiting
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		const most, window = 8, 200 * time.Millisecond
		id := keyspace.QuotaIDFor("model", "window", "")
		partition, err := core.Partitioning().QuotaPartition(id)
		require.NoError(t, err)
		type span struct{ from, to time.Time }
		var admitted []span
		// The engine counts in whole milliseconds.
		const grain = 2 * time.Millisecond
		for i := range 400 {
			execution := fmt.Sprint("e", i)
			call := enginerpc.ExchangeCall{
				Partition: partition, QuotaPolicyID: id, Name: "window", Rate: most, WindowMs: window.Milliseconds(), Want: 1,
				Begins: true, Requests: []enginerpc.ExchangeRequest{{Execution: execution, Score: strconv.Itoa(i)}},
			}
			s := span{from: time.Now()}
			reply, err := core.Exchange(ctx, call)
			s.to = time.Now()
			require.NoError(t, err)
			if len(reply.Granted) == 1 {
				if n := len(admitted); n >= most {
					require.GreaterOrEqual(t, s.to.Sub(admitted[n-most].from), window-grain, "admission %d", n)
				}
				admitted = append(admitted, s)
			} else {
				recent := slices.DeleteFunc(slices.Clone(admitted), func(a span) bool { return s.from.Sub(a.to) > window+grain })
				require.GreaterOrEqual(t, len(recent), most, "refused after %d admissions", len(admitted))
				time.Sleep(3 * time.Millisecond) //nolint:forbidigo // between two requests
			}
			call.Requests = nil
			call.Releases = []enginerpc.ExchangeRelease{{Execution: execution}}
			_, err = core.Exchange(ctx, call)
			require.NoError(t, err)
		}
		require.Greater(t, len(admitted), 2*most)
	})
}
