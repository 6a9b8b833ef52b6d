package runtime

const (
	// rotaMS and rotaPlaces are those of the library: whoever makes work publishes it at the place of the time that it is.
	rotaMS, rotaPlaces = 20, 256
	// onDuty is how many workers hear a place, as the library has it. The second and third take over when the first is away, busy or slow.
	onDuty = 3
)

// rota says which workers of a lane are on duty when. A wake-up goes to the place of the rota whose time it is, and each
// place is heard by onDuty workers. While there are not more than that, nobody takes places, and wake-ups go to all.
//
// Each worker works it out by itself, from the crowd that it knows. When they do not agree, a place is heard by fewer
// workers or by more, and what is published at a place that nobody hears goes to all; that costs, but loses nothing.
type rota struct {
	workers int
	self    int // position among them
}

func newRota(self uint64, peers map[string]peer) rota {
	r := rota{workers: len(peers) + 1}
	for _, p := range peers {
		if p.hash < self {
			r.self++
		}
	}
	return r
}

// places are those that this worker hears.
func (r rota) places() []int {
	if r.workers <= onDuty {
		return nil
	}
	var list []int
	for place := range rotaPlaces {
		if r.rank(place) < onDuty {
			list = append(list, place)
		}
	}
	return list
}

// rank is how many workers stand before this one at a place.
func (r rota) rank(place int) int {
	return ((r.self-place)%r.workers + r.workers) % r.workers
}

// turn is how many of those on duty answer a wake-up of a time (Unix ms) before this worker. Who is first changes from
// round to round, so that it does not depend on the number of workers that all get their share.
func (r rota) turn(place int, at int64) int {
	rank := r.rank(place)
	if rank >= onDuty {
		return onDuty // others have this place by now
	}
	round := at / rotaMS / rotaPlaces
	return (rank + int(round%onDuty)) % onDuty
}
