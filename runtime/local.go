package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
)

// LocalConfig configures OpenLocal.
type LocalConfig struct {
	// URL selects the engine, as for Open. Defaults to an engine in this process, in memory.
	URL string
	// Activities are registered with the worker. At least one is needed.
	Activities []activity.Handler
	// Open configures the engine, Worker the worker.
	Open   OpenConfig
	Worker WorkerConfig
}

// Local is an engine with a client, a worker and a keeper in one process, for small programs and tests.
type Local struct {
	engine *Engine
	client *Client
	stop   context.CancelFunc
	tasks  sync.WaitGroup
	close  sync.Once

	mu     sync.Mutex
	faults []error
}

// OpenLocal opens the engine and starts a worker with its keeper. They run until Close; the end of ctx does not stop
// them. If the engine is in this process, the client of Local.Client refuses to start runs of which no worker of this
// program has the activities or serves the lanes: the error matches ErrInvalid and names them. A client of NewClient
// starts them; they wait for such a worker. The error is one of Open, NewWorker and Worker.Register.
func OpenLocal(ctx context.Context, config LocalConfig) (*Local, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	opened, err := Open(ctx, config.URL, config.Open)
	if err != nil {
		return nil, err
	}
	w, err := NewWorker(opened, config.Worker)
	if err == nil {
		err = w.Register(config.Activities...)
	}
	client, clientErr := NewClient(opened)
	if err := errors.Join(err, clientErr); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	if opened.session.InProcess != nil && err == nil {
		client.local = &localWorker{worker: w.worker}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &Local{engine: opened, client: client, stop: stop}
	l.tasks.Go(func() { l.note(w.Run(running)) })
	return l, nil
}

// check returns the faults that would show only once the engine is open, joined.
func (c *LocalConfig) check() error {
	var faults []error
	if len(c.Activities) == 0 {
		faults = append(faults, invalid("Activities: at least one is needed"))
	}
	_, err := c.Worker.resolve("Worker.")
	return errors.Join(append(faults, err)...)
}

func (l *Local) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.faults = append(l.faults, err)
	}
}

// Engine returns the engine, which Local.Close closes. It returns nil if l is nil.
func (l *Local) Engine() *Engine {
	if l == nil {
		return nil
	}
	return l.engine
}

// Client returns the client, which Local.Close closes. It returns nil if l is nil; calls of a nil client return an
// error.
func (l *Local) Client() *Client {
	if l == nil {
		return nil
	}
	return l.client
}

// Stop stops the worker and its keeper, as Worker.Run describes. Engine and client remain usable until Close.
func (l *Local) Stop() {
	if l == nil || l.engine == nil {
		return
	}
	l.stop()
	l.tasks.Wait()
}

// Close stops the worker as Worker.Run describes, with its keeper, then the client and the engine. It joins the errors
// of all of them. Further calls return the same.
func (l *Local) Close() error {
	if l == nil || l.engine == nil {
		return nil
	}
	l.close.Do(func() {
		l.Stop()
		l.client.Close()
		l.note(l.engine.Close())
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.faults...)
}
