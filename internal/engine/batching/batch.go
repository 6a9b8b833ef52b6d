// Package batching sends several calls at once: [Batcher] joins concurrent requests with a common key into one call,
// [SendAll] sends independent calls in one pipeline.
package batching

import (
	"context"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// maxBatchesInFlight bounds the calls for one key that are in flight at a time, where overflow allows more than one.
const maxBatchesInFlight = 2

// maxYields bounds how often a caller that is to send lets others run first.
const maxYields = 4

// fewWaiting is for how many waiting requests a list has room at least.
const fewWaiting = 8

// Batcher joins requests of several goroutines that have a key in common into one call (group commit). A request is
// sent at once while no call for its key is in flight, after one Gosched, so that goroutines that became runnable
// together share the call. Requests that arrive while a call is in flight wait and go with the next one, before which
// its sender yields as well: the results of the call in flight make goroutines runnable that soon have requests, too.
// A sender that has gained others by yielding yields again, a few times, until Overflow of them share the call, or all
// that one call may have while Hold reports so.
//
// Single, Multi and MaxRequests must be set before the first Do; the other fields are optional. It is safe for
// concurrent use.
type Batcher[K comparable, Req, Res any] struct {
	// Single sends one request, in the goroutine and with the context of its caller.
	Single func(context.Context, K, Req) Res
	// Multi sends several requests and returns their results in the same order. Its context is done when the contexts
	// of all callers are done.
	Multi func(context.Context, K, []Req) []Res
	// MaxRequests bounds the requests of one call.
	MaxRequests func(K) int
	// Size returns the size of a request. The requests that share a call have at most MaxBytes in total. Without Size
	// the total is not bounded.
	Size     func(*Req) int
	MaxBytes int
	// IsPassenger reports whether a request goes along with the next call, whatever is in it: it causes no second call
	// in parallel, and a call has up to MaxRequests of them in addition. Without IsPassenger no request does.
	IsPassenger func(*Req) bool
	// Overflow is the number of waiting requests from which on a second call is sent in parallel to the one in flight;
	// 0 means never.
	Overflow int
	// Hold reports whether no second call is needed at the moment, whatever waits, since the server has other work of
	// this process. Without Hold it never is.
	Hold func() bool

	mu    sync.Mutex
	lines map[K]batchLine[Req, Res] // the keys with a call in flight
	// entries holds the emptied entries of answered requests for reuse.
	entries sync.Pool
}

// batchLine is the state of one key.
type batchLine[Req, Res any] struct {
	inFlight int
	waiting  []*batchEntry[Req, Res]
}

// batchEntry is one request on its way.
type batchEntry[Req, Res any] struct {
	ctx     context.Context
	req     Req
	taken   bool                         // it is part of a call, or its caller is to send the next one
	mailbox chan batchDelivery[Req, Res] // nil until a caller has to wait
}

// needMailbox makes the mailbox, unless the entry has one from its former use. It is empty then.
func (e *batchEntry[Req, Res]) needMailbox() {
	if e.mailbox == nil {
		e.mailbox = make(chan batchDelivery[Req, Res], 1)
	}
}

// batchDelivery goes to a waiting caller: its result, or the batch that the caller sends, with its own request first.
type batchDelivery[Req, Res any] struct {
	batch []*batchEntry[Req, Res]
	res   Res
}

// Do sends a request and returns its result. The error is the cause of ctx if ctx ends while the request waits or is
// part of a call with others; the request may have been sent nevertheless. Errors of the call itself are part of the
// result.
func (b *Batcher[K, Req, Res]) Do(ctx context.Context, key K, req Req) (Res, error) {
	mine := b.entry()
	mine.ctx, mine.req = ctx, req
	if b.tryLead(key, mine) {
		return b.lead(key, mine, nil)
	}
	return b.await(key, mine)
}

// entry returns an empty entry.
func (b *Batcher[K, Req, Res]) entry() *batchEntry[Req, Res] {
	if used, ok := b.entries.Get().(*batchEntry[Req, Res]); ok {
		return used
	}
	return new(batchEntry[Req, Res])
}

// done empties the entry of an answered request for reuse. No call may refer to it.
func (b *Batcher[K, Req, Res]) done(mine *batchEntry[Req, Res]) {
	*mine = batchEntry[Req, Res]{mailbox: mine.mailbox}
	b.entries.Put(mine)
}

// lead sends the batch whose first request is mine, with the requests that gather adds, and returns the result of
// mine. A batch of one may be nil.
func (b *Batcher[K, Req, Res]) lead(key K, mine *batchEntry[Req, Res], batch []*batchEntry[Req, Res]) (Res, error) {
	batch = b.gather(key, mine, batch)
	if len(batch) > 1 && !canSendItself(mine) {
		mine.needMailbox()
		go b.serve(key, batch)
		return b.await(key, mine)
	}
	var res Res
	if len(batch) > 1 {
		res = b.sendBatch(key, batch)
	} else {
		res = b.sendSingle(key, mine)
	}
	b.done(mine)
	return res, nil
}

// gather adds to a batch, before it is sent, the requests that arrive while other goroutines run. It returns nil if
// mine had no batch and stays alone.
func (b *Batcher[K, Req, Res]) gather(
	key K, mine *batchEntry[Req, Res], batch []*batchEntry[Req, Res],
) []*batchEntry[Req, Res] {
	enough := b.MaxRequests(key)
	if b.Overflow > 0 && !b.holds() {
		enough = min(enough, b.Overflow)
	}
	for range maxYields {
		if max(b.count(batch), 1) >= enough {
			break
		}
		goruntime.Gosched()
		before := len(batch)
		if batch = b.addOthers(key, mine, batch); len(batch) == before {
			break
		}
	}
	return batch
}

// tryLead reports whether no call for the key is in flight, so that the caller sends one. Otherwise the request waits.
func (b *Batcher[K, Req, Res]) tryLead(key K, mine *batchEntry[Req, Res]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	line, busy := b.lines[key]
	if !busy {
		if b.lines == nil {
			b.lines = make(map[K]batchLine[Req, Res])
		}
		mine.taken = true
		b.lines[key] = batchLine[Req, Res]{inFlight: 1}
		return true
	}
	mine.needMailbox()
	if len(line.waiting) == cap(line.waiting) {
		line.waiting = slices.Grow(line.waiting, fewWaiting)
	}
	line.waiting = append(line.waiting, mine)
	line, batch := b.flush(key, line)
	b.lines[key] = line
	if batch != nil {
		go b.serve(key, batch)
	}
	return false
}

// addOthers adds the waiting requests to a batch that fit into one call with it. A batch that is nil is mine alone, and
// stays nil if nothing is added.
func (b *Batcher[K, Req, Res]) addOthers(
	key K, mine *batchEntry[Req, Res], batch []*batchEntry[Req, Res],
) []*batchEntry[Req, Res] {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := b.lines[key]
	if len(line.waiting) == 0 {
		return batch
	}
	all := batch
	if all == nil {
		all = make([]*batchEntry[Req, Res], 1, 1+len(line.waiting))
		all[0] = mine
	}
	var others []*batchEntry[Req, Res]
	if others, line.waiting = b.split(key, line.waiting, all); len(others) == 0 {
		return batch
	}
	b.lines[key] = line
	return append(all, others...)
}

// split divides the waiting requests into those that share a call with a batch, and the rest. The caller holds the
// lock.
func (b *Batcher[K, Req, Res]) split(
	key K, waiting, batch []*batchEntry[Req, Res],
) (taken, rest []*batchEntry[Req, Res]) {
	most, count, bytes := b.MaxRequests(key), b.count(batch), 0
	passengers := len(batch) - count
	for _, entry := range batch {
		bytes += b.sizeOf(entry)
	}
	n := 0
	for n < len(waiting) {
		of := &count
		if b.isPassenger(waiting[n]) {
			of = &passengers
		}
		bytes += b.sizeOf(waiting[n])
		if *of >= most || b.Size != nil && bytes > b.MaxBytes && n+len(batch) > 0 {
			break
		}
		waiting[n].taken = true
		*of++
		n++
	}
	return waiting[:n:n], waiting[n:]
}

func (b *Batcher[K, Req, Res]) isPassenger(entry *batchEntry[Req, Res]) bool {
	return b.IsPassenger != nil && b.IsPassenger(&entry.req)
}

// count returns how many requests are not passengers.
func (b *Batcher[K, Req, Res]) count(entries []*batchEntry[Req, Res]) int {
	if b.IsPassenger == nil {
		return len(entries)
	}
	n := 0
	for _, entry := range entries {
		if !b.isPassenger(entry) {
			n++
		}
	}
	return n
}

func (b *Batcher[K, Req, Res]) sizeOf(entry *batchEntry[Req, Res]) int {
	if b.Size == nil {
		return 0
	}
	return b.Size(&entry.req)
}

// flush lets waiting requests go when no call is in flight, or when enough of them wait for another call. It returns a
// batch that the caller has to serve; nil if there is none, or if the first of its callers sends it. It needs the lock.
func (b *Batcher[K, Req, Res]) flush(
	key K, line batchLine[Req, Res],
) (batchLine[Req, Res], []*batchEntry[Req, Res]) {
	if len(line.waiting) == 0 || line.inFlight > 0 && !b.overflows(line) {
		return line, nil
	}
	var batch []*batchEntry[Req, Res]
	batch, line.waiting = b.split(key, line.waiting, nil)
	line.inFlight++
	if len(batch) > 1 && !canSendItself(batch[0]) {
		return line, batch
	}
	batch[0].mailbox <- batchDelivery[Req, Res]{batch: batch}
	return line, nil
}

// overflows reports whether enough requests wait for a second call.
func (b *Batcher[K, Req, Res]) overflows(line batchLine[Req, Res]) bool {
	return b.Overflow > 0 && line.inFlight < maxBatchesInFlight && b.count(line.waiting) >= b.Overflow && !b.holds()
}

func (b *Batcher[K, Req, Res]) holds() bool { return b.Hold != nil && b.Hold() }

// canSendItself reports whether a caller can send the requests of others with its own: nothing ends its context.
func canSendItself[Req, Res any](entry *batchEntry[Req, Res]) bool { return entry.ctx.Done() == nil }

// release ends a call and lets the requests go that arrived during the call. It returns a batch that the caller has to
// serve; nil if there is none.
func (b *Batcher[K, Req, Res]) release(key K) []*batchEntry[Req, Res] {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := b.lines[key]
	line.inFlight--
	line, batch := b.flush(key, line)
	if line.inFlight == 0 {
		delete(b.lines, key)
	} else {
		b.lines[key] = line
	}
	return batch
}

// leave is release for a caller that serves no batches of others.
func (b *Batcher[K, Req, Res]) leave(key K) {
	if batch := b.release(key); batch != nil {
		go b.serve(key, batch)
	}
}

// await waits for the result of a request, or for its turn to send a batch.
func (b *Batcher[K, Req, Res]) await(key K, mine *batchEntry[Req, Res]) (Res, error) {
	var delivery batchDelivery[Req, Res]
	select {
	case delivery = <-mine.mailbox:
	case <-mine.ctx.Done():
		if !b.withdraw(key, mine, &delivery) {
			return delivery.res, context.Cause(mine.ctx) // a call may refer to the entry
		}
	}
	if len(delivery.batch) == 0 {
		b.done(mine)
		return delivery.res, nil
	}
	return b.lead(key, mine, delivery.batch)
}

// withdraw takes back a request whose caller waits no more. It reports whether something has been delivered to it
// already.
func (b *Batcher[K, Req, Res]) withdraw(
	key K, mine *batchEntry[Req, Res], delivery *batchDelivery[Req, Res],
) (delivered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mine.taken {
		select {
		case *delivery = <-mine.mailbox:
			return true
		default:
			return false
		}
	}
	line := b.lines[key]
	if i := slices.Index(line.waiting, mine); i >= 0 {
		line.waiting = slices.Concat(line.waiting[:i], line.waiting[i+1:])
		b.lines[key] = line
	}
	return false
}

// Load returns the number of calls in flight and of the requests that wait for one.
func (b *Batcher[K, Req, Res]) Load() (inFlight, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		inFlight += line.inFlight
		waiting += len(line.waiting)
	}
	return inFlight, waiting
}

