package budgettest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
)

// amount is the state of one dimension.
type amount struct{ spent, reserved, hard, soft int64 }

type reservation struct {
	dimension string
	n         int64
}

// model is a minimal implementation of a budget.
type model struct {
	dims         map[string]*amount
	reservations map[string]reservation
	known        map[string]bool // entries that count no more
	breached     map[string]bool // dimensions whose last use was refused
	blocks       bool
	closed       bool
	softly       int
}

func newModel(r *rand.Rand) *model {
	m := &model{dims: make(map[string]*amount), reservations: make(map[string]reservation), known: make(map[string]bool), breached: make(map[string]bool), blocks: r.IntN(2) == 0}
	for _, name := range []string{"tokens", "calls"} {
		m.dims[name] = &amount{hard: int64(r.IntN(4) * 40), soft: int64(r.IntN(3) * 20)}
	}
	return m
}

func (a *amount) fits(n int64) bool { return a.hard == 0 || a.spent+a.reserved+n <= a.hard }

func (m *model) spend(a *amount, n int64) {
	if before := a.spent; a.soft > 0 && before <= a.soft && before+n > a.soft {
		m.softly++
	}
	a.spent += n
}

// use is one entry; it returns its state.
func (m *model) use(e enginerpc.UseBudgetEntry) string {
	state := m.judge(e)
	if state == "refused" || state == "ok" && e.Kind != "release" {
		m.breached[e.Dimension] = state == "refused"
	}
	return state
}

func (m *model) judge(e enginerpc.UseBudgetEntry) string {
	a := m.dims[e.Dimension]
	held, isHeld := m.reservations[e.ID]
	state := "ok"
	switch {
	case e.Kind == "release":
		m.known[e.ID] = true
		if !isHeld {
			return "applied"
		}
		m.takeBack(e.ID)
		return m.givenBack(state)
	case m.known[e.ID], e.Kind == "reserve" && isHeld:
		return "applied"
	case e.Kind == "settle":
		if isHeld {
			m.takeBack(e.ID)
		}
		fits := a.fits(e.Amount)
		switch {
		case fits:
			m.spend(a, e.Amount)
		case isHeld:
			m.spend(a, min(held.n, e.Amount))
		}
		m.known[e.ID] = fits || isHeld
		if !fits {
			state = "refused"
		}
		m.close(state, a, e.Amount)
		if isHeld && held.n > e.Amount {
			m.givenBack(state)
		}
		return state
	case !a.fits(e.Amount):
		state = "refused"
	case e.Kind == "report":
		m.spend(a, e.Amount)
		m.known[e.ID] = true
	default:
		m.reservations[e.ID] = reservation{e.Dimension, e.Amount}
		a.reserved += e.Amount
	}
	m.close(state, a, e.Amount)
	return state
}

// addUp is the sum of some reports; it returns whether the sum is counted.
func (m *model) addUp(sum *enginerpc.UsageSum) bool {
	a, id := m.dims[sum.Dimension], fmt.Sprint(sum.Account, " ", sum.Serial)
	if m.known[id] {
		return true
	}
	after := a.spent + sum.Amount
	if m.closed || m.breached[sum.Dimension] || a.hard > 0 && after+a.reserved >= a.hard || a.soft > 0 && a.spent <= a.soft && after > a.soft {
		return false
	}
	m.known[id] = true
	a.spent = after
	return true
}

func (m *model) close(state string, a *amount, n int64) {
	if m.blocks && (state == "refused" && n <= a.hard || a.hard > 0 && a.spent >= a.hard) {
		m.closed = true
	}
}

func (m *model) takeBack(id string) {
	held := m.reservations[id]
	m.dims[held.dimension].reserved -= held.n
	delete(m.reservations, id)
}

func (m *model) givenBack(state string) string {
	for _, a := range m.dims {
		if a.hard > 0 && a.spent+a.reserved >= a.hard {
			return state
		}
	}
	m.closed = false
	return state
}

