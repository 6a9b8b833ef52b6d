package taskpool

import (
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

	"github.com/flowfabric/flowfabric-go/runtime"
)

// Errors of the pool, for errors.Is.
var (
	// ErrDraining is returned by Claim for a worker that an operator has told to take no more work.
	ErrDraining = errors.New("the worker drains: it takes no more work")
	// ErrUnknown is returned for a token that names no task of the caller on this server.
	ErrUnknown = errors.New("the lease of the task is not held: it has ended, or another server or a former start of " +
		"this one had claimed it; another worker may have the node")
	// ErrClosing is returned when the pool is being closed.
	ErrClosing = errors.New("the server stops")
)

// Spec says who claims, and what.
type Spec struct {
	// Owner is the principal; tasks of others are unknown to it.
	Owner string
	// Name names the process that claims.
	Name                            string
	Activities, Lanes, Capabilities []string
	// Slots is the most tasks at a time.
	Slots int
	// Lease is the duration of leases; 0 is the default of workers.
	Lease time.Duration
}

func (s Spec) key() string {
	parts := []string{s.Owner, s.Name, fmt.Sprint(s.Slots), s.Lease.String()}
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
	// Remember is how long a task is known after its end, so that a repeated call gets the reply of the first.
	Remember time.Duration
}

// Pool holds workers and their tasks. It is safe for concurrent use.
type Pool struct {
	config  Config
	running sync.WaitGroup

	mu      sync.Mutex
	closing bool
	workers map[string]*worker
	tasks   map[string]*Task
	timers  map[*time.Timer]struct{}
}

// Defaults of Config.
const (
	defaultIdle     = 2 * time.Minute
	defaultRemember = 10 * time.Minute
	defaultSlots    = 16
)

// New returns an empty pool.
func New(config Config) *Pool {
	if config.Idle == 0 {
		config.Idle = defaultIdle
	}
	if config.Remember == 0 {
		config.Remember = defaultRemember
	}
	return &Pool{
		config: config, workers: map[string]*worker{}, tasks: map[string]*Task{}, timers: map[*time.Timer]struct{}{},
	}
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

// enter returns the worker of a spec, which it starts if it does not run. The caller calls leave.
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
	made, err := runtime.NewWorker(p.config.Engine, runtime.WorkerConfig{
		Name: spec.Name, TaskKinds: spec.Activities, Lanes: spec.Lanes, Capabilities: spec.Capabilities,
		Concurrency: spec.Slots, Lease: spec.Lease, ManualRenewal: true,
		Grace: -1, // nobody can call a server that stops
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{key: key, worker: made, stop: stop, done: make(chan struct{})}
	w.idle = time.AfterFunc(p.config.Idle, func() { p.endIdle(w) })
	p.running.Go(func() {
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
		if t, err = p.hold(spec.Owner, w, claimed); err == nil {
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

// whyStopped says why a worker hands out no more tasks.
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
	t.unwatch = context.AfterFunc(claimed.Context(), t.end)
	return t, nil
}

// Find returns the task of a token. The error matches ErrUnknown if the owner has none with it.
func (p *Pool) Find(owner, token string) (*Task, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[token]
	if t == nil || t.owner != owner {
		return nil, ErrUnknown
	}
	return t, nil
}

// Close ends the workers, which release their tasks, and waits for them.
func (p *Pool) Close() {
	p.Stop()
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for timer := range p.timers {
		timer.Stop()
	}
	clear(p.timers)
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

// Task is a task of a caller. It is known until some time after its end.
type Task struct {
	*runtime.Task
	Token   string
	owner   string
	pool    *Pool
	worker  *worker
	unwatch func() bool
	ended   sync.Once
}

// Settled records that a settlement of the task has an answer: unless the task stays open, it is forgotten after some
// time.
func (t *Task) Settled(err error) {
	if err == nil || errors.Is(err, runtime.ErrLeaseLost) {
		t.unwatch()
		t.end()
	}
}

// end counts the task no more for its worker, and lets it be forgotten.
func (t *Task) end() {
	t.ended.Do(func() {
		p := t.pool
		p.leave(t.worker)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closing {
			return
		}
		var timer *time.Timer
		timer = time.AfterFunc(p.config.Remember, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.tasks, t.Token)
			delete(p.timers, timer)
		})
		p.timers[timer] = struct{}{}
	})
}
