package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/bounds"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// Errors of the registry, for errors.Is.
var (
	// ErrNotFound is returned for a registration that does not exist.
	ErrNotFound = errors.New("no such push worker")
	// ErrURL is returned for a URL to which this server sends nothing.
	ErrURL = errors.New("the server sends no tasks to this URL")
)

// Tasks performs operations of tasks as the principal of the context.
type Tasks interface {
	ClaimTask(context.Context, *httpapi.ClaimTaskInput) (*api.ClaimedTask, error)
	RenewTask(context.Context, *httpapi.TaskInput) (*api.RenewedTask, error)
	CompleteTask(context.Context, *httpapi.CompleteTaskInput) (*httpapi.Empty, error)
	FailTask(context.Context, *httpapi.FailTaskInput) (*httpapi.FailedTask, error)
	SuspendTask(context.Context, *httpapi.SuspendTaskInput) (*httpapi.SuspendedTask, error)
	ReleaseTask(context.Context, *httpapi.TaskInput) (*httpapi.Empty, error)
}

// Config configures a registry.
type Config struct {
	Tasks Tasks
	// Allow are the origins to which tasks may be sent, such as https://host:8443. Without any, nothing is sent.
	Allow  []string
	Logger *slog.Logger
}

const (
	defaultSlots = 16
	defaultLease = 30 * time.Second
	defaultLasts = time.Hour
	// maxWorkers bounds the registrations of a server, maxOfOne the registrations of one principal.
	maxWorkers = 1000
	maxOfOne   = 100
)

// Registry has the registrations of a server. It is safe for concurrent use.
type Registry struct {
	config  Config
	client  *http.Client
	running sync.WaitGroup
	count   *bounds.Pool

	mu      sync.Mutex
	closed  bool
	workers map[key]*worker
}

// key identifies a registration: each principal has its own names. The owner is the ID of the principal: one of
// another kind of login may have the same name.
type key struct{ owner, name string }

// New returns an empty registry.
func New(config Config) *Registry {
	return &Registry{
		config: config, workers: map[key]*worker{},
		count: bounds.New("too_many_push_workers", "push workers", maxWorkers, maxOfOne),
		client: &http.Client{
			Transport: &http.Transport{MaxIdleConnsPerHost: defaultSlots, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // another host may not be allowed
			},
		},
	}
}

// allows returns an error that matches ErrURL for a URL to which nothing is sent.
func (r *Registry) allows(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%w: %.80q: must be such as https://host/path", ErrURL, address)
	}
	if !slices.Contains(r.config.Allow, u.Scheme+"://"+u.Host) {
		return fmt.Errorf("%w: its configuration does not allow %s", ErrURL, u.Scheme+"://"+u.Host)
	}
	return nil
}

// Register adds a registration, or replaces the one of that name. The context carries the principal.
func (r *Registry) Register(
	ctx context.Context, owner login.Principal, in *httpapi.RegisterPushWorkerInput,
) (api.PushWorker, error) {
	b := &in.Body
	if err := r.allows(b.URL); err != nil {
		return api.PushWorker{}, err
	}
	if b.Slots == 0 {
		b.Slots = defaultSlots
	}
	if b.Lease.Duration == 0 {
		b.Lease.Duration = defaultLease
	}
	if b.Lasts.Duration == 0 {
		b.Lasts.Duration = defaultLasts
	}
	until := time.Now().Add(b.Lasts.Duration)
	valid, release := login.Detach(ctx)
	running, stop := context.WithDeadline(valid, until)
	w := &worker{
		registry: r, stop: stop, in: *in, slots: make(chan struct{}, b.Slots),
		about: api.PushWorker{
			Worker: in.Worker, Principal: owner.Name, Login: string(owner.Kind), URL: b.URL, Activities: b.Activities,
			ExpiresAt: until.UTC(),
		},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{owner.ID(), in.Worker}
	former := r.workers[k]
	err := error(nil)
	switch {
	case r.closed:
		err = fmt.Errorf("%w: it stops", ErrURL)
	case former != nil:
		former.stop()
		w.leave, former.leave = former.leave, func() {}
	default:
		w.leave, err = r.count.Enter(owner)
	}
	if err != nil {
		stop()
		release()
		return api.PushWorker{}, err
	}
	r.workers[k] = w
	r.running.Go(func() {
		defer release()
		defer stop()
		w.run(running, valid)
		r.forget(k, w)
	})
	return w.about, nil
}

func (r *Registry) forget(k key, w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers[k] == w {
		delete(r.workers, k)
	}
	w.leave()
}

// Remove ends a registration of a principal. Requests that are under way continue.
func (r *Registry) Remove(owner login.Principal, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{owner.ID(), name}
	w := r.workers[k]
	if w == nil {
		return fmt.Errorf("%w: %.80q", ErrNotFound, name)
	}
	delete(r.workers, k)
	w.stop()
	return nil
}

// List returns the registrations, by name.
func (r *Registry) List() []api.PushWorker {
	r.mu.Lock()
	list := make([]api.PushWorker, 0, len(r.workers))
	for _, w := range r.workers {
		list = append(list, w.describe())
	}
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b api.PushWorker) int {
		return cmp.Or(strings.Compare(a.Worker, b.Worker), strings.Compare(a.Principal, b.Principal),
			strings.Compare(a.Login, b.Login))
	})
	return list
}

// Stop ends all registrations without waiting.
func (r *Registry) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, w := range r.workers {
		w.stop()
	}
}

// Close ends all registrations and waits for the requests that are under way.
func (r *Registry) Close() {
	r.Stop()
	r.running.Wait()
	r.client.CloseIdleConnections()
}
