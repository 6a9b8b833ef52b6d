package runtime

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// reopened is the outcome in a done message of a flow that runs again.
const reopened = "reopened"

// ending is what a done message says of a flow. known is whether it brings the result; when it is false, somebody must
// look.
type ending struct {
	known   bool
	outcome string
	result  string
}

// manyDone begins a message that holds several.
const manyDone = "many "

// eachDone gives the messages that one message holds: itself, or those behind "many ", each with its length in front. What
// cannot be read is left out.
func eachDone(message string) iter.Seq[string] {
	return func(yield func(string) bool) {
		rest, many := strings.CutPrefix(message, manyDone)
		if !many {
			yield(message)
			return
		}
		for rest != "" {
			length, behind, _ := strings.Cut(rest, " ")
			n, err := strconv.Atoi(length)
			if err != nil || n < 0 || n > len(behind) || !yield(behind[:n]) {
				return
			}
			rest = behind[n:]
		}
	}
}

// parseDone reads "<flow> <outcome>" and "<flow> <outcome> <result>".
func parseDone(message string) (enginecore.FlowID, ending) {
	id, rest, _ := strings.Cut(message, " ")
	outcome, result, known := strings.Cut(rest, " ")
	return enginecore.FlowID(id), ending{known: known, outcome: outcome, result: result}
}

// maxExpected bounds the flows whose end a client keeps in mind before somebody asks for it.
const maxExpected = 1024

// doneListener hears which flows are over. It listens to a partition from the first wait for one of its flows on.
type doneListener struct {
	session *session
	closed  context.Context
	stop    context.CancelFunc
	tasks   sync.WaitGroup

	mu         sync.Mutex
	partitions map[enginecore.Partition]chan struct{} // closed when the subscription stands
	waiting    map[enginecore.FlowID][]chan ending
	// expected holds flows that were not started yet when the subscription stood, with their end once it was heard. What
	// is not in it any more, for lack of room or because messages may have been lost, has to be looked at.
	expected map[enginecore.FlowID]*ending
	recent   []enginecore.FlowID // of expected, the oldest first; those taken out are still in it
	// reopening holds flows that this client runs again. Until they are said to be reopened, what is heard is their
	// former end.
	reopening map[enginecore.FlowID]struct{}
	// channels are those of waits that are over, empty.
	channels sync.Pool
}

func newDoneListener(e *session) *doneListener {
	closed, stop := context.WithCancel(context.Background())
	return &doneListener{
		session: e, closed: closed, stop: stop, partitions: make(map[enginecore.Partition]chan struct{}),
		waiting: make(map[enginecore.FlowID][]chan ending), expected: make(map[enginecore.FlowID]*ending),
		reopening: make(map[enginecore.FlowID]struct{}),
	}
}

func (d *doneListener) close() {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.tasks.Wait()
}

// expect keeps the end of a flow that is about to be started, if the client listens to its partition already.
func (d *doneListener) expect(id enginecore.FlowID, p enginecore.Partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ready, listening := d.partitions[p]
	if !listening {
		return
	}
	select {
	case <-ready:
	default:
		return
	}
	if len(d.recent) == maxExpected {
		delete(d.expected, d.recent[0])
		d.recent = d.recent[1:]
	}
	d.expected[id] = nil
	d.recent = append(d.recent, id)
}

// forget takes back expect: the flow may have ended before.
func (d *doneListener) forget(id enginecore.FlowID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.expected, id)
}

// reopen makes a former end of a flow, whose message may still be under way, count for nothing. It is to be called before the
// flow is run again, and kept after it when that has failed.
func (d *doneListener) reopen(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) error {
	d.mu.Lock()
	ready, listening := d.partitions[p]
	d.mu.Unlock()
	if !listening {
		return nil
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.closed.Done():
		return errClientClosed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reopening[id] = struct{}{}
	return nil
}

// kept takes back reopen.
func (d *doneListener) kept(id enginecore.FlowID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.reopening, id)
}

// doneWait is one wait for the end of a flow. heard gets a value when the flow is said to be over, or messages may have
// been lost. expected tells that its end cannot have been missed.
type doneWait struct {
	heard    chan ending
	expected bool
	flow     enginecore.FlowID
}

// wait returns once messages are heard, so that a flow which ends after it is not missed. The wait is to be released.
func (d *doneListener) wait(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) (doneWait, error) {
	d.mu.Lock()
	if d.closed.Err() != nil {
		d.mu.Unlock()
		return doneWait{}, errClientClosed
	}
	ready, listening := d.partitions[p]
	if !listening {
		ready = make(chan struct{})
		d.partitions[p] = ready
		d.tasks.Go(func() { d.listen(p, ready) })
	}
	w := doneWait{flow: id}
	if used, ok := d.channels.Get().(chan ending); ok {
		w.heard = used
	} else {
		w.heard = make(chan ending, 1)
	}
	var end *ending
	end, w.expected = d.expected[id]
	delete(d.expected, id)
	if end != nil {
		w.heard <- *end
	}
	d.waiting[id] = append(d.waiting[id], w.heard)
	d.mu.Unlock()
	select {
	case <-ready:
		return w, nil
	case <-ctx.Done():
		d.release(w)
		return doneWait{}, context.Cause(ctx)
	case <-d.closed.Done():
		d.release(w)
		return doneWait{}, errClientClosed
	}
}

// release ends a wait. Nothing is heard by its channel any more, which is used again.
func (d *doneListener) release(w doneWait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	others := slices.DeleteFunc(d.waiting[w.flow], func(heard chan ending) bool { return heard == w.heard })
	if len(others) == 0 {
		delete(d.waiting, w.flow)
	} else {
		d.waiting[w.flow] = others
	}
	select {
	case <-w.heard:
	default:
	}
	d.channels.Put(w.heard)
}

// listen hears one partition until the client is closed.
func (d *doneListener) listen(p enginecore.Partition, ready chan struct{}) {
	channel := d.session.core.Keys().ChannelDone(p)
	var once sync.Once
	subscribed := func() {
		first := false
		once.Do(func() {
			close(ready)
			first = true
		})
		if !first {
			d.lostTrack()
		}
	}
	d.session.hub.listen(d.closed, []string{channel}, subscribed, func(_, message string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for one := range eachDone(message) {
			d.tell(parseDone(one))
		}
	})
}

// tell is to be called with the listener locked.
func (d *doneListener) tell(id enginecore.FlowID, end ending) {
	if _, expected := d.expected[id]; expected {
		d.expected[id] = nil
		if end.outcome != reopened {
			kept := end
			d.expected[id] = &kept
		}
	}
	if end.outcome == reopened {
		delete(d.reopening, id)
		return
	}
	if _, former := d.reopening[id]; former {
		return
	}
	for _, heard := range d.waiting[id] {
		leave(heard, end)
	}
}

// lostTrack makes every wait look again, since messages may have been lost.
func (d *doneListener) lostTrack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.expected)
	clear(d.reopening)
	for _, list := range d.waiting {
		for _, heard := range list {
			leave(heard, ending{})
		}
	}
}

// leave leaves a value in a channel of capacity one, unless there is one.
func leave(c chan ending, end ending) {
	select {
	case c <- end:
	default:
	}
}