// releaseHolder takes back the reservations of a lease and returns their ids.
func (m *model) releaseHolder(holder string) (ids []string) {
	for id := range m.reservations {
		if strings.HasPrefix(id, holder) {
			m.takeBack(id)
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		m.givenBack("")
	}
	return ids
}

func (m *model) reset() {
	for _, a := range m.dims {
		a.spent = 0
	}
	m.closed = false
	clear(m.breached)
}

// budgetCheck is one budget under test, with its model.
type budgetCheck struct {
	t         *testing.T
	ctx       context.Context
	core      *enginerpc.Conn
	id        enginecore.BudgetID
	partition keyspace.Partition
	r         *rand.Rand
	model     *model
	last      *enginerpc.UseBudgetCall
	lastSum   *enginerpc.UsageSum
	serial    int
}

func newBudgetCheck(ctx context.Context, t *testing.T, core *enginerpc.Conn, r *rand.Rand) *budgetCheck {
	x := &budgetCheck{t: t, ctx: ctx, core: core, id: enginecore.BudgetID(uuid.NewString()), r: r, model: newModel(r)}
	var err error
	x.partition, err = core.Partitioning().BudgetPartition(x.id)
	require.NoError(t, err)
	return x
}

func (x *budgetCheck) call() enginerpc.UseBudgetCall {
	call := enginerpc.UseBudgetCall{
		Partition: x.partition, BudgetID: x.id, Declares: true,
		BudgetDeclaration: enginerpc.BudgetDeclaration{Name: "model", ScopeType: "shared", ScopeID: "model", Effect: "fail", Declared: "1"},
	}
	if x.model.blocks {
		call.Effect = "block"
	}
	for name, a := range x.model.dims {
		call.Dims = append(call.Dims, enginerpc.UseBudgetDim{Name: name, Hard: a.hard, Soft: a.soft})
	}
	return call
}

// holder is how the ids of the reservations of a lease begin.
func (x *budgetCheck) holder() string { return fmt.Sprintf("{fp:1}:e%d/%d/", x.r.IntN(4), x.r.IntN(2)) }

// use makes one call of some entries, new ones, repeated ones and wrong ones.
func (x *budgetCheck) use() {
	call := x.call()
	for range 1 + x.r.IntN(3) {
		x.serial++
		e := enginerpc.UseBudgetEntry{
			FlowID: enginecore.FlowID(uuid.NewString()), Node: "node", Attempt: 1, Lease: time.Hour,
			Kind: []string{"report", "reserve", "settle", "release"}[x.r.IntN(4)], Dimension: []string{"tokens", "calls"}[x.r.IntN(2)],
			Amount: int64(x.r.IntN(30)), ID: x.holder() + strconv.Itoa(x.serial),
		}
		if e.Kind == "settle" || e.Kind == "release" {
			for id, held := range x.model.reservations {
				e.ID, e.Dimension = id, held.dimension
				break
			}
		}
		call.Entries = append(call.Entries, e)
	}
	x.send(&call)
	x.last = &call
}

func (x *budgetCheck) send(call *enginerpc.UseBudgetCall) {
	x.model.softly = 0
	var want []string
	for _, e := range call.Entries {
		want = append(want, x.model.use(e))
	}
	reply, err := x.core.UseBudget(x.ctx, *call)
	require.NoError(x.t, err)
	var got []string
	for _, u := range reply.Uses {
		got = append(got, u.State)
		require.False(x.t, u.Hard > 0 && u.Spent+u.Reserved > u.Hard, "%+v", u)
	}
	require.Equal(x.t, want, got, "%+v", call.Entries)
	require.Equal(x.t, x.model.closed, reply.Closed != "", "%+v %+v", call.Entries, reply)
}

// addUp sends the sum of some reports, a new one or the last one again.
func (x *budgetCheck) addUp() {
	sum := x.lastSum
	if sum == nil || x.r.IntN(4) > 0 {
		x.serial++
		sum = &enginerpc.UsageSum{
			Partition: int64(x.partition.Index), BudgetID: x.id, Dimension: []string{"tokens", "calls"}[x.r.IntN(2)],
			Amount: int64(x.r.IntN(15)), Serial: int64(x.serial), Declares: true, Declared: "1",
		}
		sum.Account = sum.Dimension
	}
	want := x.model.addUp(sum)
	reply, err := x.core.CountUsage(x.ctx, enginerpc.CountUsageCall{Partition: x.partition, Sums: []enginerpc.UsageSum{*sum}})
	require.NoError(x.t, err)
	require.Equal(x.t, want, reply.Counted == "1", "%+v", sum)
	x.lastSum = sum
}

// other is something else that happens to a budget.
func (x *budgetCheck) other() {
	switch x.r.IntN(8) {
	case 0:
		if x.last != nil {
			x.send(x.last) // a repeat after a lost reply
		}
	case 1:
		_, err := x.core.ResetBudget(x.ctx, enginerpc.ResetBudgetCall{Partition: x.partition, BudgetID: x.id, Now: time.Now()})
		require.NoError(x.t, err)
		x.model.reset()
	case 2:
		x.endLease()
	case 3:
		x.raise()
	case 4:
		x.contractReport()
	default:
		x.addUp()
	}
}

// endLease returns the reservations of a lost worker, as a keeper does.
func (x *budgetCheck) endLease() {
	call := enginerpc.BudgetDoneCall{Partition: x.partition}
	for _, id := range x.model.releaseHolder(x.holder()) {
		call.Over = append(call.Over, enginerpc.BudgetDoneOver{BudgetID: x.id, Reservation: id})
	}
	_, err := x.core.BudgetDone(x.ctx, call)
	require.NoError(x.t, err)
}

// raise sets other limits.
func (x *budgetCheck) raise() {
	declared := x.call()
	call := enginerpc.SetBudgetCall{Partition: x.partition, BudgetID: x.id, BudgetDeclaration: declared.BudgetDeclaration}
	for name, a := range x.model.dims {
		if a.hard > 0 {
			a.hard += int64(x.r.IntN(50))
		}
		call.Dims = append(call.Dims, enginerpc.SetBudgetDim{Name: name, Hard: a.hard, Soft: a.soft})
	}
	_, err := x.core.SetBudget(x.ctx, call)
	require.NoError(x.t, err)
	x.model.givenBack("")
	for _, a := range x.model.dims {
		x.model.close("", a, 0)
	}
}

// contractReport is another tool's.
func (x *budgetCheck) contractReport() {
	a := x.model.dims["tokens"]
	n := max(int64(x.r.IntN(30)-10), -a.spent)
	reply, err := x.core.ReportUsageAndCheck(x.ctx, enginerpc.ReportUsageAndCheckCall{
		Partition: x.partition, BudgetID: x.id, Now: time.Now(), Dims: []enginerpc.ReportUsageAndCheckDim{{Name: "tokens", Delta: n}},
	})
	require.NoError(x.t, err)
	x.model.breached["tokens"] = !a.fits(n)
	if a.fits(n) {
		x.model.spend(a, n)
		x.model.close("", a, n)
		if n < 0 {
			x.model.givenBack("")
		}
	} else {
		require.EqualValues(x.t, "HARD_BREACH", reply.Status)
		x.model.close("refused", a, n)
	}
}

// check compares the state of the budget with the model.
func (x *budgetCheck) check() {
	reply, err := x.core.GetBudgets(x.ctx, enginerpc.GetBudgetsCall{Partition: x.partition, BudgetIDs: []enginecore.BudgetID{x.id}})
	require.NoError(x.t, err)
	require.Len(x.t, reply.Budgets, 1)
	require.Equal(x.t, x.model.closed, reply.Budgets[0].Closed != "")
	for _, d := range reply.Budgets[0].Dims {
		require.Equal(x.t, *x.model.dims[d.Name], amount{d.Spent, d.Reserved, d.Hard, d.Soft}, d.Name)
	}
	require.Len(x.t, reply.Budgets[0].Dims, len(x.model.dims))
}

// Random uses, among them repeated, late and wrong ones, resets, raises and expired leases lead to the same state as in
// the model. The sum of spent and reserved amounts never exceeds the hard limit.
func TestBudgetModel(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		r := rand.New(rand.NewPCG(randseed.Of(t, 0), 1))
		for range 12 {
			x := newBudgetCheck(ctx, t, engine.ConnOf(b.Engine.Internal()), r)
			x.use()
			for range 120 {
				if r.IntN(4) == 0 {
					x.other()
				} else {
					x.use()
				}
			}
			x.check()
		}
	})
}

