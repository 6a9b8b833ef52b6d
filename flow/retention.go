package flow

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Outcome is the outcome of a run, or of an item of a Map.
type Outcome = flowgraph.Outcome

// The outcomes.
const (
	// Succeeded has the text "success". The state of a run with this outcome is fabrictype.RunSucceeded ("succeeded"),
	// that of a node fabrictype.NodeSucceeded ("completed").
	Succeeded = flowgraph.Succeeded
	Failed    = flowgraph.Failed
	Cancelled = flowgraph.Cancelled
	Expired   = flowgraph.Expired
	// Skipped is the outcome of an item of MapFlowOutcomes whose run has succeeded without a result. No run has it.
	Skipped = flowgraph.Skipped
)

// KeepForever is the retention of runs that are kept until RunRef.Purge removes them.
const KeepForever = flowgraph.KeepForever

// Retention sets how long runs are kept after they ended with one of the outcomes, or with any if none is named. Then
// the run is purged with its nodes, results and events. The default, and 0, is OpenConfig.Retention of
// package runtime; KeepForever is no end. At most 100 years. A later Retention replaces an earlier one for the outcomes
// that it names.
func Retention(keep time.Duration, outcomes ...Outcome) Option {
	return flowOption(func(b *builder) { b.graph.Keep = b.graph.Keep.With(keep, outcomes...) })
}
