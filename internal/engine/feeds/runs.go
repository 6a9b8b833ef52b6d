package feeds

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

const (
	// runFeedRenewal is how often a reader announces that it follows; the engine keeps a feed open for an hour after
	// that.
	runFeedRenewal = time.Minute
	// runFeedHeld bounds how long a read waits, so that the reader renews in time, also in a quiet session.
	runFeedHeld = 30 * time.Minute
	// runFeedPause is the least time between two reads, for the updates of a busy engine to gather.
	runFeedPause = 20 * time.Millisecond
	// runFeedPoll is how often the partitions of a cluster are read: a blocking command cannot wait for several.
	runFeedPoll = 250 * time.Millisecond
	// maxRunFeedQueue is how many pages wait for a listener. One that is slower reads the engine itself.
	maxRunFeedQueue = 256
)

// Filter selects the updates of a feed that a listener receives.
type Filter struct {
	Flow     string
	Kinds    []string
	Children bool
}

func (f Filter) wants(n enginerpc.RunUpdate) bool {
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, n.Kind) {
		return false
	}
	if f.Flow != "" {
		return n.FlowName == f.Flow
	}
	return f.Children || !n.Child
}

// Page contains the updates of a partition between two positions.
type Page struct {
	Partition   keyspace.Partition
	After, Next string
	Updates     []enginerpc.RunUpdate
	// Lost reports that the entry After was trimmed, and possibly entries that followed it.
	Lost bool
}

// Runs reads the feed of the session's namespace for all listeners of the session.
type Runs struct {
	core      *enginerpc.Conn
	namespace keyspace.Namespace
	watches   *transport.Watches
	apart     bool // partitions lie on several servers
	running   sync.WaitGroup

	mu        sync.Mutex
	listeners map[*Listener]struct{}
	at        map[keyspace.Partition]string // where the reader is; nil when there is none
}

// NewRuns returns the feed of runs of a namespace, read on the connections of the other feeds.
func NewRuns(f *Events, core *enginerpc.Conn, namespace keyspace.Namespace) *Runs {
	return &Runs{
		core: core, namespace: namespace, watches: f.watches, apart: f.apart,
		listeners: make(map[*Listener]struct{}),
	}
}

// partitions returns the partitions that have a feed.
func (f *Runs) partitions() []keyspace.Partition {
	return f.core.Partitioning().Of(keyspace.FlowFamily)
}

// Wait returns once the reader has ended, which it does when the watches are closed.
func (f *Runs) Wait() {
	if f != nil {
		f.running.Wait()
	}
}

// Listener gets the updates of all partitions. It is for use by one goroutine.
type Listener struct {
	feeds  *Runs
	filter Filter
	at     map[keyspace.Partition]string
	hint   chan struct{}

	// Guarded by feeds.mu.
	behind map[keyspace.Partition]bool // to be read from the engine
	queue  []Page
	failed error
}

// Listen opens the feed and returns a listener, from the given positions on or, for partitions without one, from now
// on.
func (f *Runs) Listen(
	ctx context.Context, filter Filter, from map[keyspace.Partition]string,
) (*Listener, error) {
	ends, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		feeds: f, filter: filter, at: make(map[keyspace.Partition]string), hint: make(chan struct{}, 1),
		behind: make(map[keyspace.Partition]bool),
	}
	f.add(l, ends, from)
	return l, nil
}

// open opens the feed in all partitions and returns their ends.
func (f *Runs) open(ctx context.Context) (map[keyspace.Partition]string, error) {
	partitions := f.partitions()
	calls := make([]enginerpc.OpenFeedCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginerpc.OpenFeedCall{Partition: p, Namespace: string(f.namespace)}
	}
	answers, err := batching.SendAll[enginerpc.OpenFeedReply](ctx, f.core, calls)
	if err != nil {
		return nil, err
	}
	ends := make(map[keyspace.Partition]string, len(partitions))
	for i, p := range partitions {
		ends[p] = answers[i].Reply.Last
	}
	return ends, nil
}

func (f *Runs) add(l *Listener, ends, from map[keyspace.Partition]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = ends
		f.running.Go(f.run)
	}
	for p, end := range ends {
		l.at[p] = end
		if at, given := from[p]; given {
			l.at[p] = at
		}
		l.behind[p] = l.at[p] != f.at[p]
	}
	f.listeners[l] = struct{}{}
}

// Positions returns where the listener is, by partition.
func (l *Listener) Positions() map[keyspace.Partition]string { return maps.Clone(l.at) }

