// Package taskpool holds the tasks of workers that call over HTTP. For each such worker it runs a runtime.Worker, whose
// leases only the caller renews: a caller that is gone loses its tasks when their leases end, and so does one that
// calls another server, since a task is held by the server that has claimed it. Of a task that has ended, the pool
// knows for some time how, so that a call can be repeated, and neither its input nor its result.
package taskpool

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/bounds"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// Errors of the pool, for errors.Is.
var (
	// ErrDraining is returned by Claim for a worker that an operator drains.
	ErrDraining = errors.New("the worker drains: it takes no more work")
	// ErrUnknown is returned for a token that names no task of the caller on this server.
	ErrUnknown = errors.New("the lease of the task is not held: it has ended, or another server or a former start of " +
		"this one had claimed it; another worker may have the node")
	// ErrClosing is returned when the pool is being closed.
	ErrClosing = errors.New("the server stops")
)

// Spec describes the claimer and the tasks that it claims.
type Spec struct {
	// Owner is the principal; tasks of others are unknown to it.
	Owner login.Principal
	// Name names the process that claims.
	Name                            string
	Activities, Lanes, Capabilities []string
	// Slots is the most tasks at a time.
	Slots int
	// Lease is the duration of leases; 0 is the default of workers.
	Lease time.Duration
}

func (s Spec) key() string {
	parts := []string{s.Owner.ID(), s.Name, fmt.Sprint(s.Slots), s.Lease.String()}
	for _, list := range [][]string{s.Activities, s.Lanes, s.Capabilities} {
		parts = append(parts, fmt.Sprintf("%q", slices.Sorted(slices.Values(list))))
	}
	return strings.Join(parts, "\x00")
}

// Config configures a pool.
type Config struct {
	Engine *runtime.Engine
	// Logger receives why workers end; required.
	Logger *slog.Logger
	// Idle is how long a worker that neither claims nor holds tasks is kept.
	Idle time.Duration
	// Remember is how long the end of a task is known, so that a repeated call gets the reply of the first, and Ended
	// how many ends are: the oldest are forgotten.
	Remember time.Duration
	Ended    int
}

// Pool holds workers and their tasks. It is safe for concurrent use.
type Pool struct {
	config  Config
	running sync.WaitGroup
	count   *bounds.Pool

	mu      sync.Mutex
	closing bool
	workers map[string]*worker
	tasks   map[string]*Task
	// ended are the tasks that have ended, the oldest first; whole are those whose runtime.Task is kept. sweep forgets
	// them after a time.
	ended, whole list.List
	sweep        *time.Timer
}

// Defaults of Config.
const (
	defaultIdle     = 2 * time.Minute
	defaultRemember = 10 * time.Minute
	defaultEnded    = 10_000
	defaultSlots    = 16
	// maxWhole bounds the tasks that have ended, but not by a call, such as cancelled ones: a worker may still be at
	// them, so they are kept with their inputs.
	maxWhole = 1000
	// maxWorkers bounds the workers of a server, maxOfOne the workers of one principal.
	maxWorkers = 2000
	maxOfOne   = 1000
)

// New returns an empty pool.
func New(config Config) *Pool {
	if config.Idle == 0 {
		config.Idle = defaultIdle
	}
	if config.Remember == 0 {
		config.Remember = defaultRemember
	}
	if config.Ended == 0 {
		config.Ended = defaultEnded
	}
	p := &Pool{
		config: config, count: bounds.New("too_many_workers", "workers that call over HTTP", maxWorkers, maxOfOne),
		workers: map[string]*worker{}, tasks: map[string]*Task{},
	}
	p.sweep = time.AfterFunc(config.Remember, p.forgetOld)
	p.sweep.Stop()
	return p
}

// worker is the runtime.Worker of a caller. The mutex of the pool guards busy and idle.
type worker struct {
	key    string
	worker *runtime.Worker
	stop   context.CancelFunc
	// done is closed when the worker has ended; err is valid then.
	done chan struct{}
	err  error
	// busy counts the claims that wait and the tasks that are held.
	busy int
	idle *time.Timer
}

// enter returns the worker of a spec, which it starts if it does not run. The caller calls leave. The error is a
// *bounds.Full if there are as many workers as may be.
func (p *Pool) enter(spec Spec) (*worker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return nil, ErrClosing
	}
	key := spec.key()
	w := p.workers[key]
	if w == nil {
		var err error
		if w, err = p.start(key, spec); err != nil {
			return nil, err
		}
		p.workers[key] = w
	}
	w.busy++
	w.idle.Stop()
	return w, nil
}

