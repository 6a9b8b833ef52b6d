package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// warmUp is how many runs of each kind go before those that count.
const warmUp = 20

// work is something that each system is measured with.
type work struct {
	name    string
	title   string
	unit    string
	chain   bool
	clients int
	// special is set if only systems on Valkey are measured with it.
	special bool
	size    int    // of inputs and results, in bytes; 0 is payloadSize
	slots   int    // functions at a time; 0 is the flag
	aof     string // when Valkey's append-only file is flushed; empty is without one
}

// works are in the order of the tables.
var works = []work{
	{name: "single", title: "single functions, 100 open", unit: "1/s", clients: clients},
	{name: "chain", title: "chains of ten, 100 open", unit: "1/s", chain: true, clients: clients},
	{name: "single-idle", title: "one function when idle, p50", unit: "ms", clients: 1},
	{name: "chain-idle", title: "one chain when idle, p50", unit: "ms", chain: true, clients: 1},
	special("one-slot", "one function at a time, 100 open", func(w *work) { w.slots = 1 }),
	special("1kb", "single functions, 1 KB", func(w *work) { w.size = 1_000 }),
	special("10kb", "single functions, 10 KB", func(w *work) { w.size = 10_000 }),
	special("100kb", "single functions, 100 KB", func(w *work) { w.size = 100_000 }),
	special("single-everysec", "single functions, AOF everysec", func(w *work) { w.aof = "everysec" }),
	special("chain-everysec", "chains of ten, AOF everysec", func(w *work) { w.aof, w.chain = "everysec", true }),
	special("single-always", "single functions, AOF always", func(w *work) { w.aof = "always" }),
	special("chain-always", "chains of ten, AOF always", func(w *work) { w.aof, w.chain = "always", true }),
}

// special is work of 100 clients that only systems on Valkey are measured with.
func special(name, title string, set func(*work)) work {
	w := work{name: name, title: title, unit: "1/s", clients: clients, special: true}
	set(&w)
	return w
}

func workNames() []string {
	var names []string
	for _, w := range works {
		names = append(names, w.name)
	}
	return names
}

func (w work) payloadSize() int { return cmp.Or(w.size, payloadSize) }

func (w work) steps() int {
	if w.chain {
		return chainSteps
	}
	return 1
}

// measurement has the figures of one kind of work.
type measurement struct {
	Runs     int     `json:"runs"`
	Repeated int     `json:"repeated"` // functions that were executed again
	Seconds  float64 `json:"seconds"`
	P50      float64 `json:"p50"` // ms
	P99      float64 `json:"p99"` // ms
}

// value is the figure of the tables.
func (w work) value(m measurement) float64 {
	if w.unit == "ms" {
		return m.P50
	}
	return float64(m.Runs) / m.Seconds
}

// result has the figures of one system.
type result struct {
	System   string                 `json:"system"`
	Works    map[string]measurement `json:"works"`
	Idle     *idle                  `json:"idle,omitempty"`
	Versions []string               `json:"versions"`
}

// measureSystem measures one system once.
func measureSystem(ctx context.Context, s settings) (r result, err error) {
	p, err := peerNamed(s.measure)
	if err != nil {
		return r, err
	}
	r = result{System: p.name, Works: make(map[string]measurement)}
	var left []work
	for _, w := range works {
		if slices.Contains(s.works, w.name) && !p.lacksWork(w.name) {
			left = append(left, w)
		}
	}
	for len(left) > 0 {
		var alike, others []work
		for _, w := range left {
			if w.slots == left[0].slots && w.aof == left[0].aof {
				alike = append(alike, w)
			} else {
				others = append(others, w)
			}
		}
		if err := r.measure(ctx, s, p, alike); err != nil {
			return r, err
		}
		left, s.idleTime = others, 0
	}
	return r, nil
}

// measure runs a system with the slots and the durability of some kinds of work, and measures it with these.
func (r *result) measure(ctx context.Context, s settings, p peer, alike []work) (err error) {
	s.slots, s.aof = cmp.Or(alike[0].slots, s.slots), alike[0].aof
	j := newJournal()
	sys, err := p.start(ctx, s, j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close()) }()
	if r.Versions, err = sys.Versions(ctx); err != nil {
		return err
	}
	first := 0
	for _, w := range alike {
		m, err := measureWork(ctx, s, sys, j, w, first)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		r.Works[w.name] = m
		first += warmUp + m.Runs
	}
	if s.idleTime > 0 {
		r.Idle, err = measureIdle(ctx, s.idleTime)
	}
	return err
}

// measureWork loads a system. The time ends when the last run has, and the server knows it.
func measureWork(
	ctx context.Context, s settings, sys system, j *journal, w work, first int,
) (m measurement, err error) {
	do := func(run int) error { return once(ctx, sys, w, first+run) }
	for i := range warmUp {
		if err := do(i); err != nil {
			return m, err
		}
	}
	begun := time.Now()
	times, err := load(w.clients, s.time, func(i int) error { return do(warmUp + i) })
	if err != nil {
		return m, err
	}
	if err := sys.Drain(ctx); err != nil {
		return m, err
	}
	m.Seconds = time.Since(begun).Seconds()
	m.Runs = int(times.TotalCount())
	m.P50, m.P99 = float64(times.ValueAtQuantile(50))/1000, float64(times.ValueAtQuantile(99))/1000
	m.Repeated, err = j.Check(first, warmUp+m.Runs, w.steps())
	return m, err
}

// once makes one run and checks its result, if the system has one.
func once(ctx context.Context, sys system, w work, run int) error {
	do := sys.Single
	if w.chain {
		do = sys.Chain
	}
	got, err := do(ctx, payload(run, 0, w.payloadSize()))
	if err != nil {
		return fmt.Errorf("run %d: %w", run, err)
	}
	if want := payload(run, w.steps(), w.payloadSize()); got != want {
		return fmt.Errorf("run %d: the result is %.20q, want %.20q", run, got, want)
	}
	return nil
}

// load makes runs for a time, and at least one, from several goroutines, each waiting for its run before it starts the
// next, and returns how many microseconds each took.
func load(clients int, duration time.Duration, run func(i int) error) (*hdrhistogram.Histogram, error) {
	var (
		mu     sync.Mutex
		faults []error
		next   int
		group  sync.WaitGroup
		times  = hdrhistogram.New(1, 600_000_000, 3)
		end    = time.Now().Add(duration)
	)
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		if len(faults) > 0 || next > 0 && !time.Now().Before(end) {
			return -1
		}
		next++
		return next - 1
	}
	for range clients {
		group.Go(func() {
			for i := take(); i >= 0; i = take() {
				begun := time.Now()
				err := run(i)
				took := time.Since(begun).Microseconds()
				mu.Lock()
				if err == nil {
					err = times.RecordValue(max(1, took))
				}
				if err != nil {
					faults = append(faults, err)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return times, errors.Join(faults...)
}
