package permit

import (
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// limitCache holds the last reported state of the limits that a worker uses. The zero value is empty and
// ready.
type limitCache struct {
	mu     sync.Mutex
	states map[enginecore.QuotaPolicyID]admission.LimitState
	rates  map[enginecore.QuotaPolicyID]knownRate
}

// knownRate is whether a limit counts starts, as it was at a time.
type knownRate struct {
	rate admission.Rate
	at   time.Time
}

// rateFresh is how long a worker relies on whether a limit counts starts, which operators can change.
const rateFresh = time.Second

// maxKnownRates bounds the limits of which a worker caches that; it requests it again for limits that it has dropped.
const maxKnownRates = 1024

// maxCachedLimits bounds the limits in the cache; each claim of the worker carries all of them.
const maxCachedLimits = 16

// update stores the state of a limit. One that claims and returns make no use of removes the state of before.
func (c *limitCache) update(limit enginecore.QuotaPolicyID, state admission.LimitState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state.Rate != admission.RateUnknown {
		if c.rates == nil || len(c.rates) >= maxKnownRates {
			c.rates = make(map[enginecore.QuotaPolicyID]knownRate)
		}
		c.rates[limit] = knownRate{state.Rate, time.Now()}
	}
	if !state.Contended && state.Room == 0 {
		delete(c.states, limit)
		return
	}
	if c.states == nil {
		c.states = make(map[enginecore.QuotaPolicyID]admission.LimitState)
	}
	c.states[limit] = state
	for other := range c.states {
		if len(c.states) <= maxCachedLimits {
			break
		}
		if other != limit {
			delete(c.states, other)
		}
	}
}

// rateOf returns whether a limit counts starts, by a reply of the last second.
func (c *limitCache) rateOf(limit enginecore.QuotaPolicyID) admission.Rate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.rates[limit]; time.Since(known.at) < rateFresh {
		return known.rate
	}
	return admission.RateUnknown
}

// isContended reports whether an execution waits for one of the permits, by the last reported states.
func (c *limitCache) isContended(returns []admission.PermitReturn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.states) == 0 {
		return false
	}
	for _, r := range returns {
		for _, limit := range r.Limits {
			if c.states[limit.Quota].Contended {
				return true
			}
		}
	}
	return false
}

// isContendedLimit reports whether an execution waits for a permit of a limit, by the last reported state.
func (c *limitCache) isContendedLimit(limit enginecore.QuotaPolicyID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states[limit].Contended
}

// rooms returns the lines "<limit> <room>" with the number of executions that a claim may lease before their permits
// are acquired. unused returns how many further permits of a limit the worker holds in a pool.
func (c *limitCache) rooms(unused func(enginecore.QuotaPolicyID) int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.states) == 0 {
		return ""
	}
	var list []byte
	for limit, state := range c.states {
		if state.Room > 0 {
			list = enginerpc.RoomText{QuotaPolicyID: limit, Permits: state.Room + unused(limit)}.AppendText(list)
		}
	}
	return string(list)
}
