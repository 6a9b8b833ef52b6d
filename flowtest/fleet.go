package flowtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Flow is a definition of package flow, of any types.
type Flow interface {
	Name() string
	Hash() string
	Handlers() []activity.Handler
	Outline() string
	Internal() flowgraph.Handle
}

// fleet is the workers of a test.
type fleet struct {
	t *T

	mu      sync.Mutex
	members []*member
	all     demand // of all flows so far
	serial  int
	// concurrency is the concurrency of workers that are started from now on; 0 is the concurrency of the test's
	// config.
	concurrency int
	ended       bool
	leaving     sync.WaitGroup
}

// member is a worker with a separate connection.
type member struct {
	fleet  *fleet
	link   *link
	engine *runtime.Engine
	serves demand
	// instance is the name under which the engine lists the worker.
	instance enginecore.WorkerInstanceID
	stop     context.CancelFunc
	left     chan struct{} // closed when the worker has ended
}

// demand has the handlers, lanes and capabilities that flows need of workers.
type demand struct {
	handlers     map[string]activity.Handler
	lanes        map[string]bool
	capabilities map[string]bool
}

// demandOf returns the demand of a flow, with the flows inside it.
func demandOf(f Flow) demand {
	d := demand{make(map[string]activity.Handler), make(map[string]bool), make(map[string]bool)}
	for _, h := range f.Handlers() {
		d.handlers[h.Name()] = h
		// Activities of plans are in no graph yet.
		if lane := activityspec.OptionsOf(h.Internal()).Lane; lane != "" {
			d.lanes[lane] = true
		}
	}
	d.addGraph(flowgraph.Of(f.Internal()))
	return d
}

func (d *demand) addGraph(g *flowgraph.Graph) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Lane != "" {
			d.lanes[n.Lane] = true
		}
		for _, c := range n.Capabilities {
			d.capabilities[c] = true
		}
		if n.Sub != nil {
			d.addGraph(n.Sub)
		}
	}
}

// covers reports whether a worker that serves d also serves more.
func (d *demand) covers(more demand) bool {
	return containsKeys(d.handlers, more.handlers) && containsKeys(d.lanes, more.lanes) &&
		containsKeys(d.capabilities, more.capabilities)
}

func containsKeys[V any](all, some map[string]V) bool {
	for key := range some {
		if _, ok := all[key]; !ok {
			return false
		}
	}
	return true
}

// clone returns a copy that shares no map with d.
func (d *demand) clone() demand {
	return demand{maps.Clone(d.handlers), maps.Clone(d.lanes), maps.Clone(d.capabilities)}
}

// add adds the demand of more. Its handlers replace handlers of the same names.
func (d *demand) add(more demand) {
	if d.handlers == nil {
		*d = demand{make(map[string]activity.Handler), make(map[string]bool), make(map[string]bool)}
	}
	maps.Copy(d.handlers, more.handlers)
	maps.Copy(d.lanes, more.lanes)
	maps.Copy(d.capabilities, more.capabilities)
}

// Serve lets the workers run the activities of flows, whose runs the test does not begin by Start: runs of schedules,
// and runs that other code starts.
func (t *T) Serve(flows ...Flow) {
	t.Helper()
	for _, f := range flows {
		if err := t.fleet.serve(demandOf(f)); err != nil {
			t.Fatalf("flowtest: flow %s: %v", f.Name(), err)
		}
	}
	t.settled(t.fleet.areListed)
}

// areListed reports whether the engine lists all workers.
func (f *fleet) areListed() bool {
	listed, err := f.t.client.Workers(context.Background())
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(f.members, func(m *member) bool {
		return !slices.ContainsFunc(listed, func(w fabrictype.Worker) bool { return w.Instance == string(m.instance) })
	})
}

// serve starts a worker for a demand that no worker serves yet.
func (f *fleet) serve(more demand) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all.add(more)
	if slices.ContainsFunc(f.members, func(m *member) bool { return m.serves.covers(more) }) {
		return nil
	}
	return f.start(more)
}

// start starts a worker, unless there is nothing to run: a flow may have timers and waitpoints alone. The fleet is
// locked.
func (f *fleet) start(serves demand) error {
	if len(serves.handlers) == 0 {
		return nil
	}
	f.serial++
	m := &member{fleet: f, link: new(link), serves: serves, left: make(chan struct{})}
	engine, err := f.t.connect(m.link)
	if err != nil {
		return err
	}
	config := f.t.config.worker
	if config.Name == "" {
		config.Name = fmt.Sprint("worker-", f.serial)
	}
	if f.concurrency > 0 {
		config.Concurrency = f.concurrency
	}
	config.NoKeeper = true
	config.Lanes = union(config.Lanes, serves.lanes)
	config.Capabilities = union(config.Capabilities, serves.capabilities)
	worker, err := runtime.NewWorker(engine, config)
	if err == nil {
		err = worker.Register(m.handlers()...)
	}
	if err != nil {
		f.t.noteError("close the engine", engine.Close())
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	m.engine, m.stop, m.instance = engine, stop, worker.Instance()
	f.members = append(f.members, m)
	go func() {
		defer close(m.left)
		// Errors of a worker that the test has cut off are expected.
		if err := worker.Run(ctx); !m.link.isBroken() {
			f.t.noteError(config.Name, err)
		}
	}()
	return nil
}

func union(list []string, set map[string]bool) []string {
	out := slices.Clone(list)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// handlers are the handlers that the worker registers: they search for fakes and faults at each call.
func (m *member) handlers() []activity.Handler {
	var list []activity.Handler
	for _, name := range slices.Sorted(maps.Keys(m.serves.handlers)) {
		list = append(list, &handler{Handler: m.serves.handlers[name], member: m})
	}
	return list
}

// lose lets the worker die without a word, and starts another one in its place.
func (m *member) lose() {
	f := m.fleet
	m.link.cut()
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.members, m)
	if i < 0 || f.ended {
		return
	}
	f.members = slices.Delete(f.members, i, i+1)
	f.leaving.Go(m.end)
	if err := f.start(m.serves); err != nil {
		f.t.Errorf("flowtest: another worker in place of the lost one: %v", err)
	}
}

// scatter replaces all workers by a number of others that run one function at a time each, so that the death of one
// ends one attempt.
func (f *fleet) scatter(number int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.members
	f.members, f.concurrency = nil, 1
	for range number {
		if err := f.start(f.all.clone()); err != nil {
			return err
		}
	}
	for _, m := range before {
		f.leaving.Go(m.end)
	}
	return nil
}

// end ends the worker: at once if its link is cut.
func (m *member) end() {
	m.stop()
	if m.link.isBroken() {
		m.fleet.t.noteError("close the lost worker's engine", m.engine.Close())
		<-m.left
		return
	}
	<-m.left
	m.fleet.t.noteError("close the worker's engine", m.engine.Close())
}

func (l *link) isBroken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isCut
}

// end ends all workers.
func (f *fleet) end() {
	f.mu.Lock()
	f.ended = true
	members := f.members
	f.members = nil
	f.mu.Unlock()
	for _, m := range members {
		f.leaving.Go(m.end)
	}
	f.leaving.Wait()
}

// handlerOf is the handler of an activity as the flow that was served last has it.
func (f *fleet) handlerOf(name string) activity.Handler {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all.handlers[name]
}

// activities are the names of all activities that are served.
func (f *fleet) activities() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.all.handlers))
}