// Close ends the listening. It may be called several times.
func (l *Listener) Close() {
	l.feeds.mu.Lock()
	defer l.feeds.mu.Unlock()
	delete(l.feeds.listeners, l)
}

// Next returns the next page of one of the partitions, with updates that pass the listener's filter, or with Lost.
// When ctx has ended, it returns its cause.
func (l *Listener) Next(ctx context.Context) (Page, error) {
	for {
		page, found, err := l.take(ctx)
		if err != nil {
			return Page{}, err
		}
		if found {
			l.at[page.Partition] = page.Next
			if len(page.Updates) > 0 || page.Lost {
				return page, nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return Page{}, context.Cause(ctx)
		case <-l.hint:
		}
	}
}

// take returns a page that follows the listener's position in its partition; found is false if the listener has to
// wait.
func (l *Listener) take(ctx context.Context) (page Page, found bool, err error) {
	l.feeds.mu.Lock()
	if err := l.failed; err != nil {
		l.feeds.mu.Unlock()
		return Page{}, false, err
	}
	for len(l.queue) > 0 {
		page, l.queue = l.queue[0], l.queue[1:]
		at := l.at[page.Partition]
		if l.behind[page.Partition] || !IsEntryBefore(at, page.Next) {
			continue // it is read from the engine, or has been
		}
		if at == page.After {
			l.feeds.mu.Unlock()
			page.Updates = slices.DeleteFunc(slices.Clone(page.Updates),
				func(n enginerpc.RunUpdate) bool { return !l.filter.wants(n) })
			return page, true, nil
		}
		l.behind[page.Partition] = true
	}
	var behind keyspace.Partition
	for p, is := range l.behind {
		if is {
			behind, found = p, true
			break
		}
	}
	delete(l.behind, behind)
	l.feeds.mu.Unlock()
	if !found {
		return Page{}, false, nil
	}
	page, more, err := l.feeds.readPage(ctx, behind, l.at[behind], l.filter)
	if more || err != nil {
		l.feeds.mu.Lock()
		l.behind[behind] = true
		l.feeds.mu.Unlock()
	}
	return page, err == nil, err
}

// IsEntryBefore reports whether an entry of a feed comes before another one.
func IsEntryBefore(a, b string) bool {
	aMs, aSeq := splitEntry(a)
	bMs, bSeq := splitEntry(b)
	return aMs < bMs || aMs == bMs && aSeq < bSeq
}

// IsEntry reports whether a text is the id of an entry of a feed.
func IsEntry(text string) bool {
	ms, seq, found := strings.Cut(text, "-")
	_, msErr := strconv.ParseUint(ms, 10, 64)
	_, seqErr := strconv.ParseUint(seq, 10, 64)
	return found && msErr == nil && seqErr == nil
}

func splitEntry(id string) (ms, seq uint64) {
	first, second, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(first, 10, 64) // the engine made the ids
	seq, _ = strconv.ParseUint(second, 10, 64)
	return ms, seq
}

func (f *Runs) readCall(p keyspace.Partition, after string, filter Filter) enginerpc.ReadFeedCall {
	return enginerpc.ReadFeedCall{
		Partition: p, Namespace: string(f.namespace), After: after, FlowName: filter.Flow,
		Kinds: strings.Join(filter.Kinds, ","), Children: filter.Children,
	}
}

// readPage reads one page of a partition.
func (f *Runs) readPage(
	ctx context.Context, p keyspace.Partition, after string, filter Filter,
) (page Page, more bool, err error) {
	calls := []enginerpc.ReadFeedCall{f.readCall(p, after, filter)}
	answers, err := batching.SendAll[enginerpc.ReadFeedReply](ctx, f.core, calls)
	if err != nil {
		return Page{}, false, err
	}
	reply := answers[0].Reply
	page = Page{Partition: p, After: after, Next: reply.Next, Updates: reply.Updates, Lost: reply.Lost}
	return page, reply.More, nil
}

// run reads the feed until it has no listeners.
func (f *Runs) run() {
	tail := &feedTail{feeds: f}
	defer tail.disconnect()
	ctx, renewed := f.watches.Ctx, time.Now()
	for {
		at := f.positions(ctx)
		if at == nil {
			return
		}
		began := time.Now()
		changed, err := tail.await(ctx, at)
		if err == nil && time.Since(renewed) > runFeedRenewal {
			// A feed that the engine has lost is opened anew; reading shows the loss.
			if _, err = f.open(ctx); err == nil {
				renewed, changed = time.Now(), f.partitions()
			}
		}
		if err == nil {
			err = f.read(ctx, changed, at)
			if err != nil && ctx.Err() == nil && !retry.IsUnreached(err) {
				f.fail(err)
				return
			}
		}
		switch {
		case err == nil:
			sleep.For(ctx, runFeedPause-time.Since(began))
		case errors.Is(err, transport.ErrConnecting):
			tail.disconnect() // the next read waits for the connection that is being made
		case transport.IsUnauthorized(err) || errors.Is(err, enginecore.ErrUnauthorized):
			f.fail(enginerpc.ConnectError(err))
			return
		default:
			tail.disconnect()
			sleep.For(ctx, transport.TailPause)
		}
	}
}

// positions returns where the reader is; nil when it is to end.
func (f *Runs) positions(ctx context.Context) map[keyspace.Partition]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.listeners) == 0 || ctx.Err() != nil {
		f.at = nil
	}
	return f.at
}

