package linearizability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
)

// Sizes of a history. All clients work on one run at a time, so that they meet.
const (
	clients     = 4
	runs        = 24
	callsPerRun = 16
	faultEvery  = 12 // calls
)

// calls makes the calls of a history. It is safe for concurrent use.
type calls struct {
	seed uint64
	mu   sync.Mutex
	rand *rand.Rand
	made int
}

// next returns the next call, and whether there is one.
func (c *calls) next() (Call, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == runs*callsPerRun {
		return Call{}, false
	}
	call := random(c.rand, runName(c.seed, c.made/callsPerRun))
	c.made++
	return call, true
}

// runName names a run of the history of a seed: several histories can be of one engine.
func runName(seed uint64, i int) string { return fmt.Sprintf("run-%x-%d", seed, i) }

// random returns a call about a run. Signals have one of a few keys, so that some are delivered again.
func random(r *rand.Rand, run string) Call {
	call := Call{Run: run, Input: 1 + r.IntN(2)}
	key := r.IntN(5)
	switch choice := r.IntN(100); {
	case choice < 20:
		call.Kind = Start
	case choice < 50:
		call.Kind = Signal
	case choice < 65:
		call.Kind = StartOrSignal
	case choice < 72:
		call.Kind = Cancel
	default:
		call.Kind = Describe
	}
	if call.Kind == Signal || call.Kind == StartOrSignal {
		call.Key, call.Payload = fmt.Sprintf("k%d", key), 10*key+1
	}
	return call
}

// record lets clients make the calls of a seed, with a fault after each few of them, and reads all runs in the end.
func record(performers []Performer, seed uint64, fault func(r *rand.Rand)) *History {
	h := NewHistory(fault != nil)
	all := calls{seed: seed, rand: rand.New(rand.NewPCG(seed, 1))}
	faults := rand.New(rand.NewPCG(seed, 2))
	done := make(chan struct{}, runs*callsPerRun)
	var working sync.WaitGroup
	for i, p := range performers {
		working.Go(func() {
			for call, more := all.next(); more; call, more = all.next() {
				h.do(i, p, call)
				done <- struct{}{}
			}
		})
	}
	for i := range runs * callsPerRun {
		<-done
		if fault != nil && i%faultEvery == faultEvery-1 {
			fault(faults)
		}
	}
	working.Wait()
	for i := range runs {
		for _, kind := range []Kind{Describe, Cancel, Describe, Result} {
			h.do(0, performers[0], Call{Kind: kind, Run: runName(seed, i)})
		}
	}
	return h
}

// contexts are the contexts of calls, which can all be ended at once: the calls' outcomes are unknown then.
type contexts struct {
	now  atomic.Pointer[context.Context]
	stop context.CancelFunc
}

func newContexts(t *testing.T) *contexts {
	c := &contexts{}
	c.renew()
	t.Cleanup(func() { c.stop() })
	return c
}

func (c *contexts) renew() {
	ctx, stop := context.WithCancel(context.Background())
	c.now.Store(&ctx)
	c.stop = stop
}

// end ends the contexts of calls that wait for their replies. It belongs to one goroutine.
func (c *contexts) end() {
	stop := c.stop
	c.renew()
	stop()
}

func (c *contexts) context() context.Context { return *c.now.Load() }

// newClients returns clients on the engine of a bench.
func newClients(t *testing.T, b *enginetest.Bench, c *contexts) []Performer {
	t.Helper()
	var all []Performer
	for range clients {
		client, err := NewClient(b.Client, c.context)
		require.NoError(t, err)
		all = append(all, client)
	}
	return all
}

// verify fails the test if a history is not linearizable.
func verify(t *testing.T, h *History) {
	t.Helper()
	for _, fault := range h.Faults() {
		t.Error(fault)
	}
	total, unknown := h.Count()
	t.Logf("%d calls checked, %d outcomes were unknown: %v", total, unknown, h.outcomes())
}

// each checks the histories of the seeds of a test.
func each(t *testing.T, histories func(seed uint64) *History) {
	t.Helper()
	for seed := range randseed.Trials(t, 1) {
		verify(t, histories(seed))
	}
}

// outcomes counts the calls by kind and outcome.
func (h *History) outcomes() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := make(map[string]int)
	for _, c := range h.calls {
		counts[string(c.Input.(Call).Kind)+" "+string(c.Output.(Outcome).Code)]++
	}
	return counts
}
