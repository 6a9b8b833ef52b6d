package describe

import "github.com/flowfabric/flowfabric-go/runtime"

// Bounds of a description.
const (
	// DefaultValueBytes is how much of each value Values returns unless told otherwise: 4 KiB.
	DefaultValueBytes = 4 << 10
	// MaxValueBytes is the largest bound of Values: 1 MiB, which is also the largest value of a run.
	MaxValueBytes = 1 << 20
	// MaxSumBytes bounds the values of one description together: 8 MiB, or one node that alone has more. With Page, a
	// page has fewer nodes then; without it, the values of the last nodes are truncated.
	MaxSumBytes = 8 << 20
	// MaxPage is the largest number of nodes on a page, and of all nodes when values are asked for without a page: 500.
	MaxPage = 500
	// MaxAttempts is how many attempts of a node are returned, the last ones: 100.
	MaxAttempts = 100
)

// Option asks RunRef.Describe for more, or for a part.
type Option func(*runtime.describeRequest)

// Request is what the options ask for. Package runtime reads it.
type Request struct {
	// Values asks for values, ValueBytes of each.
	Values     bool
	ValueBytes int
	// Attempts asks for attempts.
	Attempts bool
	// Paged asks for one page of Nodes nodes, from Cursor on.
	Paged  bool
	Cursor string
	Nodes  int
}

// Values asks for input and result of the run and of its nodes. Each is returned whole up to maxBytes bytes, else its
// beginning, with Truncated set. 0 is DefaultValueBytes; at most MaxValueBytes are allowed, and MaxSumBytes with
// RunRef.DescribeNode. Without Page, the run may have at most MaxPage nodes. All values together have at most
// MaxSumBytes.
func Values(maxBytes int) runtime.DescribeOption {
	return func(r *runtime.describeRequest) { r.Values, r.ValueBytes = true, maxBytes }
}

// Attempts asks for the attempts of each node, from the event log of the run.
func Attempts() runtime.DescribeOption { return func(r *runtime.describeRequest) { r.Attempts = true } }

// Page asks for nodes nodes in the order of their declaration, 1 to MaxPage, or fewer whose values have MaxSumBytes.
// The empty cursor is the first page; RunDescription.Next is the cursor of the next one. The items of a map are the
// nodes of its child run.
func Page(cursor string, nodes int) runtime.DescribeOption {
	return func(r *runtime.describeRequest) { r.Paged, r.Cursor, r.Nodes = true, cursor, nodes }
}
