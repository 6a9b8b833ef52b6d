package submit

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

var errClientClosed = errors.New("client is closed")

// outcomeReopened is the outcome in the completion message of a run that runs again.
const outcomeReopened = "reopened"

// RunCompletion is what a completion message says of a run. Without a result, the engine has to be asked for it.
type RunCompletion struct {
	HasResult bool
	Outcome   string
	Result    string
}

// batchPrefix begins a message that holds several.
const batchPrefix = "many "

// splitCompletions yields the completion messages that one published message holds: itself, or those behind
// batchPrefix, each with its length in front. Malformed ones are left out.
func splitCompletions(message string) iter.Seq[string] {
	return func(yield func(string) bool) {
		rest, batched := strings.CutPrefix(message, batchPrefix)
		if !batched {
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

// parseCompletion reads "<flow id> <outcome>" and "<flow id> <outcome> <result>".
func parseCompletion(message string) (enginecore.FlowID, RunCompletion) {
	id, rest, _ := strings.Cut(message, " ")
	outcome, result, hasResult := strings.Cut(rest, " ")
	return enginecore.FlowID(id), RunCompletion{HasResult: hasResult, Outcome: outcome, Result: result}
}

// maxTracked bounds the runs whose completion is kept before somebody waits for it.
const maxTracked = 1024

// CompletionListener hears which runs have ended. It subscribes to a partition at the first wait for one of its runs,
// and stays subscribed until it is closed.
type CompletionListener struct {
	session *engine.Session
	closed  context.Context
	stop    context.CancelFunc
	tasks   sync.WaitGroup

	Mu sync.Mutex
	// subscribed has a channel for each partition, which is closed once messages are heard.
	subscribed map[enginecore.Partition]chan struct{}
	waiting    map[enginecore.FlowID][]chan RunCompletion
	// tracked holds runs that were started after their partition was subscribed to, with their completion once it was
	// heard. For runs that were dropped from it, for lack of room or because messages may have been lost, the engine
	// has to be asked.
	tracked map[enginecore.FlowID]*RunCompletion
	// trackOrder lists the ids of tracked, the oldest first; dropped ones are still in it.
	trackOrder []enginecore.FlowID
	// rerunning holds runs that this process runs again. Until the engine says that they are reopened, a message about
	// one is of its former end.
	rerunning map[enginecore.FlowID]struct{}
	// channels keeps empty channels of waits that are over for reuse.
	channels sync.Pool
}

func newCompletionListener(s *engine.Session) *CompletionListener {
	closed, stop := context.WithCancel(context.Background())
	return &CompletionListener{
		session: s, closed: closed, stop: stop, subscribed: make(map[enginecore.Partition]chan struct{}),
		waiting: make(map[enginecore.FlowID][]chan RunCompletion), tracked: make(map[enginecore.FlowID]*RunCompletion),
		rerunning: make(map[enginecore.FlowID]struct{}),
	}
}

func (l *CompletionListener) close() {
	l.Mu.Lock()
	l.stop()
	l.Mu.Unlock()
	l.tasks.Wait()
}

// track keeps the completion of a run that is about to be started, if its partition is subscribed to already.
func (l *CompletionListener) track(id enginecore.FlowID, p enginecore.Partition) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	ready, listening := l.subscribed[p]
	if !listening {
		return
	}
	select {
	case <-ready:
	default:
		return
	}
	if len(l.trackOrder) == maxTracked {
		delete(l.tracked, l.trackOrder[0])
		l.trackOrder = l.trackOrder[1:]
	}
	l.tracked[id] = nil
	l.trackOrder = append(l.trackOrder, id)
}

// Untrack undoes track: the run may have ended before it.
func (l *CompletionListener) Untrack(id enginecore.FlowID) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	delete(l.tracked, id)
}

// BeginRerun makes the listener ignore the former end of a run, whose message may still be under way. It is called
// before the run is run again; when that fails, AbortRerun undoes it.
func (l *CompletionListener) BeginRerun(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) error {
	l.Mu.Lock()
	ready, listening := l.subscribed[p]
	l.Mu.Unlock()
	if !listening {
		return nil
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.closed.Done():
		return errClientClosed
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.rerunning[id] = struct{}{}
	return nil
}

// AbortRerun undoes BeginRerun.
func (l *CompletionListener) AbortRerun(id enginecore.FlowID) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	delete(l.rerunning, id)
}

// completionWait is one wait for the end of a run.
type completionWait struct {
	// Completed gets a value when the run has ended, or an empty one when messages may have been lost.
	Completed chan RunCompletion
	// tracked reports that the end of the run cannot have been missed.
	tracked bool
	flow    enginecore.FlowID
}

// Wait returns once messages are heard, so that a run which ends after it is not missed. The wait is to be released.
func (l *CompletionListener) Wait(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) (completionWait, error) {
	l.Mu.Lock()
	if l.closed.Err() != nil {
		l.Mu.Unlock()
		return completionWait{}, errClientClosed
	}
	ready, listening := l.subscribed[p]
	if !listening {
		ready = make(chan struct{})
		l.subscribed[p] = ready
		l.tasks.Go(func() { l.listen(p, ready) })
	}
	w := completionWait{flow: id}
	if used, ok := l.channels.Get().(chan RunCompletion); ok {
		w.Completed = used
	} else {
		w.Completed = make(chan RunCompletion, 1)
	}
	var end *RunCompletion
	end, w.tracked = l.tracked[id]
	delete(l.tracked, id)
	if end != nil {
		w.Completed <- *end
	}
	l.waiting[id] = append(l.waiting[id], w.Completed)
	l.Mu.Unlock()
	select {
	case <-ready:
		return w, nil
	case <-ctx.Done():
		l.Release(w)
		return completionWait{}, context.Cause(ctx)
	case <-l.closed.Done():
		l.Release(w)
		return completionWait{}, errClientClosed
	}
}

// Release ends a wait, whose channel is used for other waits afterwards.
func (l *CompletionListener) Release(w completionWait) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	others := slices.DeleteFunc(l.waiting[w.flow], func(completed chan RunCompletion) bool { return completed == w.Completed })
	if len(others) == 0 {
		delete(l.waiting, w.flow)
	} else {
		l.waiting[w.flow] = others
	}
	select {
	case <-w.Completed:
	default:
	}
	l.channels.Put(w.Completed)
}

