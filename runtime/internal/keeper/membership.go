package keeper

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/stablehash"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	minHeartbeat = 10 * time.Millisecond
	maxHeartbeat = time.Minute
	// silentBeats is after how many heartbeats a keeper does not count any more that is not heard. Another one notices at
	// its own next heartbeat.
	SilentBeats = 3
	// keeperStuck is how long a step may take before the keeper does not say any more that it is there.
	KeeperStuck = 5 * time.Second
	// farewellWithin bounds the message of a keeper that ends.
	farewellWithin = time.Second
)

// membership knows the other keepers of the engine and which partitions are this one's: each partition belongs to the keeper
// whose hash together with the partition's is the highest, so that every keeper finds the same owner, and one that comes
// or goes moves no partitions of others. What a keeper knows may be wrong for a while. Then a partition is looked at twice,
// or a little later; every step is safe either way.
type Membership struct {
	self      string
	heartbeat time.Duration
	// builtIn marks the keeper of workers, which stands by while others keep.
	builtIn bool
	// turned has a value when it may have changed whether this keeper stands by.
	turned chan struct{}

	mu    sync.Mutex
	peers map[string]keeperPeer
	// hears is set when the messages of other keepers arrive.
	hears bool
	// steps are the steps under way, by their beginning; failing is set when the last one failed everywhere.
	steps   map[*time.Time]struct{}
	failing bool
}

// keeperPeer is another keeper, which counts until a time.
type keeperPeer struct {
	hash    uint64
	until   time.Time
	builtIn bool
}

func NewMembership(self string, heartbeat time.Duration) *Membership {
	return &Membership{
		self: self, heartbeat: heartbeat, turned: make(chan struct{}, 1), peers: make(map[string]keeperPeer), steps: make(map[*time.Time]struct{}),
	}
}

// begin notes that a step begins. The result is called with what came of it.
func (m *Membership) Begin(now time.Time) func([]StepResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps[&now] = struct{}{}
	return func(results []StepResult) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.steps, &now)
		m.failing = len(results) > 0
		for _, o := range results {
			m.failing = m.failing && o.Err != nil
		}
	}
}

// healthy reports whether the keeper does its work. One that does not leaves its partitions to others.
func (m *Membership) Healthy(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for begun := range m.steps {
		if now.Sub(*begun) > KeeperStuck {
			return false
		}
	}
	return !m.failing
}

// handle takes in a message of a keeper, "here <id> <heartbeat in ms>", with the word "builtin" after it for the keeper of
// workers, or "gone <id>". It reports whether that changes who there is, or the sender has to hear of this keeper.
func (m *Membership) Handle(message string, now time.Time) bool {
	words := strings.Fields(message)
	if len(words) < 2 || words[1] == m.self {
		return false
	}
	id := words[1]
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.peers[id]
	switch {
	case words[0] == "here" && len(words) > 2:
		ms, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return false
		}
		beat := min(max(time.Duration(ms)*time.Millisecond, minHeartbeat), maxHeartbeat)
		builtIn := slices.Contains(words[3:], builtInWord)
		if builtIn && !m.builtIn {
			return true // it stands by when it hears of this one, and owns nothing until then
		}
		m.peers[id] = keeperPeer{stablehash.Of(id), now.Add(SilentBeats * beat), builtIn}
		engine.Notify(m.turned)
		return !known
	case words[0] == "gone":
		delete(m.peers, id)
		engine.Notify(m.turned)
		return known
	}
	return false
}

// forgetSilent drops those that have not been heard for long, and reports whether there were any.
func (m *Membership) ForgetSilent(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.peers)
	for id, p := range m.peers {
		if now.After(p.until) {
			delete(m.peers, id)
		}
	}
	if len(m.peers) == before {
		return false
	}
	engine.Notify(m.turned)
	return true
}

// size is the number of keepers, with this one.
func (m *Membership) Size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return 1 + len(m.peers)
}

// owns reports whether a partition belongs to this keeper.
func (m *Membership) Owns(p enginecore.Partition) bool {
	seed := stablehash.Of(p.Tag())
	own := stablehash.Mix(stablehash.Of(m.self) ^ seed)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.peers {
		if stablehash.Mix(other.hash^seed) > own {
			return false
		}
	}
	return true
}

// announce sends heartbeats to the other keepers, receives theirs, and shares the partitions with them, until ctx ends.
func (k *Keeper) announce(ctx context.Context) {
	channel := k.Session.Core.Keys().ChannelKeepers()
	here := "here " + k.Members.self + " " + strconv.FormatInt(k.Members.heartbeat.Milliseconds(), 10)
	if k.Members.builtIn {
		here += " " + builtInWord
	}
	publish := func(ctx context.Context, message string) bool {
		// A message that does not arrive costs the others a look at partitions that are not theirs.
		return k.Session.Client.Do(ctx, k.Session.Client.B().Publish().Channel(channel).Message(message).Build()).Error() == nil
	}
	// atOnce has a value when a heartbeat is not to wait for the next tick.
	atOnce := make(chan struct{}, 1)
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() {
		subscribed := func() {
			k.Members.listens()
			engine.Notify(atOnce)
		}
		k.Session.Hub.Listen(ctx, []string{channel}, subscribed, func(_, message string) {
			if k.Members.Handle(message, time.Now()) {
				k.share()
				engine.Notify(atOnce)
			}
		})
	})
	ticker := time.NewTicker(k.Members.heartbeat)
	defer ticker.Stop()
	stoodBy := false
	for {
		select {
		case <-ctx.Done():
			// The others take over at once instead of after a silence.
			bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellWithin)
			publish(bye, "gone "+k.Members.self)
			cancel()
			return
		case <-ticker.C:
		case <-atOnce:
		}
		if k.Members.ForgetSilent(time.Now()) {
			k.share()
		}
		switch standsBy := k.Members.standsBy(); {
		case standsBy && !stoodBy:
			stoodBy = publish(ctx, "gone "+k.Members.self)
			continue
		case standsBy:
			continue
		}
		stoodBy = false
		if k.Members.Healthy(time.Now()) && publish(ctx, here) && k.Loops[0].Timer.ownedCount() == 0 {
			k.liveness.Touch() // there is nothing else to show it
		}
	}
}

// share divides the partitions anew.
func (k *Keeper) share() {
	now := time.Now()
	for _, l := range k.Loops {
		l.Timer.share(now, k.Members.Owns)
	}
}

// listens notes that messages of other keepers arrive from now on.
func (m *Membership) listens() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hears = true
	engine.Notify(m.turned)
}

func (m *Membership) isListening() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hears
}

// standsBy reports whether this keeper leaves everything to others: the keeper of workers does where keepers made
// by NewKeeper run, which may have other options, and where enough other workers keep.
func (m *Membership) standsBy() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.builtIn {
		return false
	}
	before := 0
	for id, p := range m.peers {
		if !p.builtIn {
			return true
		}
		if id < m.self {
			before++
		}
	}
	return before >= maxBuiltInKeepers
}
