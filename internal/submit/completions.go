package submit

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// outcomeReopened is the outcome in the completion message of a run that runs again.
const outcomeReopened = "reopened"

// outcomeSuccess is the outcome of a run that has succeeded.
const outcomeSuccess = "success"

// RunCompletion is the content of a completion message. Without a result, the result has to be read from the engine.
// The zero value means that messages may have been lost.
type RunCompletion struct {
	HasResult bool
	Outcome   string
	// Result is shared by all waits for the run, and must not be changed.
	Result []byte
}

// maxTracked bounds the runs whose completion is kept before there is a wait for it.
const maxTracked = 1024

// CompletionListener receives the messages about runs that have ended, and passes them to waits. It subscribes to the
// channel of its process at the first wait and stays subscribed until it is closed. The runs that it starts from then
// on name the process; other runs are marked while there are waits for them. It is safe for concurrent use.
type CompletionListener struct {
	session *engine.Session
	closed  context.Context // ends with close, and with the session
	stop    context.CancelFunc
	tasks   sync.WaitGroup

	mu sync.Mutex
	// subscribed is closed once the channel is subscribed to; nil before the first wait.
	subscribed chan struct{}
	waiting    map[enginecore.FlowID]waitList
	// leaving has a channel for each run whose mark is being taken back, which is closed once that is over.
	leaving map[enginecore.FlowID]chan struct{}
	// tracked holds runs that were started after the channel was subscribed to, with their completion once its message
	// has arrived. For runs that were dropped from it, for lack of room or because messages may have been lost, waits
	// query the engine.
	tracked map[enginecore.FlowID]trackedRun
	// trackings counts the calls of track.
	trackings uint64
	// trackOrder lists the ids of tracked, the oldest first; dropped ones are still in it.
	trackOrder []enginecore.FlowID
	// rerunning holds runs that this process runs again. Until the engine reports that they are reopened, a message
	// about one is of its former end.
	rerunning map[enginecore.FlowID]struct{}
	// channels keeps empty channels of waits that are over for reuse.
	channels sync.Pool
}

// trackedRun is a run of tracked.
type trackedRun struct {
	number uint64 // of the call of track that has added it
	// started is set once this process knows that it has started the run, rather than found it: only then its end
	// cannot have come before track.
	started bool
	ended   bool // its message has arrived, with end
	end     RunCompletion
}

// waitList lists the waits for one run: mostly one, for which no list is allocated.
type waitList struct {
	first  CompletionWait // of the zero value if the list is empty
	others []CompletionWait
}

func (l *waitList) add(w CompletionWait) {
	if l.isEmpty() {
		l.first = w
		return
	}
	l.others = append(l.others, w)
}

// remove removes a wait that is in the list.
func (l *waitList) remove(w CompletionWait) {
	if l.first.Completed != w.Completed {
		l.others = slices.DeleteFunc(l.others, func(other CompletionWait) bool { return other.Completed == w.Completed })
		return
	}
	l.first = CompletionWait{}
	if last := len(l.others) - 1; last >= 0 {
		l.first, l.others = l.others[last], l.others[:last]
	}
}

func (l waitList) isEmpty() bool { return l.first.Completed == nil }

// all yields the waits.
func (l waitList) all() iter.Seq[CompletionWait] {
	return func(yield func(CompletionWait) bool) {
		if l.isEmpty() || !yield(l.first) {
			return
		}
		for _, w := range l.others {
			if !yield(w) {
				return
			}
		}
	}
}

func newCompletionListener(s *engine.Session) *CompletionListener {
	closed, stop := context.WithCancel(s.Closed())
	return &CompletionListener{
		session: s, closed: closed, stop: stop,
		waiting: make(map[enginecore.FlowID]waitList), tracked: make(map[enginecore.FlowID]trackedRun),
		leaving: make(map[enginecore.FlowID]chan struct{}), rerunning: make(map[enginecore.FlowID]struct{}),
	}
}

func (l *CompletionListener) close() {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.tasks.Wait()
}

// subscribe returns a channel that is closed once the listener is subscribed, and begins to subscribe. It needs the
// lock, and an open listener.
func (l *CompletionListener) subscribe() chan struct{} {
	if l.subscribed == nil {
		ready := make(chan struct{})
		l.subscribed = ready
		leave := l.session.Ends.Join(l)
		l.tasks.Go(func() {
			defer leave()
			l.listen(ready)
		})
	}
	return l.subscribed
}

// isSubscribed reports whether the listener has subscribed. It needs the lock.
func (l *CompletionListener) isSubscribed() bool {
	select {
	case <-l.subscribed:
		return true
	default:
		return false
	}
}

// Origin returns the name of the process for the runs that it starts, once it receives messages about them; "" before.
func (l *CompletionListener) Origin() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isSubscribed() {
		return l.session.Origin
	}
	return ""
}

