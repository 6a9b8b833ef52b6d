package flow

import "github.com/flowfabric/flowfabric-go/internal/flowgraph"

// MaxNodes is the maximum number of nodes of a flow.
const MaxNodes = flowgraph.MaxNodes

// ErrInvalid matches every error of Build.
var ErrInvalid = flowgraph.ErrInvalid

// Fault is one fault of a flow. Its Kind is an error with a short text such as "cycle" or "type mismatch", the same for
// all faults of the kind.
type Fault = flowgraph.Fault

// Faults returns all faults in an error of Build, in the order in which they were found.
func Faults(err error) []*Fault { return flowgraph.Faults(err) }
