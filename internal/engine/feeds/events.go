package feeds

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

const (
	// feedPage is the number of entries of a feed read at once. A reader that gets this many checks all runs that it
	// follows, so it misses none when the feed is trimmed: the engine keeps more (lua/frame/event_log.lua).
	feedPage = 250
	// feedPause is the least time between two reads of the same feeds, for the hints of a busy engine to gather.
	feedPause = 2 * time.Millisecond
	// FeedLook is how long a follower waits for a hint before it looks without one, unless the session is quiet.
	FeedLook = 5 * time.Second
	// feedLinger is how long a feed is read after its last follower has left.
	feedLinger = 10 * time.Second
	// shortFeedBlock is how long the first read waits after a feed was added; the time doubles with each read without
	// news. A read that waits for longer than maxShortFeedBlock is ended for a further feed.
	shortFeedBlock    = 50 * time.Millisecond
	maxShortFeedBlock = 2 * shortFeedBlock
)

// Events reads the feeds of the partitions in which runs are followed: streams with the ids of the runs that calls have
// logged events of. On one server a single connection waits for all of them. A command cannot read keys of several
// slots of a cluster, so there each partition takes a connection.
type Events struct {
	watches *transport.Watches
	keys    enginerpc.Keys
	apart   bool // each partition has its own reader
	look    time.Duration
	running sync.WaitGroup

	mu      sync.Mutex
	readers map[keyspace.Partition]*feedReader // one, of the zero partition, unless apart
}

func NewEvents(w *transport.Watches, keys enginerpc.Keys, apart bool, look time.Duration) *Events {
	readers := make(map[keyspace.Partition]*feedReader)
	return &Events{watches: w, keys: keys, apart: apart, look: look, readers: readers}
}

// Follow returns a follower of a run.
func (f *Events) Follow(p keyspace.Partition, id enginecore.FlowID) *eventFollower {
	return &eventFollower{feeds: f, partition: p, flowID: id, hint: make(chan struct{}, 1)}
}

// Wait returns once all readers have ended, which they do when the watches are closed.
func (f *Events) Wait() {
	if f != nil {
		f.running.Wait()
	}
}

// eventFollower implements [Follower] by a feed.
type eventFollower struct {
	feeds     *Events
	partition keyspace.Partition
	flowID    enginecore.FlowID
	hint      chan struct{} // has a value when the run may have news, or failed was set
	reader    *feedReader   // nil until the first Await, and after Close
	failed    error         // guarded by feeds.mu
}

// Await implements [Follower].
func (w *eventFollower) Await(ctx context.Context) error {
	w.feeds.join(w)
	timer := time.NewTimer(w.feeds.look)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	case <-w.hint:
	}
	w.feeds.mu.Lock()
	defer w.feeds.mu.Unlock()
	return w.failed
}

// Close implements [Follower].
func (w *eventFollower) Close() {
	w.feeds.mu.Lock()
	defer w.feeds.mu.Unlock()
	if w.reader != nil {
		w.reader.remove(w)
		w.reader = nil
	}
}

// join adds a follower to the reader of its partition unless it is there.
func (f *Events) join(w *eventFollower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.reader != nil || f.watches.Ctx.Err() != nil {
		return
	}
	at := keyspace.Partition{}
	if f.apart {
		at = w.partition
	}
	r := f.readers[at]
	if r == nil {
		r = &feedReader{feeds: f, at: at, read: make(map[keyspace.Partition]*feed)}
		f.readers[at] = r
		f.running.Go(r.run)
	}
	w.reader = r
	r.add(w)
}

// feed is the feed of one partition.
type feed struct {
	key       string
	last      string // id of the last entry that was read; "" before the end of the feed is known
	followers map[enginecore.FlowID]map[*eventFollower]struct{}
	left      time.Time // when its last follower left
}

// wake wakes the followers of all runs of the feed.
func (f *feed) wake() {
	for id := range f.followers {
		f.wakeRun(id)
	}
}

func (f *feed) wakeRun(id enginecore.FlowID) {
	for w := range f.followers[id] {
		sleep.Wake(w.hint)
	}
}

// feedReader reads feeds on its own connection while they have followers.
type feedReader struct {
	feeds *Events
	at    keyspace.Partition // its place in feeds.readers

	// Guarded by feeds.mu.
	read      map[keyspace.Partition]*feed
	added     bool   // since the present read began
	interrupt func() // ends the present read; nil when it is a short one, or there is none

	// Used by run only.
	wire    rueidis.DedicatedClient
	release func()
	role    transport.HeldCheck
}

func (r *feedReader) add(w *eventFollower) {
	f := r.read[w.partition]
	if f == nil {
		f = &feed{
			key: r.feeds.keys.FfxFeed(w.partition), followers: make(map[enginecore.FlowID]map[*eventFollower]struct{}),
		}
		r.read[w.partition] = f
		r.added = true
		if r.interrupt != nil {
			r.interrupt()
		}
	}
	if f.followers[w.flowID] == nil {
		f.followers[w.flowID] = make(map[*eventFollower]struct{}, 1)
	}
	f.followers[w.flowID][w] = struct{}{}
	if f.last != "" {
		sleep.Wake(w.hint) // else the reader does, once it knows the end of the feed
	}
}

func (r *feedReader) remove(w *eventFollower) {
	f := r.read[w.partition]
	if f == nil {
		return
	}
	delete(f.followers[w.flowID], w)
	if len(f.followers[w.flowID]) == 0 {
		delete(f.followers, w.flowID)
	}
	if len(f.followers) == 0 {
		f.left = time.Now()
	}
}

