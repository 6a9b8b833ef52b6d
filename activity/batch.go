package activity

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

// Bounds and defaults of batch activities.
const (
	maxBatchSize = 10_000
	maxBatchWait = time.Minute

	defaultBatchSize = 100
	defaultBatchWait = 10 * time.Millisecond
)

// ItemResult is the result of a function of NewBatch for one item: a value, or an error.
type ItemResult[Out any] struct {
	Value Out
	Err   error
}

// NewBatch declares an activity whose function is called for several executions at once, of whatever runs and nodes:
// for systems that take many items in one request more cheaply than many requests. A worker gathers the executions that
// it has claimed, up to BatchSize of them for at most BatchWait after the first. The function returns one result for
// each item, in their order.
//
// Each item is a separate execution, with its lease, attempts, retries, limits and timeouts: one with an error fails by
// itself, as if a function had returned that error for it. If the function returns an error, or another number of
// results, or panics, each item fails. An item whose execution ends before that, since it is cancelled or out of time,
// is given up by its worker, and its result is dropped; before the call it does not come to the function. A worker that
// stops waits for no further executions: it calls the function for those that it has gathered.
//
// Each item has a slot of its worker from its claim to its end, so a batch has at most WorkerConfig.Concurrency items.
// StartToClose includes the time of gathering. For AtMost, an item starts when it joins the batch.
//
// The context of the function ends when all items have been given up. Heartbeat and Progress count for all of them, and
// Info has nothing but Kind. Steps, waits, budgets, frames and live values belong to one execution: their calls fail.
// Outside a worker, as in Call, the function is called for one item at a time.
func NewBatch[In, Out any](
	name string, fn func(ctx context.Context, items []In) ([]ItemResult[Out], error), opts ...Option,
) *Activity[In, Out] {
	b := &batchActivity[In, Out]{fn: fn, name: name, batchOptions: batchOptions{defaultBatchSize, defaultBatchWait}}
	isBatch := declarationOption(func(d *declaration) { d.batch = &b.batchOptions })
	return declare(name, b.invoke, fn == nil, slices.Concat([]Option{isBatch}, opts))
}

// batchOptions are the options of NewBatch alone.
type batchOptions struct {
	size int
	wait time.Duration
}

// BatchSize sets how many items a call of a function of NewBatch gets at most, 1 to 10,000. Defaults to 100.
func BatchSize(n int) Option {
	return batchOption("BatchSize", func(o *batchOptions) error {
		if n < 1 || n > maxBatchSize {
			return fmt.Errorf("batch size %d: must be 1 to %d", n, maxBatchSize)
		}
		o.size = n
		return nil
	})
}

// BatchWait sets for how long a worker gathers items for a call of a function of NewBatch, from the first one on, up to
// a minute. Defaults to 10 ms; with 0, only items that are claimed together gather, if at all.
func BatchWait(d time.Duration) Option {
	return batchOption("BatchWait", func(o *batchOptions) error {
		if d < 0 || d > maxBatchWait {
			return fmt.Errorf("batch wait %s: must be 0 to %s", d, maxBatchWait)
		}
		o.wait = d
		return nil
	})
}

func batchOption(name string, set func(*batchOptions) error) Option {
	return declarationOption(func(d *declaration) {
		if d.batch == nil {
			d.fault("%s is an option of NewBatch", name)
		} else if err := set(d.batch); err != nil {
			d.faults = append(d.faults, err)
		}
	})
}

// batchActivity is the function of a batch activity. Its address is the key of the gatherer for it.
type batchActivity[In, Out any] struct {
	fn   func(context.Context, []In) ([]ItemResult[Out], error)
	name string
	batchOptions
}

// invoke is the function of one item.
func (a *batchActivity[In, Out]) invoke(ctx context.Context, in In) (Out, error) {
	space := activitycontext.BatchesFrom(ctx)
	if space == nil {
		results, err := a.call(ctx, []In{in})
		if err != nil {
			var zero Out
			return zero, err
		}
		return results[0].Value, results[0].Err
	}
	g := space.Of(a, func() activitycontext.Gatherer { return &gatherer[In, Out]{of: a} }).(*gatherer[In, Out])
	return g.do(ctx, in)
}

// call calls the function, which has to return as many results as there are items.
func (a *batchActivity[In, Out]) call(ctx context.Context, items []In) ([]ItemResult[Out], error) {
	results, err := a.fn(ctx, items)
	if err == nil && len(results) != len(items) {
		err = fmt.Errorf("the function of batch activity %q returned %d results for %d items", a.name, len(results),
			len(items))
	}
	return results, err
}

// gatherer gathers the items of one activity in a worker.
type gatherer[In, Out any] struct {
	of   *batchActivity[In, Out]
	mu   sync.Mutex
	open *batch[In, Out] // to which items are added
	// stopped is set when no further items are waited for.
	stopped bool
}

// Stop implements activitycontext.Gatherer.
func (g *gatherer[In, Out]) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	if g.open != nil {
		g.start(g.open)
	}
}

// batch is one call. Its fields are under the lock of the gatherer until ended is closed.
type batch[In, Out any] struct {
	items  []*batchItem[In, Out]
	timer  *time.Timer
	called bool
	left   int // items of the call that have not been given up
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when the function has returned
	panic  *activitycontext.Panic
	exited bool // the function has ended its goroutine
}