// listen subscribes to the completions of a partition until the listener is closed. It closes ready when messages are
// heard.
func (l *CompletionListener) listen(p enginecore.Partition, ready chan struct{}) {
	channel := l.session.Core.Keys().ChannelDone(p)
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
	l.session.Hub.Listen(l.closed, []string{channel}, subscribed, func(_, message string) {
		l.Mu.Lock()
		defer l.Mu.Unlock()
		for one := range splitCompletions(message) {
			l.Deliver(parseCompletion(one))
		}
	})
}

// Deliver passes a completion to the waits for the run. The listener is locked.
func (l *CompletionListener) Deliver(id enginecore.FlowID, end RunCompletion) {
	if _, tracked := l.tracked[id]; tracked {
		l.tracked[id] = nil
		if end.Outcome != outcomeReopened {
			kept := end
			l.tracked[id] = &kept
		}
	}
	if end.Outcome == outcomeReopened {
		delete(l.rerunning, id)
		return
	}
	if _, former := l.rerunning[id]; former {
		return
	}
	for _, completed := range l.waiting[id] {
		trySend(completed, end)
	}
}

// resync makes every wait ask the engine, since messages may have been lost.
func (l *CompletionListener) resync() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	clear(l.tracked)
	clear(l.rerunning)
	for _, list := range l.waiting {
		for _, completed := range list {
			trySend(completed, RunCompletion{})
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
