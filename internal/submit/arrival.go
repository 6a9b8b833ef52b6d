package submit

import (
	"fmt"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Outcomes of the start of a run with an arrival.
const (
	joined       = "joined"
	keyTaken     = "run_key_taken"
	keyFull      = "run_key_full"
	throttled    = "throttled"
	debounceFull = "debounce_full"
)

// arrivalError is the error of a run that was refused by its arrival.
func arrivalError(plan *RunPlan, o enginerpc.SubmissionOutcome) error {
	switch o.Code {
	case keyTaken:
		return &fabrictype.KeyTakenError{Key: plan.Arrival.Key, Run: o.What}
	case keyFull:
		return fmt.Errorf("%w: the queue of key %q has %s runs", engine.ErrTooLarge, plan.Arrival.Key, o.Stored)
	case throttled:
		ms, _ := strconv.ParseInt(o.Stored, 10, 64)
		return &fabrictype.ThrottledError{Key: plan.Arrival.Key, Until: time.UnixMilli(ms)}
	}
	if o.Given == "bytes" {
		return fmt.Errorf("%w: run %s of key %q would have an input of %s bytes, at most %d are allowed",
			engine.ErrTooLarge, o.What, plan.Arrival.Key, o.Stored, MaxInput)
	}
	return fmt.Errorf("%w: run %s of key %q has %s inputs", engine.ErrTooLarge, o.What, plan.Arrival.Key, o.Stored)
}

// SetArrival makes a plan start by a key. The plan must be in the partition of the key.
func (p *RunPlan) SetArrival(a enginerpc.SubmitArrival) error {
	if len(p.ownBudgets()) > 0 && a.Quiet > 0 {
		return fmt.Errorf("%w: flow %s: debounce: its budgets take their keys from the input, which is replaced",
			engine.ErrInvalid, p.Flow)
	}
	p.Arrival = &a
	return nil
}

// KeyOf returns the id of a key of a flow, and the partition in which its runs are.
func (s *Submitter) KeyOf(flowName, key string) (keyspace.RunKeyID, keyspace.Partition, error) {
	id := keyspace.RunKeyIDFor(s.session.Namespace, flowName, key)
	partition, err := s.session.Core.Partitioning().RunKeyPartition(id)
	return id, partition, err
}

// NextIn returns an id for a run of a flow that leads into a partition.
func (a *runIDAllocator) NextIn(flowName string, wanted keyspace.Partition) string {
	partitions := a.session.Core.Partitioning()
	partitionOf := func(id string) int {
		return int(partitions.FlowPartitionFor(a.session.Namespace, flowName, id).Index)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	pool := a.pool(flowName, partitions.Flow)
	for { // each round finds one with a probability of at least 1 %
		if id := pool.take(int(wanted.Index), partitionOf); partitionOf(id) == int(wanted.Index) {
			return id
		}
	}
}