// fail ends the reader and gives all listeners an error.
func (f *Runs) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = nil
	for l := range f.listeners {
		l.failed = err
		sleep.Wake(l.hint)
	}
	clear(f.listeners)
}

// read reads the partitions that may have updates, page by page, and passes them on.
func (f *Runs) read(
	ctx context.Context, partitions []keyspace.Partition, at map[keyspace.Partition]string,
) error {
	for len(partitions) > 0 {
		calls := make([]enginerpc.ReadFeedCall, len(partitions))
		for i, p := range partitions {
			calls[i] = f.readCall(p, at[p], Filter{Children: true})
		}
		answers, err := batching.SendAll[enginerpc.ReadFeedReply](ctx, f.core, calls)
		if err != nil {
			return err
		}
		var more []keyspace.Partition
		f.mu.Lock()
		for i, p := range partitions {
			reply := answers[i].Reply
			f.deliver(Page{Partition: p, After: at[p], Next: reply.Next, Updates: reply.Updates, Lost: reply.Lost})
			at[p] = reply.Next
			if reply.More {
				more = append(more, p)
			}
		}
		f.mu.Unlock()
		partitions = more
	}
	return nil
}

// deliver gives a page to all listeners.
func (f *Runs) deliver(page Page) {
	if page.Next == page.After && !page.Lost {
		return
	}
	for l := range f.listeners {
		if len(l.queue) >= maxRunFeedQueue {
			for _, dropped := range l.queue {
				l.behind[dropped.Partition] = true
			}
			l.queue = nil
		}
		l.queue = append(l.queue, page)
		sleep.Wake(l.hint)
	}
}

// feedTail waits for updates of the feeds of all partitions: on one server with one blocking command, on a cluster by
// polling them.
type feedTail struct {
	feeds   *Runs
	wire    rueidis.DedicatedClient
	release func()
}

func (t *feedTail) disconnect() {
	if t.wire != nil {
		t.wire.Close()
		t.release()
		t.wire = nil
	}
}

// await returns the partitions that may have updates after the given positions.
func (t *feedTail) await(ctx context.Context, at map[keyspace.Partition]string) ([]keyspace.Partition, error) {
	partitions := t.feeds.partitions()
	if t.feeds.apart {
		sleep.For(ctx, runFeedPoll)
		return partitions, ctx.Err()
	}
	w := t.feeds.watches
	if t.wire == nil {
		var err error
		if t.wire, t.release, err = w.Connection(ctx); err != nil {
			t.wire = nil
			return nil, err
		}
	}
	// The client library ignores ctx while a blocking command waits; closing the connection ends the command.
	defer context.AfterFunc(ctx, t.wire.Close)()
	held := min(w.Held, runFeedHeld)
	answered, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Patience(held))
	defer cancel()
	keys, after := make([]string, len(partitions)), make([]string, len(partitions))
	byKey := make(map[string]keyspace.Partition, len(partitions))
	for i, p := range partitions {
		keys[i], after[i] = t.feeds.core.Keys().FfxRunFeed(p, t.feeds.namespace), at[p]
		byKey[keys[i]] = p
	}
	read := t.wire.B().Xread().Count(1).Block(held.Milliseconds()).Streams().Key(keys...).Id(after...).Build()
	entries, err := t.wire.Do(answered, read).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	changed := make([]keyspace.Partition, 0, len(entries))
	for key := range entries {
		changed = append(changed, byKey[key])
	}
	return changed, err
}
