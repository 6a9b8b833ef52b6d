package submit

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
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

// ArrivalPolicy is the treatment of a run by the other runs with its key: [AtOnce], [Throttled] or [Debounced].
type ArrivalPolicy func(*enginerpc.SubmitArrival)

// AtOnce bounds the open runs of a key; with 0, only uniqueFor counts. whenTaken is the treatment of others.
func AtOnce(atOnce int, whenTaken string, uniqueFor time.Duration) ArrivalPolicy {
	return func(a *enginerpc.SubmitArrival) {
		a.AtOnce, a.WhenTaken, a.UniqueFor = int64(atOnce), whenTaken, activityspec.Milliseconds(uniqueFor)
	}
}

// Window is a number of starts in any span of a length.
type Window struct {
	Starts int
	Per    time.Duration
}

// Throttled bounds the starts of a key by all windows: it refuses or puts off others.
func Throttled(windows []Window, refuse bool) ArrivalPolicy {
	return func(a *enginerpc.SubmitArrival) {
		texts := make([]string, len(windows))
		for i, w := range windows {
			texts[i] = fmt.Sprintf("%d/%d", w.Starts, activityspec.Milliseconds(w.Per).Milliseconds())
		}
		a.Windows, a.WhenMany = strings.Join(texts, ","), "delay"
		if refuse {
			a.WhenMany = "reject"
		}
	}
}

// Debounced makes one run of all calls that come within quiet of each other, at the latest atMost after the first one.
// Unless maxInputs is 0, the run gets the inputs of all of them, up to that many.
func Debounced(quiet, atMost time.Duration, maxInputs int) ArrivalPolicy {
	return func(a *enginerpc.SubmitArrival) {
		a.CallID = uuid.NewString()
		a.Quiet, a.AtMost = activityspec.Milliseconds(quiet), activityspec.Milliseconds(atMost)
		a.MaxInputs = int64(maxInputs)
	}
}

// setArrival makes a plan start by a key. The plan must be in the partition of the key.
func (p *RunPlan) setArrival(a *enginerpc.SubmitArrival) error {
	if a.MaxInputs > 0 {
		if err := checkCollected(p.Compiled.Graph.Codec, p.Input); err != nil {
			return fmt.Errorf("flow %s: start: %w", p.Flow, err)
		}
	}
	if len(p.ownBudgets()) > 0 && a.Quiet > 0 {
		return fmt.Errorf("start run: %w: flow %s: debounce: its budgets take their keys from the input, which is replaced",
			engine.ErrInvalid, p.Flow)
	}
	p.Arrival = a
	return nil
}

// checkCollected returns the reason why an input cannot be gathered with others.
func checkCollected(codec string, input []byte) error {
	var elements []json.RawMessage
	if codec != "" && codec != StoredJSONCodec {
		return engine.Invalid("debounce: inputs are collected only with the codec json, not %q", codec)
	}
	if err := json.Unmarshal(input, &elements); err != nil || len(elements) != 1 {
		return engine.Invalid("debounce: the input must be a list of one element to be collected")
	}
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
	partitionOf := a.partitionsOf(flowName)
	a.mu.Lock()
	defer a.mu.Unlock()
	pool := a.pool(flowName, a.session.Core.Partitioning().Flow)
	for { // each round finds one with a probability of at least 1 %
		if id := pool.take(int(wanted.Index), partitionOf); partitionOf(id) == int(wanted.Index) {
			return id.String()
		}
	}
}

// ReadKey returns the open and the queued runs of a flow with a key. A key without runs has the zero state.
func (s *Submitter) ReadKey(
	ctx context.Context, store engine.Library, flowName, key string,
) (fabrictype.KeyState, error) {
	id, partition, err := s.KeyOf(flowName, key)
	if err != nil {
		return fabrictype.KeyState{}, err
	}
	reply, err := store.ReadRunKey(ctx, enginerpc.ReadRunKeyCall{Partition: partition, RunKeyID: id})
	if err != nil {
		return fabrictype.KeyState{}, err
	}
	state := fabrictype.KeyState{
		Open: keyedRuns(reply.Open), Queued: keyedRuns(reply.Queued), OpenCount: int(reply.OpenCount),
		QueuedCount: int(reply.QueuedCount), First: keyedRun(reply.First), Debounced: keyedRun(reply.Pending),
	}
	for _, start := range reply.Starts {
		state.Starts = append(state.Starts, start.At)
	}
	return state, nil
}

func keyedRuns(list []enginerpc.KeyedRun) []fabrictype.KeyedRun {
	var runs []fabrictype.KeyedRun
	for _, r := range list {
		runs = append(runs, fabrictype.KeyedRun{Run: r.RunID, At: r.At})
	}
	return runs
}

func keyedRun(list []enginerpc.KeyedRun) *fabrictype.KeyedRun {
	if runs := keyedRuns(list); len(runs) > 0 {
		return &runs[0]
	}
	return nil
}
