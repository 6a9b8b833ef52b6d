package flow

import "github.com/flowfabric/flowfabric-go/internal/flowgraph"

// MaxNodes is the most nodes that a flow has.
const MaxNodes = flowgraph.MaxNodes

// ErrInvalid matches every error of Build.
var ErrInvalid = flowgraph.ErrInvalid

// ErrTag marks a tag that cannot be one, also where a run is started with it.
var ErrTag = flowgraph.ErrTag

// Fault is one thing that is wrong with a flow. Its Kind is an error with a short text such as "cycle" or "type mismatch"
// that is the same for all faults of the kind.
type Fault = flowgraph.Fault

// Faults returns all faults in an error of Build, in the order in which they were found.
func Faults(err error) []*Fault { return flowgraph.Faults(err) }
