package runtime

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/stablehash"
)

// DefaultHeartbeat is how often a keeper tells the others that it is there, unless Heartbeat says otherwise.
const DefaultHeartbeat = time.Second

const (
	minHeartbeat = 10 * time.Millisecond
	maxHeartbeat = time.Minute
	// silentBeats is after how many heartbeats a keeper does not count any more that is not heard. Another one notices at
	// its own next heartbeat.
	silentBeats = 3
	// keeperStuck is how long a step may take before the keeper does not say any more that it is there.
	keeperStuck = 5 * time.Second
)

// fleet knows the other keepers of the engine and which partitions are this one's: each partition belongs to the keeper
// whose hash together with the partition's is the highest, so that every keeper finds the same owner, and one that comes
// or goes moves no partitions of others. What a keeper knows may be wrong for a while. Then a partition is looked at twice,
// or a little later; every step is safe either way.
type fleet struct {
	self string
	beat time.Duration
	// builtIn tells that this is the keeper of workers, which stands by while others keep.
	builtIn bool
	// turned has a value when it may have changed whether this keeper stands by.
	turned chan struct{}

	mu    sync.Mutex
	peers map[string]keeperPeer
	// hears tells that the messages of other keepers arrive.
	hears bool
	// steps are the steps under way, by their beginning; failing tells that the last one failed everywhere.
	steps   map[*time.Time]struct{}
	failing bool
}

// keeperPeer is another keeper, which counts until a time.
type keeperPeer struct {
	hash    uint64
	until   time.Time
	builtIn bool
}

func newFleet(self string) *fleet {
	return &fleet{
		self: self, beat: DefaultHeartbeat, turned: make(chan struct{}, 1), peers: make(map[string]keeperPeer), steps: make(map[*time.Time]struct{}),
	}
}

// begin notes that a step begins. The result is called with what came of it.
func (f *fleet) begin(now time.Time) func([]outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps[&now] = struct{}{}
	return func(outcomes []outcome) {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.steps, &now)
		f.failing = len(outcomes) > 0
		for _, o := range outcomes {
			f.failing = f.failing && o.err != nil
		}
	}
}

// works tells whether the keeper does its work. One that does not leaves its partitions to others.
func (f *fleet) works(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for begun := range f.steps {
		if now.Sub(*begun) > keeperStuck {
			return false
		}
	}
	return !f.failing
}

// heard takes in a message of a keeper, "here <id> <heartbeat in ms>", with the word "builtin" after it for the keeper of
// workers, or "gone <id>". It reports whether that changes who there is, or the sender has to hear of this keeper.
func (f *fleet) heard(message string, now time.Time) bool {
	words := strings.Fields(message)
	if len(words) < 2 || words[1] == f.self {
		return false
	}
	id := words[1]
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.peers[id]
	switch {
	case words[0] == "here" && len(words) > 2:
		ms, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return false
		}
		beat := min(max(time.Duration(ms)*time.Millisecond, minHeartbeat), maxHeartbeat)
		builtIn := slices.Contains(words[3:], builtInWord)
		if builtIn && !f.builtIn {
			return true // it stands by when it hears of this one, and owns nothing until then
		}
		f.peers[id] = keeperPeer{stablehash.Of(id), now.Add(silentBeats * beat), builtIn}
		notify(f.turned)
		return !known
	case words[0] == "gone":
		delete(f.peers, id)
		notify(f.turned)
		return known
	}
	return false
}

// forgetSilent drops those that have not been heard for long, and tells whether there were any.
func (f *fleet) forgetSilent(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.peers)
	for id, p := range f.peers {
		if now.After(p.until) {
			delete(f.peers, id)
		}
	}
	if len(f.peers) == before {
		return false
	}
	notify(f.turned)
	return true
}

// size is the number of keepers, with this one.
func (f *fleet) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return 1 + len(f.peers)
}

// mine tells whether a partition is this keeper's.
func (f *fleet) mine(p enginecore.Partition) bool {
	seed := stablehash.Of(p.Tag())
	own := stablehash.Mix(stablehash.Of(f.self) ^ seed)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, other := range f.peers {
		if stablehash.Mix(other.hash^seed) > own {
			return false
		}
	}
	return true
}

// announce tells the other keepers that this one is there, hears them, and shares the partitions with them, until ctx ends.
func (k *Keeper) announce(ctx context.Context) {
	channel := k.session.core.Keys().ChannelKeepers()
	here := "here " + k.fleet.self + " " + strconv.FormatInt(k.fleet.beat.Milliseconds(), 10)
	if k.fleet.builtIn {
		here += " " + builtInWord
	}
	say := func(ctx context.Context, message string) bool {
		// A message that does not arrive costs the others a look at partitions that are not theirs.
		return k.session.client.Do(ctx, k.session.client.B().Publish().Channel(channel).Message(message).Build()).Error() == nil
	}
	// greet is filled when somebody has to hear at once that this keeper is there.
	greet := make(chan struct{}, 1)
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() {
		subscribed := func() {
			k.fleet.listens()
			notify(greet)
		}
		k.session.hub.listen(ctx, []string{channel}, subscribed, func(_, message string) {
			if k.fleet.heard(message, time.Now()) {
				k.share()
				notify(greet)
			}
		})
	})
	ticker := time.NewTicker(k.fleet.beat)
	defer ticker.Stop()
	stoodBy := false
	for {
		select {
		case <-ctx.Done():
			// The others take over at once instead of after a silence.
			bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultHeartbeat)
			say(bye, "gone "+k.fleet.self)
			cancel()
			return
		case <-ticker.C:
		case <-greet:
		}
		if k.fleet.forgetSilent(time.Now()) {
			k.share()
		}
		switch standsBy := k.fleet.standsBy(); {
		case standsBy && !stoodBy:
			stoodBy = say(ctx, "gone "+k.fleet.self)
			continue
		case standsBy:
			continue
		}
		stoodBy = false
		if k.fleet.works(time.Now()) && say(ctx, here) && k.rounds[0].agenda.owns() == 0 {
			k.vitals.touch() // there is nothing else to show it
		}
	}
}

// share divides the partitions anew.
func (k *Keeper) share() {
	now := time.Now()
	for _, r := range k.rounds {
		r.agenda.share(now, k.fleet.mine)
	}
}
