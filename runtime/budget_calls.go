package runtime

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// maxUses bounds the entries of one call to a budget.
const maxUses = 64

// budgetCalls sends what the functions of a worker use of budgets. One call at a time is under way to each budget; what is used
// meanwhile goes together in the next one, in the order in which it came. Nobody waits for company, but whoever goes first lets
// those run that could.
type budgetCalls struct {
	send func(context.Context, enginecore.UseBudgetCall) (enginecore.UseBudgetReply, error)

	mu sync.Mutex
	// waiting holds the uses behind the call that is under way to a budget.
	waiting map[usePlace][]*use
}

// usePlace is what the uses of one call have in common.
type usePlace struct {
	budget   enginecore.BudgetID
	declared string
	wide     bool
}

// use is one entry that is to be sent, with the call that it would be by itself.
type use struct {
	ctx  context.Context
	call enginecore.UseBudgetCall
	told chan useNews
}

// useNews is what came of one entry.
type useNews struct {
	use enginecore.BudgetUse
	// owed is what follows from the entry and has to be carried out.
	owed []string
	// gate and closed are how the gate stands after the call. told is set for one of the entries of a call that has changed it.
	gate   int64
	closed string
	told   bool
	err    error
}

func newBudgetCalls(core *enginecore.Engine) *budgetCalls {
	return &budgetCalls{send: core.UseBudget, waiting: make(map[usePlace][]*use)}
}

// do sends a call with one entry, together with others to the same budget when one is under way. When ctx ends first, the entry
// may have been counted, or still be.
func (b *budgetCalls) do(ctx context.Context, call enginecore.UseBudgetCall) (useNews, error) {
	mine := &use{ctx: ctx, call: call, told: make(chan useNews, 1)}
	place := usePlace{call.BudgetID, call.Declared, call.Wide}
	b.mu.Lock()
	behind, underway := b.waiting[place]
	b.waiting[place] = append(behind, mine)
	b.mu.Unlock()
	if !underway {
		go b.run(place)
	}
	select {
	case news := <-mine.told:
		return news, news.err
	case <-ctx.Done():
		b.leave(place, mine)
		return useNews{}, context.Cause(ctx)
	}
}

// leave takes back an entry that is not under way yet.
func (b *budgetCalls) leave(place usePlace, mine *use) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting[place], mine); i >= 0 {
		b.waiting[place] = slices.Delete(b.waiting[place], i, i+1)
	}
}

// run sends what waits for a budget until nothing does.
func (b *budgetCalls) run(place usePlace) {
	// Functions that were started together often report together.
	goruntime.Gosched()
	for {
		batch := b.take(place)
		if len(batch) == 0 {
			return
		}
		b.sendBatch(batch)
	}
}

// take is the next batch; without one, nothing is under way any more.
func (b *budgetCalls) take(place usePlace) []*use {
	b.mu.Lock()
	defer b.mu.Unlock()
	behind := b.waiting[place]
	if len(behind) == 0 {
		delete(b.waiting, place)
		return nil
	}
	n := min(len(behind), maxUses)
	b.waiting[place] = slices.Clone(behind[n:])
	return behind[:n:n]
}

// sendBatch sends entries and tells each what came of it. It ends with the last of them that waits. Where one that is refused as
// bad spoils the call, each goes by itself.
func (b *budgetCalls) sendBatch(batch []*use) {
	ctx, cancel := whileAnyWaits(batch, func(one *use) context.Context { return one.ctx })
	defer cancel()
	reply, err := b.send(ctx, joinUses(batch))
	if err == nil && len(reply.Uses) != len(batch) {
		err = errors.New("the reply tells of another number of uses")
	}
	if len(batch) > 1 && err != nil && !engineAway(err) && ctx.Err() == nil {
		for _, one := range batch {
			b.sendBatch([]*use{one})
		}
		return
	}
	owed := slices.Compact(reply.Owed)
	for i, one := range batch {
		news := useNews{err: err}
		if err == nil {
			news = useNews{use: reply.Uses[i], gate: reply.Gate, closed: reply.Closed, told: reply.Told && i == 0}
			news.owed, owed = owedTo(one.call.Entries[0], owed)
		}
		one.told <- news
	}
}

// joinUses is the call for several entries. The latest declaration of the limits, which all of them make, counts.
func joinUses(batch []*use) enginecore.UseBudgetCall {
	call := batch[0].call
	call.Entries = make([]enginecore.UseBudgetEntry, len(batch))
	for i, one := range batch {
		call.Entries[i] = one.call.Entries[0]
		call.DeclaredAt = max(call.DeclaredAt, one.call.DeclaredAt)
	}
	return call
}

// owedTo are the texts that follow from an entry, and the others.
func owedTo(e enginecore.UseBudgetEntry, owed []string) (mine, others []string) {
	for _, text := range owed {
		if b, err := parseBreach(text); err == nil && b.id == e.ID && b.dimension == e.Dimension {
			mine = append(mine, text)
		} else {
			others = append(others, text)
		}
	}
	return mine, others
}
