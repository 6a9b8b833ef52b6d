package runtime

import "github.com/flowfabric/flowfabric-go/internal/runview"

// DescribeOption extends or restricts the result of RunRef.Describe and RunRef.DescribeNode: WithValues, WithAttempts
// or WithPage.
type DescribeOption interface {
	describe(*runview.Request)
}

type describeOption func(*runview.Request)

func (o describeOption) describe(r *runview.Request) { o(r) }

// WithValues adds input and result of the run and of its nodes. Each is returned whole up to maxBytes bytes, else its
// beginning, with Truncated set. 0 is 4 KiB; at most 1 MiB is allowed, and 8 MiB with RunRef.DescribeNode. Without
// WithPage, the run may have at most 500 nodes. All values together have at most 8 MiB.
func WithValues(maxBytes int) DescribeOption {
	return describeOption(func(r *runview.Request) { r.Values, r.ValueBytes = true, maxBytes })
}

// WithAttempts adds the attempts of each node, from the event log of the run: the last 100 of each.
func WithAttempts() DescribeOption {
	return describeOption(func(r *runview.Request) { r.Attempts = true })
}

// WithPage selects a page of nodes in the order of their declaration, 1 to 500, or fewer whose values have 8 MiB. The
// empty cursor is the first page; RunDescription.Next is the cursor of the next one. The items of a map are the nodes
// of its child run.
func WithPage(cursor string, nodes int) DescribeOption {
	return describeOption(func(r *runview.Request) { r.Paged, r.Cursor, r.Nodes = true, cursor, nodes })
}
