// Package describe has the bounds of descriptions of runs, and makes their parts: values from stored bytes, and
// attempts of nodes from the events of a run.
package describe

// Bounds of a description.
const (
	// DefaultValueBytes is the default bound of each value in a description: 4 KiB.
	DefaultValueBytes = 4 << 10
	// MaxValueBytes is the largest bound of each value: 1 MiB, which is also the largest value of a run.
	MaxValueBytes = 1 << 20
	// MaxSumBytes bounds the values of one description together: 8 MiB, or one node that alone has more. A page has
	// fewer nodes then; without pages, the values of the last nodes are truncated.
	MaxSumBytes = 8 << 20
	// MaxPage is the largest number of nodes on a page, and of all nodes when a description with values has no pages:
	// 500.
	MaxPage = 500
	// MaxAttempts is how many attempts of a node are returned, the last ones: 100.
	MaxAttempts = 100
)
