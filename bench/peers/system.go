package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// clients is how many goroutines submit work under load, each waiting for its own before it submits more.
	clients = 100
	// chainSteps is the number of functions of a chain, each with the result of the one before.
	chainSteps = 10
)

// flowFabric is the name of the system that the others are compared with.
const flowFabric = "flowfabric"

// system is a running system with its server, a client and a worker.
type system interface {
	// Single runs one function and returns its result, Chain ten of them. A queue has no results: there, the functions
	// report the end to the journal themselves.
	Single(ctx context.Context, input string) (string, error)
	Chain(ctx context.Context, input string) (string, error)
	// Drain waits until the server has recorded the end of all work. Only queues have some left.
	Drain(ctx context.Context) error
	// Versions returns the versions of the software that was measured.
	Versions(ctx context.Context) ([]string, error)
	// Close ends client, worker and server.
	Close() error
}

// peer is a system that can be measured.
type peer struct {
	name string
	// title is its name in the tables.
	title string
	// handMade is set if a chain consists of functions that submit the next one themselves.
	handMade bool
	// lacks are kinds of work that the system does not have, or that another variant of it measures.
	lacks []string
	// onValkey is set if the server is Valkey. The other systems are measured with the plain kinds of work only.
	onValkey bool
	start    func(ctx context.Context, s settings, j *journal) (system, error)
}

func peers() []peer {
	return []peer{
		{name: flowFabric, title: "FlowFabric", onValkey: true, start: startFlowFabric},
		{name: "asynq", title: "asynq", handMade: true, onValkey: true, start: startAsynq},
		{name: "go-workflows", title: "go-workflows", onValkey: true, start: startGoWorkflows},
		{name: "river", title: "River, synchronous_commit=off", handMade: true, start: startRiver(false)},
		{name: "river-fsync", title: "River, PostgreSQL's default", handMade: true, start: startRiver(true)},
		{name: "temporal", title: "Temporal", start: startTemporal(ordinary)},
		{name: "temporal-local", title: "Temporal, local activities", start: startTemporal(local)},
		{
			name: "temporal-standalone", title: "Temporal, standalone activities",
			lacks: []string{"chain", "chain-idle"}, start: startTemporal(standalone),
		},
	}
}

// peerNames are the systems to compare FlowFabric with.
func peerNames() []string {
	var names []string
	for _, p := range peers() {
		if p.name != flowFabric {
			names = append(names, p.name)
		}
	}
	return names
}

// lacksWork reports whether the system is not measured with a kind of work.
func (p peer) lacksWork(name string) bool {
	i := slices.IndexFunc(works, func(w work) bool { return w.name == name })
	return slices.Contains(p.lacks, name) || !p.onValkey && works[i].special
}

func peerNamed(name string) (peer, error) {
	all := peers()
	i := slices.IndexFunc(all, func(p peer) bool { return p.name == name })
	if i < 0 {
		return peer{}, fmt.Errorf("there is no system %q", name)
	}
	return all[i], nil
}

// settleTime is how long a system has no work before it is measured. FlowFabric's workers rest by then.
const settleTime = 40 * time.Second

// idle is the cost of a system without work, in percent of a processor.
type idle struct {
	Program float64 `json:"program"` // this process: client and worker
	Server  float64 `json:"server"`
}

func measureIdle(ctx context.Context, duration time.Duration) (*idle, error) {
	if err := pause(ctx, settleTime); err != nil {
		return nil, err
	}
	own, servers, err := usage()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := pause(ctx, duration); err != nil {
		return nil, err
	}
	ownAfter, serversAfter, err := usage()
	if err != nil {
		return nil, err
	}
	took := time.Since(begun)
	percent := func(used time.Duration) float64 { return 100 * used.Seconds() / took.Seconds() }
	return &idle{Program: percent(ownAfter - own), Server: percent(serversAfter - servers)}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