// start starts a worker. The caller holds the lock.
func (p *Pool) start(key string, spec Spec) (*worker, error) {
	if spec.Slots == 0 {
		spec.Slots = defaultSlots
	}
	leave, err := p.count.Enter(spec.Owner)
	if err != nil {
		return nil, err
	}
	made, err := runtime.NewWorker(p.config.Engine, runtime.WorkerConfig{
		Name: spec.Name, TaskKinds: spec.Activities, Lanes: spec.Lanes, Capabilities: spec.Capabilities,
		Concurrency: spec.Slots, Lease: spec.Lease, ManualRenewal: true,
		Grace: -1, // clients cannot call a server that stops
	})
	if err != nil {
		leave()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{key: key, worker: made, stop: stop, done: make(chan struct{})}
	w.idle = time.AfterFunc(p.config.Idle, func() { p.endIdle(w) })
	p.running.Go(func() {
		defer leave()
		defer stop()
		w.err = made.Run(ctx)
		if w.err != nil {
			p.config.Logger.Warn("a worker that calls over HTTP has ended", "event", "server.worker_ended",
				"worker", string(made.Instance()), "error", w.err)
		}
		p.forget(w)
		close(w.done)
	})
	return w, nil
}

// forget removes a worker that ends.
func (p *Pool) forget(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers[w.key] == w {
		delete(p.workers, w.key)
	}
	w.idle.Stop()
}

func (p *Pool) endIdle(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.busy == 0 && p.workers[w.key] == w {
		delete(p.workers, w.key)
		w.stop()
	}
}

func (p *Pool) leave(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.busy--; w.busy == 0 && p.workers[w.key] == w {
		w.idle.Reset(p.config.Idle)
	}
}

// Claim waits for a task until ctx ends. It returns the instance of the worker, and no task if none came in time. The
// error matches ErrDraining, ErrClosing, or runtime.ErrInvalid with all faults of the spec.
func (p *Pool) Claim(ctx context.Context, spec Spec) (instance string, t *Task, err error) {
	w, err := p.enter(spec)
	if err != nil {
		return "", nil, err
	}
	instance = string(w.worker.Instance())
	claimed, err := w.worker.Next(ctx)
	if err == nil {
		if t, err = p.hold(spec.Owner.ID(), w, claimed); err == nil {
			return instance, t, nil
		}
	}
	p.leave(w)
	switch {
	case errors.Is(err, runtime.ErrStopping):
		return instance, nil, p.whyStopped(w)
	case ctx.Err() != nil:
		return instance, nil, nil
	}
	return instance, nil, err
}

// whyStopped returns the reason why a worker hands out no more tasks.
func (p *Pool) whyStopped(w *worker) error {
	p.mu.Lock()
	closing := p.closing
	p.mu.Unlock()
	if closing {
		return ErrClosing
	}
	select {
	case <-w.done:
		if w.err != nil {
			return w.err
		}
		return ErrClosing
	default:
		return fmt.Errorf("%w: %s", ErrDraining, w.worker.Instance())
	}
}

// hold adds a claimed task, which counts for its worker until it ends.
func (p *Pool) hold(owner string, w *worker, claimed *runtime.Task) (*Task, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	t := &Task{Task: claimed, Token: hex.EncodeToString(random[:]), owner: owner, pool: p, worker: w}
	p.mu.Lock()
	p.tasks[t.Token] = t
	p.mu.Unlock()
	t.unwatch = context.AfterFunc(claimed.Context(), t.contextEnded)
	return t, nil
}

// Find returns the task of a token. The error matches ErrUnknown if the owner has none with it, or is an *Over for a
// task that has ended.
func (p *Pool) Find(owner, token string) (*Task, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[token]
	switch {
	case t == nil || t.owner != owner:
		return nil, ErrUnknown
	case t.over != nil:
		return nil, t.over
	}
	return t, nil
}

// Close ends the workers, which release their tasks, and waits for them.
func (p *Pool) Close() {
	p.Stop()
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep.Stop()
	p.ended.Init()
	p.whole.Init()
	clear(p.tasks)
}

// Stop ends the workers without waiting for them. Claims that wait end with ErrClosing.
func (p *Pool) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
	for _, w := range p.workers {
		w.idle.Stop()
		w.stop()
	}
}

// Settlement is the way in which a caller has ended a task.
type Settlement string

// Settlements.
const (
	Completed Settlement = "it is completed"
	Failed    Settlement = "it has failed"
	Suspended Settlement = "it waits"
	Released  Settlement = "it is released"
)

// Answer is the answer to a caller that settles a task.
type Answer struct {
	// Retries reports, of a failed one, whether it runs again.
	Retries bool
	// Token answers the wait of a suspended one.
	Token activity.Token
}

// Over is the error of a task that has ended: all that is known of it.
type Over struct {
	// Settlement is how the caller has ended it, with its answer; empty if it did not.
	Settlement Settlement
	Answer     Answer
	// Cause is why it has ended otherwise.
	Cause error
}