const (
	// soonPurged is the retention below which a run may be gone before a wait for it begins, so that its end is known
	// by its message alone.
	soonPurged = 10 * time.Second
	// maxListenWait bounds how long a start waits for the subscription.
	maxListenWait = 5 * time.Second
)

// listenFor subscribes before the start of a run that is kept so shortly that waits would not find it. A start does
// without where that takes too long.
func (l *CompletionListener) listenFor(ctx context.Context, plan *RunPlan) {
	if !keptForLessThan(plan.Retention, soonPurged) {
		return
	}
	l.mu.Lock()
	if l.closed.Err() != nil {
		l.mu.Unlock()
		return
	}
	ready := l.subscribe()
	l.mu.Unlock()
	limit := time.NewTimer(maxListenWait)
	defer limit.Stop()
	select {
	case <-ready:
	case <-ctx.Done():
	case <-l.closed.Done():
	case <-limit.C:
	}
}

// track keeps the completion of a run that is about to be started, if the listener has subscribed. The caller calls
// settle with the number that track returns.
func (l *CompletionListener) track(id enginecore.FlowID) (number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isSubscribed() {
		return 0
	}
	if other, being := l.tracked[id]; being && !other.started {
		return other.number // another call is starting the run, too
	}
	if len(l.trackOrder) == maxTracked {
		delete(l.tracked, l.trackOrder[0])
		l.trackOrder = l.trackOrder[1:]
	}
	l.trackings++
	l.tracked[id] = trackedRun{number: l.trackings}
	l.trackOrder = append(l.trackOrder, id)
	return l.trackings
}

// settle ends the tracking of a start that track began. A run that the caller has started is trusted from now on,
// unless it was dropped in between; waits for a run that existed, or was not started, query the engine.
func (l *CompletionListener) settle(id enginecore.FlowID, number uint64, started bool) {
	if !started {
		l.Untrack(id)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if run, is := l.tracked[id]; is && run.number == number {
		run.started = true
		l.tracked[id] = run
	}
}

// Untrack makes waits for a run query the engine.
func (l *CompletionListener) Untrack(id enginecore.FlowID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tracked, id)
}

// BeginRerun makes the listener ignore the former end of a run, whose message may still arrive, until the engine
// reports to the returned origin that the run was reopened. The origin is empty before the first wait, when no message
// can arrive. The caller calls BeginRerun before the rerun, and AbortRerun if the rerun fails. It fails with the cause
// of ctx, or with enginecore.ErrClosed when the listener or the session is closed.
func (l *CompletionListener) BeginRerun(ctx context.Context, id enginecore.FlowID) (origin string, err error) {
	l.mu.Lock()
	ready := l.subscribed
	l.mu.Unlock()
	if ready == nil {
		return "", nil
	}
	if err := l.await(ctx, ready); err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rerunning[id] = struct{}{}
	return l.session.Origin, nil
}

// await waits until a channel is closed. It fails with the cause of ctx, or with enginecore.ErrClosed when the listener
// or the session is closed.
func (l *CompletionListener) await(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.closed.Done():
		return enginecore.ErrClosed
	}
}

// AbortRerun undoes BeginRerun.
func (l *CompletionListener) AbortRerun(id enginecore.FlowID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rerunning, id)
}

// CompletionWait is one wait for the end of a run.
type CompletionWait struct {
	// Completed receives the completion of the run, or the zero value when messages may have been lost.
	Completed chan RunCompletion
	// tracked is set if the end of the run cannot have been missed.
	tracked bool
	flow    enginecore.FlowID
}

// Wait registers a wait for the end of a run and returns once the listener is subscribed: the end of a run that names
// the process, or is marked for it afterwards, is not missed. The caller calls Release. Wait fails with the cause of
// ctx, or with enginecore.ErrClosed when the listener or the session is closed.
func (l *CompletionListener) Wait(ctx context.Context, id enginecore.FlowID) (CompletionWait, error) {
	l.mu.Lock()
	if l.closed.Err() != nil {
		l.mu.Unlock()
		return CompletionWait{}, enginecore.ErrClosed
	}
	ready, leaving := l.subscribe(), l.leaving[id]
	w := CompletionWait{flow: id}
	if used, ok := l.channels.Get().(chan RunCompletion); ok {
		w.Completed = used
	} else {
		w.Completed = make(chan RunCompletion, 1)
	}
	if run := l.tracked[id]; run.started {
		w.tracked = true
		delete(l.tracked, id)
		if run.ended {
			w.Completed <- run.end
		}
	}
	waits := l.waiting[id]
	waits.add(w)
	l.waiting[id] = waits
	l.mu.Unlock()
	err := l.await(ctx, ready)
	if err == nil && leaving != nil {
		err = l.await(ctx, leaving)
	}
	if err != nil {
		l.Release(w)
		return CompletionWait{}, err
	}
	return w, nil
}