// run reads until the feeds have no followers.
func (r *feedReader) run() {
	defer r.disconnect()
	block := shortFeedBlock
	for {
		ctx, cancel, feeds, added := r.begin(block)
		if len(feeds) == 0 {
			return
		}
		if added {
			block = shortFeedBlock
		}
		began := time.Now()
		found, err := r.wait(ctx, feeds, block)
		interrupted := ctx.Err() != nil
		cancel()
		switch {
		case interrupted || errors.Is(err, transport.ErrConnecting):
			r.disconnect() // the next read waits for the connection that is being made
		case err != nil:
			r.disconnect()
			if transport.IsUnauthorized(err) {
				r.fail(enginerpc.ConnectError(err))
				return
			}
			sleep.For(r.feeds.watches.Ctx, transport.TailPause)
		case found:
			sleep.For(r.feeds.watches.Ctx, feedPause-time.Since(began))
		default:
			block = min(2*block, r.feeds.watches.Held)
		}
	}
}

// begin returns the feeds to read, and a context that ends when others are added, unless the read is a short one.
// Without feeds the reader is over, and the next follower starts another one.
func (r *feedReader) begin(block time.Duration) (context.Context, context.CancelFunc, []*feed, bool) {
	r.feeds.mu.Lock()
	defer r.feeds.mu.Unlock()
	ctx, cancel := context.WithCancel(r.feeds.watches.Ctx)
	var list []*feed
	for p, f := range r.read {
		if len(f.followers) == 0 && time.Since(f.left) > feedLinger {
			delete(r.read, p)
			continue
		}
		list = append(list, f)
	}
	if len(list) == 0 || ctx.Err() != nil {
		delete(r.feeds.readers, r.at)
		cancel()
		return ctx, cancel, nil, false
	}
	added := r.added
	r.added, r.interrupt = false, nil
	if !added && block > maxShortFeedBlock {
		r.interrupt = cancel
	}
	return ctx, cancel, list, added
}

// wait waits for new entries of the feeds and wakes their followers. It reports whether there were any.
func (r *feedReader) wait(ctx context.Context, feeds []*feed, block time.Duration) (found bool, err error) {
	w := r.feeds.watches
	if r.wire == nil {
		if r.wire, r.release, err = w.Connection(ctx); err != nil {
			r.wire = nil
			return false, err
		}
		r.role = transport.HeldCheck{Last: time.Now()}
	}
	// The client library ignores ctx while a blocking command waits; closing the connection ends the command.
	defer context.AfterFunc(ctx, r.wire.Close)()
	answered, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Patience(block))
	defer cancel()
	if err := r.role.Before(answered, w.Roles(), r.wire); err != nil {
		return false, err
	}
	if err := r.locate(answered, feeds); err != nil {
		return false, err
	}
	keys, after := make([]string, len(feeds)), make([]string, len(feeds))
	for i, f := range feeds {
		keys[i], after[i] = f.key, f.last
	}
	read := r.wire.B().Xread().Count(feedPage).Block(block.Milliseconds())
	command := read.Streams().Key(keys...).Id(after...).Build()
	entries, err := r.wire.Do(answered, command).AsXRead()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	r.notify(feeds, entries)
	return len(entries) > 0, err
}

// locate finds the ends of the feeds that were added. Their followers may have read less.
func (r *feedReader) locate(ctx context.Context, feeds []*feed) error {
	var added []*feed
	var commands []rueidis.Completed
	for _, f := range feeds {
		if f.last == "" {
			added = append(added, f)
			commands = append(commands, r.wire.B().Xrevrange().Key(f.key).End("+").Start("-").Count(1).Build())
		}
	}
	if len(added) == 0 {
		return nil
	}
	ends := make([]string, len(added))
	for i, result := range r.wire.DoMulti(ctx, commands...) {
		entries, err := result.AsXRange()
		if err != nil {
			return err
		}
		if ends[i] = transport.FromStart; len(entries) > 0 {
			ends[i] = entries[0].ID
		}
	}
	r.feeds.mu.Lock()
	defer r.feeds.mu.Unlock()
	for i, f := range added {
		f.last = ends[i]
		f.wake()
	}
	return nil
}

// notify wakes the followers of the runs that entries of feeds name.
func (r *feedReader) notify(feeds []*feed, entries map[string][]rueidis.XRangeEntry) {
	r.feeds.mu.Lock()
	defer r.feeds.mu.Unlock()
	for _, f := range feeds {
		page := entries[f.key]
		if len(page) == 0 {
			continue
		}
		f.last = page[len(page)-1].ID
		if len(page) >= feedPage {
			f.wake() // entries after the last one read may have been trimmed
			continue
		}
		for _, e := range page {
			for id := range strings.FieldsSeq(e.FieldValues["flows"]) {
				if id == "*" {
					f.wake()
				}
				f.wakeRun(enginecore.FlowID(id))
			}
		}
	}
}

// fail ends the reader and gives all followers an error. Those that wait again join another reader.
func (r *feedReader) fail(err error) {
	r.feeds.mu.Lock()
	defer r.feeds.mu.Unlock()
	delete(r.feeds.readers, r.at)
	for _, f := range r.read {
		for _, followers := range f.followers {
			for w := range followers {
				w.failed, w.reader = err, nil
			}
		}
		f.wake()
	}
}

func (r *feedReader) disconnect() {
	if r.wire != nil {
		r.wire.Close()
		r.release()
		r.wire = nil
	}
}

// Follower waits for news of one run. It is for use by one goroutine.
type Follower interface {
	// Await returns nil when the run may have events that its caller has not read: at the first call, after a hint, and
	// at the latest after a few seconds. It returns the cause of ctx once that has ended, and fails at once if the
	// engine refuses the read for want of rights ([enginecore.ErrUnauthorized]).
	Await(ctx context.Context) error
	// Close ends the following. It may be called several times.
	Close()
}