// Error returns how the task has ended.
func (o *Over) Error() string {
	if o.Settlement == "" {
		return o.Cause.Error()
	}
	return fmt.Sprintf("%s: %s", runtime.ErrTaskSettled, string(o.Settlement))
}

// Unwrap returns the cause, or runtime.ErrTaskSettled.
func (o *Over) Unwrap() error {
	if o.Settlement == "" {
		return o.Cause
	}
	return runtime.ErrTaskSettled
}

// Task is a task of a caller. Its end is known for some time.
type Task struct {
	*runtime.Task
	Token   string
	owner   string
	pool    *Pool
	worker  *worker
	unwatch func() bool

	// The mutex of the pool guards the rest. over is set once only the end is kept: the pool has another Task then.
	// inEnded and inWhole are its elements in the lists of the pool, since endedAt.
	over             *Over
	inEnded, inWhole *list.Element
	endedAt          time.Time
}

// Settled records the answer to a settlement of the task. Unless the task stays open, the pool keeps only that answer
// from then on.
func (t *Task) Settled(how Settlement, answer Answer, err error) {
	over := &Over{Settlement: how, Answer: answer}
	if err != nil {
		if over = overBy(context.Cause(t.Context())); over == nil && errors.Is(err, runtime.ErrLeaseLost) {
			over = &Over{Cause: err}
		}
	}
	if over != nil {
		t.unwatch()
		t.end(over)
	}
}

// overBy returns the end of a task whose context has ended by the cause, regardless of further calls; nil if a
// settlement of it may be under way.
func overBy(cause error) *Over {
	for _, end := range []error{
		runtime.ErrLeaseLost, runtime.ErrCancelled, runtime.ErrDeadline, runtime.ErrStartToClose,
		runtime.ErrHeartbeatTimeout,
	} {
		if errors.Is(cause, end) {
			return &Over{Cause: cause}
		}
	}
	return nil
}

// contextEnded is called when the context of a task has ended, but not by a call. Unless the lease is lost, a worker
// may still work on it, and reports by its next call that it has stopped: the task is kept for that call.
func (t *Task) contextEnded() {
	var over *Over
	if cause := context.Cause(t.Context()); errors.Is(cause, runtime.ErrLeaseLost) {
		over = &Over{Cause: cause}
	}
	t.end(over)
}

// end counts the task no more for its worker, and lets it be forgotten. Of a task that is over, only its end is kept.
func (t *Task) end(over *Over) {
	p := t.pool
	p.mu.Lock()
	first := t.endedAt.IsZero()
	if first {
		t.endedAt = time.Now()
	}
	if !p.closing && (first || p.tasks[t.Token] == t) {
		p.remember(t, over)
	}
	p.mu.Unlock()
	if first {
		p.leave(t.worker)
	}
}

// remember keeps a task that has ended: all of it, or how it has. The caller holds the lock.
func (p *Pool) remember(t *Task, over *Over) {
	kept := t
	if over != nil {
		if t.inWhole != nil {
			p.whole.Remove(t.inWhole)
		}
		kept = &Task{Token: t.Token, owner: t.owner, over: over, inEnded: t.inEnded, endedAt: t.endedAt}
		p.tasks[t.Token] = kept
	} else {
		t.inWhole = p.whole.PushBack(t)
	}
	if kept.inEnded == nil {
		kept.inEnded = p.ended.PushBack(kept)
	} else {
		kept.inEnded.Value = kept
	}
	for p.whole.Len() > maxWhole {
		p.drop(p.whole.Front().Value.(*Task))
	}
	for p.ended.Len() > p.config.Ended {
		p.drop(p.ended.Front().Value.(*Task))
	}
	p.sweepLater()
}

// drop forgets a task that has ended. The caller holds the lock.
func (p *Pool) drop(t *Task) {
	delete(p.tasks, t.Token)
	p.ended.Remove(t.inEnded)
	if t.inWhole != nil {
		p.whole.Remove(t.inWhole)
	}
}

// sweepLater sets the time at which the first task is forgotten. The caller holds the lock.
func (p *Pool) sweepLater() {
	if first := p.ended.Front(); first != nil && !p.closing {
		p.sweep.Reset(time.Until(first.Value.(*Task).endedAt.Add(p.config.Remember)))
	}
}

// forgetOld forgets the tasks whose end was long ago.
func (p *Pool) forgetOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for first := p.ended.Front(); first != nil; first = p.ended.Front() {
		t := first.Value.(*Task)
		if time.Since(t.endedAt) < p.config.Remember {
			break
		}
		p.drop(t)
	}
	p.sweepLater()
}
