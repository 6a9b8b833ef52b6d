package flow

import (
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// KeepForever is the retention of runs that are kept until RunRef.Purge removes them.
const KeepForever = flowgraph.KeepForever

// Retention sets how long runs are kept after they ended with one of the outcomes, or with any if none is named. Then
// the run is purged with its nodes, results and events. The default, and 0, is OpenConfig.Retention of
// package runtime; KeepForever keeps them without end. At most 100 years. A later Retention replaces an earlier one for
// the outcomes that it names.
func Retention(keep time.Duration, outcomes ...fabrictype.Outcome) Option {
	return flowOption(func(b *builder) { b.graph.Keep = b.graph.Keep.With(keep, outcomes...) })
}