// Release ends a wait. Its channel must not be used afterwards, since other waits use it again.
func (l *CompletionListener) Release(w CompletionWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := l.waiting[w.flow]
	waits.remove(w)
	if waits.isEmpty() {
		delete(l.waiting, w.flow)
	} else {
		l.waiting[w.flow] = waits
	}
	select {
	case <-w.Completed:
	default:
	}
	l.channels.Put(w.Completed)
}

// leaveWithin bounds how long a mark is taken back. One that stays ends by itself.
const leaveWithin = 5 * time.Second

// leave takes back the mark of a run after a wait that did not see its end, unless there are other waits for the run.
func (l *CompletionListener) leave(id enginecore.FlowID, p keyspace.Partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, awaited := l.waiting[id]; awaited || l.closed.Err() != nil || l.leaving[id] != nil {
		return
	}
	left := make(chan struct{})
	l.leaving[id] = left
	l.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(l.closed, leaveWithin)
		defer cancel()
		call := enginerpc.WatchRunCall{Partition: p, FlowID: id, Origin: l.session.Origin}
		_, _ = l.session.Backend.WatchRun(ctx, call) // without it the mark ends by itself
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.leaving, id)
		close(left)
	})
}

// listen subscribes to the channel of the process until the listener is closed. It closes ready once subscribed.
func (l *CompletionListener) listen(ready chan struct{}) {
	channel := l.session.Core.Keys().ChannelDone(l.session.Origin)
	var once sync.Once
	subscribed := func() {
		first := false
		once.Do(func() {
			close(ready)
			first = true
		})
		if !first {
			l.resync()
		}
	}
	l.session.Hub.Listen(l.closed, []string{channel}, subscribed, func(_, message string) { l.handle(message) })
}

// handle passes on the completions in a message. It ignores malformed ones.
func (l *CompletionListener) handle(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range enginerpc.SplitMany(message) {
		m, ok := enginerpc.ParseDoneMessage(one)
		switch {
		case !ok:
		case !enginerpc.IsValue([]byte(m.Result)): // the reply of a call has the value
			l.announce(m.FlowID)
		default:
			l.deliver(m.FlowID, RunCompletion{
				HasResult: m.Result != "", Outcome: m.Outcome, Result: []byte(m.Result),
			})
		}
	}
}

// announce makes the waits for a run query the engine, because the run has ended. The caller holds the lock.
func (l *CompletionListener) announce(id enginecore.FlowID) {
	if _, former := l.rerunning[id]; former {
		return
	}
	delete(l.tracked, id)
	for w := range l.waiting[id].all() {
		trySend(w.Completed, RunCompletion{})
	}
}

// Deliver passes a completion to the waits for the run.
func (l *CompletionListener) Deliver(id enginecore.FlowID, end RunCompletion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deliver(id, end)
}

// deliver passes a completion to the waits for the run. The caller holds the lock.
func (l *CompletionListener) deliver(id enginecore.FlowID, end RunCompletion) {
	if end.Outcome == outcomeReopened {
		delete(l.rerunning, id)
		delete(l.tracked, id)
		return
	}
	l.keep(id, end)
	if _, former := l.rerunning[id]; former {
		return
	}
	for w := range l.waiting[id].all() {
		trySend(w.Completed, end)
	}
}

// EndedHere passes the end of a run that a worker of the session has ended to the waits for the run. Other waits than
// those for a tracked run query the engine, since the run may have been run again in between: the reply to the worker
// and the messages come in any order.
func (l *CompletionListener) EndedHere(id enginecore.FlowID, result []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, former := l.rerunning[id]; former {
		return
	}
	end := RunCompletion{HasResult: len(result) > 0, Outcome: outcomeSuccess, Result: result}
	l.keep(id, end)
	for w := range l.waiting[id].all() {
		if w.tracked {
			trySend(w.Completed, end)
		} else {
			trySend(w.Completed, RunCompletion{})
		}
	}
}

// MayHaveEnded makes the waits for a run query the engine.
func (l *CompletionListener) MayHaveEnded(id enginecore.FlowID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tracked, id)
	for w := range l.waiting[id].all() {
		trySend(w.Completed, RunCompletion{})
	}
}

// keep keeps the end of a tracked run. The caller holds the lock.
func (l *CompletionListener) keep(id enginecore.FlowID, end RunCompletion) {
	if run, tracked := l.tracked[id]; tracked {
		run.ended, run.end = true, end
		l.tracked[id] = run
	}
}

// resync makes every wait query the engine, since messages may have been lost.
func (l *CompletionListener) resync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.tracked)
	clear(l.rerunning)
	for _, waits := range l.waiting {
		for w := range waits.all() {
			trySend(w.Completed, RunCompletion{})
		}
	}
}

// trySend sends a value to a channel of capacity one unless it holds one.
func trySend(c chan RunCompletion, end RunCompletion) {
	select {
	case c <- end:
	default:
	}
}