// Amounts that cannot be counted are refused before any amount of the call is counted.
func TestBudgetRefusals(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		x := newBudgetCheck(ctx, t, engine.ConnOf(b.Engine.Internal()), rand.New(rand.NewPCG(1, 1)))
		report := func(change func(*enginerpc.UseBudgetCall)) error {
			call := x.call()
			call.Entries = []enginerpc.UseBudgetEntry{
				{Kind: "report", Dimension: "tokens", Amount: 1, ID: uuid.NewString()}, {Kind: "report", Dimension: "tokens", Amount: 1, ID: uuid.NewString()},
			}
			change(&call)
			_, err := x.core.UseBudget(ctx, call)
			return err
		}
		require.ErrorIs(t, report(func(c *enginerpc.UseBudgetCall) { c.Declares = false }), enginecore.ErrBudgetNotFound)
		require.ErrorIs(t, report(func(c *enginerpc.UseBudgetCall) { c.Effect = "explode" }), errorcode.InvalidInput)
		require.ErrorIs(t, report(func(c *enginerpc.UseBudgetCall) { c.Dims[0].Hard = -1 }), errorcode.InvalidInput)
		require.NoError(t, report(func(c *enginerpc.UseBudgetCall) { c.Entries = nil }))
		require.ErrorIs(t, report(func(c *enginerpc.UseBudgetCall) { c.Entries[1].Amount = -1 }), errorcode.InvalidInput)
		require.ErrorIs(t, report(func(c *enginerpc.UseBudgetCall) { c.Entries[1].Kind = "steal" }), errorcode.InvalidInput)
		require.ErrorIs(t, report(func(c *enginerpc.UseBudgetCall) { c.Entries[1].ID = "" }), errorcode.InvalidInput)
		require.ErrorIs(t, report(func(c *enginerpc.UseBudgetCall) { c.Entries[1].Dimension = "miles" }), errorcode.UnknownBudgetDimension)
		x.check()
	})
}
