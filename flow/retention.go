package flow

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Outcome is the outcome of a run, or of an item of a Map.
type Outcome string

// The outcomes.
const (
	// Succeeded has the text "success". The state of a run with this outcome is fabrictype.RunSucceeded ("succeeded"),
	// and the state of a node fabrictype.NodeSucceeded ("completed").
	Succeeded Outcome = "success"
	Failed    Outcome = "failed"
	Cancelled Outcome = "cancelled"
	Expired   Outcome = "expired"
	// Skipped is the outcome of an item of MapFlowOutcomes whose run has succeeded without a result. No run has it.
	Skipped Outcome = "skipped"
)

// KeepForever is the retention of runs that are kept until RunRef.Purge removes them.
const KeepForever = flowgraph.KeepForever

// Retention sets how long runs are kept after they ended with one of the outcomes, or with any if none is named. Then
// the run is purged with its nodes, results and events. The default, and 0, is OpenConfig.Retention of
// package runtime; KeepForever keeps them without end. At most 100 years. A later Retention replaces an earlier one for
// the outcomes that it names.
func Retention(keep time.Duration, outcomes ...Outcome) Option {
	of := make([]flowgraph.Outcome, len(outcomes))
	for i, outcome := range outcomes {
		of[i] = flowgraph.Outcome(outcome)
	}
	return flowOption(func(b *builder) { b.graph.Keep = b.graph.Keep.With(keep, of...) })
}
