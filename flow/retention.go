package flow

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Outcome is how a run, or an item of a Map, ends.
type Outcome = flowgraph.Outcome

// The outcomes.
const (
	Succeeded = flowgraph.Succeeded
	Failed    = flowgraph.Failed
	Cancelled = flowgraph.Cancelled
	Expired   = flowgraph.Expired
)

// KeepForever as a retention keeps runs until they are purged by hand.
const KeepForever = flowgraph.KeepForever

// ErrRetention marks a retention that is too long or negative, or for an outcome that does not exist.
var ErrRetention = flowgraph.ErrRetention

// Retention says how long runs are kept after they ended in one of the outcomes, all of them when none is named. Then the
// run is purged: its nodes, results, events and everything else. The default is the engine's, see the option of the same
// name in package runtime; 0 is that default, KeepForever is no end. A later Retention replaces an earlier one for the
// outcomes that it names.
func Retention(keep time.Duration, outcomes ...Outcome) Option {
	return flowOption(func(b *builder) { b.graph.Keep = b.graph.Keep.With(keep, outcomes...) })
}
