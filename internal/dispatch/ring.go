package dispatch

// The wake ring must agree with lua/frame/wake.lua, which publishes the wake-ups.
const (
	// ringSlotMS is the duration of a slot, ringSlots their number. A call that makes work publishes the wake-up in the
	// slot of its time.
	ringSlotMS, ringSlots = 20, 256
	// wakeFanout is the number of workers that subscribe to a slot. The second and third respond when the first is
	// gone, busy or slow.
	wakeFanout = 3
)

// WakeRing assigns the workers of a lane to time slots, so that a wake-up goes to a few workers and not to all. It is
// published in the slot of its time, to which wakeFanout workers listen. While there are not more workers than that, no
// slot has listeners, and wake-ups go to all.
//
// Each worker computes the ring by itself from the peers that it knows. When they disagree, a slot has fewer or more
// listeners, and a wake-up in a slot without any goes to all: that costs claims, but loses nothing.
type WakeRing struct {
	workers int
	self    int // position of this worker among them, by its hash
}

func newWakeRing(self uint64, peers map[string]peer) WakeRing {
	r := WakeRing{workers: len(peers) + 1}
	for _, p := range peers {
		if p.hash < self {
			r.self++
		}
	}
	return r
}

// Slots returns the slots that this worker subscribes to, in ascending order; nil while the lane has at most wakeFanout
// workers.
func (r WakeRing) Slots() []int {
	if r.workers <= wakeFanout {
		return nil
	}
	var list []int
	for slot := range ringSlots {
		if r.rank(slot) < wakeFanout {
			list = append(list, slot)
		}
	}
	return list
}

// rank is how many workers come before this one in a slot.
func (r WakeRing) rank(slot int) int {
	return ((r.self-slot)%r.workers + r.workers) % r.workers
}

// turn is how many workers of a slot answer a wake-up of a time (Unix ms) before this one. The first worker changes
// with each time round the ring, so that all get their share for any number of workers.
func (r WakeRing) turn(slot int, at int64) int {
	rank := r.rank(slot)
	if rank >= wakeFanout {
		return wakeFanout // the slot belongs to others by now
	}
	round := at / ringSlotMS / ringSlots
	return (rank + int(round%wakeFanout)) % wakeFanout
}
