package runtime

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

var errClientClosed = errors.New("client is closed")

// outcomeReopened is the outcome in the completion message of a run that runs again.
const outcomeReopened = "reopened"

// runCompletion is what a completion message says of a run. Without a result, the engine has to be asked for it.
type runCompletion struct {
	hasResult bool
	outcome   string
	result    string
}

// batchPrefix begins a message that holds several.
const batchPrefix = "many "

// splitCompletions yields the completion messages that one published message holds: itself, or those behind batchPrefix, each
// with its length in front. Malformed ones are left out.
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
func parseCompletion(message string) (enginecore.FlowID, runCompletion) {
	id, rest, _ := strings.Cut(message, " ")
	outcome, result, hasResult := strings.Cut(rest, " ")
	return enginecore.FlowID(id), runCompletion{hasResult: hasResult, outcome: outcome, result: result}
}

// maxTracked bounds the runs whose completion is kept before somebody waits for it.
const maxTracked = 1024

// completionListener hears which runs have ended. It subscribes to a partition at the first wait for one of its runs, and
// stays subscribed until it is closed.
type completionListener struct {
	session *session
	closed  context.Context
	stop    context.CancelFunc
	tasks   sync.WaitGroup

	mu sync.Mutex
	// subscribed has a channel for each partition, which is closed once messages are heard.
	subscribed map[enginecore.Partition]chan struct{}
	waiting    map[enginecore.FlowID][]chan runCompletion
	// tracked holds runs that were started after their partition was subscribed to, with their completion once it was heard.
	// For runs that were dropped from it, for lack of room or because messages may have been lost, the engine has to be asked.
	tracked map[enginecore.FlowID]*runCompletion
	// trackOrder lists the ids of tracked, the oldest first; dropped ones are still in it.
	trackOrder []enginecore.FlowID
	// rerunning holds runs that this process runs again. Until the engine says that they are reopened, a message about one is
	// of its former end.
	rerunning map[enginecore.FlowID]struct{}
	// channels keeps empty channels of waits that are over for reuse.
	channels sync.Pool
}

func newCompletionListener(s *session) *completionListener {
	closed, stop := context.WithCancel(context.Background())
	return &completionListener{
		session: s, closed: closed, stop: stop, subscribed: make(map[enginecore.Partition]chan struct{}),
		waiting: make(map[enginecore.FlowID][]chan runCompletion), tracked: make(map[enginecore.FlowID]*runCompletion),
		rerunning: make(map[enginecore.FlowID]struct{}),
	}
}

func (l *completionListener) close() {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.tasks.Wait()
}

// track keeps the completion of a run that is about to be started, if its partition is subscribed to already.
func (l *completionListener) track(id enginecore.FlowID, p enginecore.Partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
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

// untrack undoes track: the run may have ended before it.
func (l *completionListener) untrack(id enginecore.FlowID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tracked, id)
}

// beginRerun makes the listener ignore the former end of a run, whose message may still be under way. It is called before the
// run is run again; when that fails, abortRerun undoes it.
func (l *completionListener) beginRerun(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) error {
	l.mu.Lock()
	ready, listening := l.subscribed[p]
	l.mu.Unlock()
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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rerunning[id] = struct{}{}
	return nil
}

// abortRerun undoes beginRerun.
func (l *completionListener) abortRerun(id enginecore.FlowID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rerunning, id)
}

// completionWait is one wait for the end of a run.
type completionWait struct {
	// completed gets a value when the run has ended, or an empty one when messages may have been lost.
	completed chan runCompletion
	// tracked reports that the end of the run cannot have been missed.
	tracked bool
	flow    enginecore.FlowID
}

// wait returns once messages are heard, so that a run which ends after it is not missed. The wait is to be released.
func (l *completionListener) wait(ctx context.Context, id enginecore.FlowID, p enginecore.Partition) (completionWait, error) {
	l.mu.Lock()
	if l.closed.Err() != nil {
		l.mu.Unlock()
		return completionWait{}, errClientClosed
	}
	ready, listening := l.subscribed[p]
	if !listening {
		ready = make(chan struct{})
		l.subscribed[p] = ready
		l.tasks.Go(func() { l.listen(p, ready) })
	}
	w := completionWait{flow: id}
	if used, ok := l.channels.Get().(chan runCompletion); ok {
		w.completed = used
	} else {
		w.completed = make(chan runCompletion, 1)
	}
	var end *runCompletion
	end, w.tracked = l.tracked[id]
	delete(l.tracked, id)
	if end != nil {
		w.completed <- *end
	}
	l.waiting[id] = append(l.waiting[id], w.completed)
	l.mu.Unlock()
	select {
	case <-ready:
		return w, nil
	case <-ctx.Done():
		l.release(w)
		return completionWait{}, context.Cause(ctx)
	case <-l.closed.Done():
		l.release(w)
		return completionWait{}, errClientClosed
	}
}

// release ends a wait, whose channel is used for other waits afterwards.
func (l *completionListener) release(w completionWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := slices.DeleteFunc(l.waiting[w.flow], func(completed chan runCompletion) bool { return completed == w.completed })
	if len(others) == 0 {
		delete(l.waiting, w.flow)
	} else {
		l.waiting[w.flow] = others
	}
	select {
	case <-w.completed:
	default:
	}
	l.channels.Put(w.completed)
}

// listen subscribes to the completions of a partition until the listener is closed. It closes ready when messages are heard.
func (l *completionListener) listen(p enginecore.Partition, ready chan struct{}) {
	channel := l.session.core.Keys().ChannelDone(p)
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
	l.session.hub.listen(l.closed, []string{channel}, subscribed, func(_, message string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for one := range splitCompletions(message) {
			l.deliver(parseCompletion(one))
		}
	})
}

// deliver passes a completion to the waits for the run. The listener is locked.
func (l *completionListener) deliver(id enginecore.FlowID, end runCompletion) {
	if _, tracked := l.tracked[id]; tracked {
		l.tracked[id] = nil
		if end.outcome != outcomeReopened {
			kept := end
			l.tracked[id] = &kept
		}
	}
	if end.outcome == outcomeReopened {
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
func (l *completionListener) resync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.tracked)
	clear(l.rerunning)
	for _, list := range l.waiting {
		for _, completed := range list {
			trySend(completed, runCompletion{})
		}
	}
}

// trySend sends a value to a channel of capacity one unless it holds one.
func trySend(c chan runCompletion, end runCompletion) {
	select {
	case c <- end:
	default:
	}
}
