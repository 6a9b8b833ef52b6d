package flow

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Outcome is the outcome of a run, or of an item of a Map.
type Outcome = flowgraph.Outcome

// The outcomes.
const (
	Succeeded = flowgraph.Succeeded
	Failed    = flowgraph.Failed
	Cancelled = flowgraph.Cancelled
	Expired   = flowgraph.Expired
)

// KeepForever is the retention of runs that are kept until RunRef.Purge removes them.
const KeepForever = flowgraph.KeepForever

// ErrRetention marks a retention that is too long or negative, or for an outcome that does not exist.
var ErrRetention = flowgraph.ErrRetention

// Retention sets how long runs are kept after they ended with one of the outcomes, or with any if none is named. Then
// the run is purged with its nodes, results and events. The default is the engine's, see the option of the same name in
// package runtime; 0 is that default, KeepForever is no end. A later Retention replaces an earlier one for the outcomes
// that it names.
func Retention(keep time.Duration, outcomes ...Outcome) Option {
	return flowOption(func(b *builder) { b.graph.Keep = b.graph.Keep.With(keep, outcomes...) })
}