func (b *Batcher[K, Req, Res]) sendSingle(key K, mine *batchEntry[Req, Res]) Res {
	defer b.leave(key)
	return b.Single(mine.ctx, key, mine.req)
}

// sendBatch sends several requests in the goroutine of their first caller, whose context does not end. It delivers the
// results of the others, and returns its result.
func (b *Batcher[K, Req, Res]) sendBatch(key K, batch []*batchEntry[Req, Res]) Res {
	results := b.sendMulti(key, batch)
	deliver(batch[1:], results[1:])
	return results[0]
}

func (b *Batcher[K, Req, Res]) sendMulti(key K, batch []*batchEntry[Req, Res]) []Res {
	defer b.leave(key)
	return b.Multi(batch[0].ctx, key, requestsOf(batch))
}

// serve sends a batch whose callers all wait, and after it those that have gathered in the meantime: one goroutine
// serves a key as long as there are such batches.
func (b *Batcher[K, Req, Res]) serve(key K, batch []*batchEntry[Req, Res]) {
	for batch != nil {
		batch = b.gather(key, batch[0], batch)
		ctx, cancel := jointContext(batch)
		results := b.Multi(ctx, key, requestsOf(batch))
		cancel()
		deliver(batch, results)
		batch = b.release(key)
	}
}

