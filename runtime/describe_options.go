package runtime

import "github.com/flowfabric/flowfabric-go/internal/runview"

// DescribeOptions extend or restrict the result of RunRef.Describe and RunRef.DescribeNode.
type DescribeOptions struct {
	// Values adds input and result of the run and of its nodes. Each is returned whole up to ValueBytes bytes, else its
	// beginning, with Truncated set. Without Nodes, the run may have at most 500 nodes. All values together have at
	// most 8 MiB.
	Values bool
	// ValueBytes is at most 1 MiB, and 8 MiB with RunRef.DescribeNode. Defaults to 4 KiB.
	ValueBytes int
	// Attempts adds the attempts of each node, from the event log of the run: the last 100 of each.
	Attempts bool
	// Nodes selects a page of nodes in the order of their declaration, 1 to 500, or fewer whose values have 8 MiB. The
	// items of a map are the nodes of its child run. Defaults to all nodes.
	Nodes int
	// Cursor is the RunDescription.Next of the page before. Defaults to the first page.
	Cursor string
}

// request returns the request of the options of a call; without any, the zero value.
func request(opts []DescribeOptions) (q runview.Request) {
	for _, o := range opts {
		q = runview.Request{
			Values: o.Values, ValueBytes: o.ValueBytes, Attempts: o.Attempts, Paged: o.Nodes != 0 || o.Cursor != "",
			Cursor: o.Cursor, Nodes: o.Nodes,
		}
	}
	return q
}