type batchItem[In, Out any] struct {
	ctx context.Context
	in  In
	out Out
	err error
}

// do adds an item to a batch, and returns its result.
func (g *gatherer[In, Out]) do(ctx context.Context, in In) (Out, error) {
	item := &batchItem[In, Out]{ctx: ctx, in: in}
	b := g.add(item)
	select {
	case <-b.ended:
	case <-ctx.Done():
		g.leave(b, item)
		var zero Out
		return zero, context.Cause(ctx)
	}
	switch {
	case b.panic != nil:
		panic(b.panic)
	case b.exited:
		runtime.Goexit()
	}
	return item.out, item.err
}

// add adds an item to the open batch, and calls the function when that is full.
func (g *gatherer[In, Out]) add(item *batchItem[In, Out]) *batch[In, Out] {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.open
	if b == nil {
		b = &batch[In, Out]{ended: make(chan struct{})}
		g.open = b
		b.timer = time.AfterFunc(g.of.wait, func() { g.timeIsUp(b) })
	}
	b.items = append(b.items, item)
	if len(b.items) == g.of.size || g.stopped {
		g.start(b)
	}
	return b
}

func (g *gatherer[In, Out]) timeIsUp(b *batch[In, Out]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == b {
		g.start(b)
	}
}

// start calls the function in a separate goroutine, which ends before the last of its items returns. The lock is held.
func (g *gatherer[In, Out]) start(b *batch[In, Out]) {
	b.timer.Stop()
	g.open, b.called, b.left = nil, true, len(b.items)
	all := &batchExecution[In, Out]{of: g.of, items: b.items}
	ctx, cancel := context.WithCancelCause(activitycontext.With(context.Background(), all))
	b.cancel = cancel
	go func() {
		defer cancel(nil)
		g.run(ctx, b)
	}()
}

// run calls the function and hands its results out.
func (g *gatherer[In, Out]) run(ctx context.Context, b *batch[In, Out]) {
	returned := false
	defer func() {
		if r := recover(); r != nil {
			b.panic = &activitycontext.Panic{Value: r, Stack: debug.Stack()}
		} else if !returned {
			b.exited = true
		}
		close(b.ended)
	}()
	items := make([]In, len(b.items))
	for i, item := range b.items {
		items[i] = item.in
	}
	results, err := g.of.call(ctx, items)
	for i, item := range b.items {
		if item.err = err; err == nil {
			item.out, item.err = results[i].Value, results[i].Err
		}
	}
	returned = true
}

// errAllGivenUp is the cause with which the context of a function ends when no item waits for it.
var errAllGivenUp = errors.New("all items of the batch have been given up")

// leave gives up an item. The last one of a call waits for the function, so that its worker does not stop before.
func (g *gatherer[In, Out]) leave(b *batch[In, Out], item *batchItem[In, Out]) {
	g.mu.Lock()
	if !b.called {
		b.items = slices.DeleteFunc(b.items, func(other *batchItem[In, Out]) bool { return other == item })
		if len(b.items) == 0 {
			b.timer.Stop()
			g.open = nil
		}
		g.mu.Unlock()
		return
	}
	b.left--
	last := b.left == 0
	g.mu.Unlock()
	if last {
		b.cancel(fmt.Errorf("%w: %w", errAllGivenUp, context.Cause(item.ctx)))
		<-b.ended
	}
}

// errInBatch is the failure of a call in a function of NewBatch that belongs to one execution.
var errInBatch = errors.New("the function of a batch activity runs for several executions: it has no steps, waits, " +
	"frames, live values and budgets")

// batchFault returns that failure in the context of a function of NewBatch, nil in others.
func batchFault(ctx context.Context) error {
	e, _ := activitycontext.From(ctx)
	if _, ok := e.(interface{ ofBatch() }); !ok {
		return nil
	}
	return NonRetryable(errInBatch)
}

// noExecution returns why a context has no execution that could wait.
func noExecution(ctx context.Context) error {
	if err := batchFault(ctx); err != nil {
		return err
	}
	return NonRetryable(ErrNoWorker)
}

// batchExecution is the execution in the context of a function of NewBatch: it has the executions of all items.
type batchExecution[In, Out any] struct {
	of    *batchActivity[In, Out]
	items []*batchItem[In, Out]
}

// ofBatch marks the context of a function of NewBatch.
func (e *batchExecution[In, Out]) ofBatch() {}

// Info names the activity.
func (e *batchExecution[In, Out]) Info() activitycontext.Info {
	return activitycontext.Info{Kind: e.of.name}
}

// LeaseHealthy reports whether the leases of all items that have not been given up are.
func (e *batchExecution[In, Out]) LeaseHealthy() bool {
	for _, item := range e.items {
		if item.ctx.Err() == nil && !LeaseHealthy(item.ctx) {
			return false
		}
	}
	return true
}

// Heartbeat counts for all items.
func (e *batchExecution[In, Out]) Heartbeat(ctx context.Context) error {
	for _, item := range e.items {
		_ = Heartbeat(item.ctx) // the item itself learns of its end
	}
	return context.Cause(ctx)
}

// Progress is recorded for all items.
func (e *batchExecution[In, Out]) Progress(ctx context.Context, percent float64, message string) error {
	var faults []error
	for _, item := range e.items {
		if item.ctx.Err() == nil {
			faults = append(faults, Progress(item.ctx, percent, message))
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(faults...)
}