func requestsOf[Req, Res any](batch []*batchEntry[Req, Res]) []Req {
	requests := make([]Req, len(batch))
	for i, entry := range batch {
		requests[i] = entry.req
	}
	return requests
}

// deliver sends callers their results. Their entries may be in use again afterwards.
func deliver[Req, Res any](batch []*batchEntry[Req, Res], results []Res) {
	for i, entry := range batch {
		entry.mailbox <- batchDelivery[Req, Res]{res: results[i]}
	}
}

// jointContext returns a context for a call on behalf of several callers, as anyAlive does.
func jointContext[Req, Res any](batch []*batchEntry[Req, Res]) (ctx context.Context, cancel context.CancelFunc) {
	first := batch[0].ctx
	for _, entry := range batch[1:] {
		if entry.ctx.Done() != first.Done() {
			return anyAlive(batch, func(entry *batchEntry[Req, Res]) context.Context { return entry.ctx })
		}
	}
	return endOf{first}, func() {}
}

// endOf is a context that ends with another one, without its values.
type endOf struct{ context.Context }

// Value implements context.Context.
func (endOf) Value(any) any { return nil }

// AfterFunc is for contexts that derive from this one, which cannot find the other one by its values.
func (e endOf) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(e.Context, f) }

// anyAlive returns a context for a call on behalf of several callers: it ends when the contexts of all of them have, or
// with cancel, which has to be called when the call is over.
func anyAlive[T any](callers []T, contextOf func(T) context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancel(context.Background())
	var left atomic.Int64
	left.Store(1)
	over := func() {
		if left.Add(-1) == 0 {
			end()
		}
	}
	var stops []func() bool
	var before <-chan struct{}
	for _, one := range callers {
		own := contextOf(one)
		if own.Done() == before && before != nil {
			continue // it ends together with the one before, as is the rule
		}
		before = own.Done()
		left.Add(1)
		stops = append(stops, context.AfterFunc(own, over))
	}
	over()
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		end()
	}
}

// CallResult is the reply to one of several calls, or its error.
type CallResult[R any] struct {
	Reply R
	Err   error
}

// Pipeliner sends calls together; *enginerpc.Conn is one.
type Pipeliner interface {
	Pipeline() *enginerpc.Pipeline
}

// SendAll sends independent calls in one pipeline. The results are in the order of the calls, each with its own error;
// the returned error joins these.
func SendAll[R any, C enginerpc.Call[R]](ctx context.Context, p Pipeliner, calls []C) ([]CallResult[R], error) {
	pipeline := p.Pipeline()
	replies := make([]*enginerpc.Result[R], len(calls))
	for i, call := range calls {
		replies[i] = enginerpc.Add[R](pipeline, call)
	}
	err := pipeline.Run(ctx)
	results := make([]CallResult[R], len(calls))
	for i, reply := range replies {
		results[i].Reply, results[i].Err = reply.Get()
	}
	return results, err
}
