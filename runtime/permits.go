package runtime

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// limitNews is what a worker last heard of a limit.
type limitNews struct {
	crowded bool  // somebody waited for a place
	room    int64 // places before the limit comes near
}

// limitBook keeps the news of the limits that a worker has to do with. What it says may be out of date; then a place is
// refused, or given back a little later.
type limitBook struct {
	mu   sync.Mutex
	news map[enginecore.QuotaPolicyID]limitNews
}

// maxNews bounds the limits of which a worker keeps news, all of which go with each of its claims.
const maxNews = 16

func (b *limitBook) heard(quota enginecore.QuotaPolicyID, news limitNews) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if news == (limitNews{}) {
		delete(b.news, quota)
		return
	}
	if b.news == nil {
		b.news = make(map[enginecore.QuotaPolicyID]limitNews)
	}
	b.news[quota] = news
	for other := range b.news {
		if len(b.news) <= maxNews {
			break
		}
		if other != quota {
			delete(b.news, other)
		}
	}
}

// crowded tells whether somebody waits for one of the places.
func (b *limitBook) crowded(places []debt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.news) == 0 {
		return false
	}
	for _, d := range places {
		for _, limit := range d.limits {
			if b.news[limit.Quota].crowded {
				return true
			}
		}
	}
	return false
}

// rooms is what a claim says of limits under which it may lease executions ahead of their places. more tells how many
// places of a limit the worker has besides.
func (b *limitBook) rooms(more func(enginecore.QuotaPolicyID) int64) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.news) == 0 {
		return ""
	}
	var text strings.Builder
	for quota, news := range b.news {
		if news.room > 0 {
			text.WriteString(string(quota))
			text.WriteByte(' ')
			text.WriteString(strconv.FormatInt(news.room+more(quota), 10))
			text.WriteByte('\n')
		}
	}
	return text.String()
}

// permits asks for the places of executions that were leased ahead of them and cannot take turns in a block. One call at a time is under way for the limit
// that each asks first; those that come meanwhile go together in the next one.
type permits struct {
	shift *shift

	mu sync.Mutex
	// waiting holds the tasks behind the call that is under way for a limit.
	waiting map[enginecore.QuotaPolicyID][]*task
}

// ask asks for the places of those tasks that have to, and have not yet. Each is told by its channel. The caller is one of
// the shift's tasks.
func (p *permits) ask(tasks ...*task) {
	var idle []enginecore.QuotaPolicyID
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range tasks {
		if t.places != nil || !isLeasedAhead(&t.claimed) {
			continue
		}
		t.places = make(chan bool, 1)
		d, ok := debtOf(&t.claimed)
		if !ok || len(d.limits) == 0 {
			t.places <- false
			continue
		}
		if p.shift.blocks.fits(d.limits) {
			p.shift.blocks.take(t, d.limits[0])
			continue
		}
		first := d.limits[0].Quota
		if p.waiting == nil {
			p.waiting = make(map[enginecore.QuotaPolicyID][]*task)
		}
		behind, underway := p.waiting[first]
		if !underway {
			idle = append(idle, first)
		}
		p.waiting[first] = append(behind, t)
	}
	for _, quota := range idle {
		p.shift.tasks.Go(func() { p.sendAll(quota) })
	}
}

// sendAll asks until nobody is left who asks a limit first.
func (p *permits) sendAll(quota enginecore.QuotaPolicyID) {
	for {
		p.mu.Lock()
		behind := p.waiting[quota]
		if len(behind) == 0 {
			delete(p.waiting, quota)
			p.mu.Unlock()
			return
		}
		n := min(maxDebts, len(behind))
		p.waiting[quota] = behind[n:]
		p.mu.Unlock()
		p.send(behind[:n])
	}
}

// send asks for the places of some tasks and tells them. What others got by the way is carried to them afterwards.
func (p *permits) send(tasks []*task) {
	w := &walk{admitter: admitter{p.shift.session}, ctx: p.shift.base, by: &taker{p.shift, tasks[0].spot.lane, 0}}
	applicants := make([]*applicant, 0, len(tasks))
	for _, t := range tasks {
		d, _ := debtOf(&t.claimed)
		applicants = append(applicants, &applicant{Candidate: enginecore.Candidate{ExecutionID: d.execution, Token: d.token}, limits: d.limits})
	}
	w.pass(applicants, nil)
	for i, x := range applicants {
		tasks[i].places <- len(x.grants) == len(x.limits)
	}
	// Those that have passed all their limits are the tasks.
	w.admitted = slices.DeleteFunc(w.admitted, func(x admission) bool { return x.complete })
	w.deliver()
}

// awaitPlaces waits until a task that was leased ahead of its places has got them, or has not.
func (t *task) awaitPlaces() bool {
	if !isLeasedAhead(&t.claimed) {
		return true
	}
	t.shift.permits.ask(t)
	t.placed = <-t.places
	return t.placed
}

// whyReturned is what is noted of a task that is given back before it ran.
func whyReturned(placed bool) string {
	if !placed {
		return "its limit has no room"
	}
	return "the worker stopped"
}
