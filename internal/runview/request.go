package runview

import (
	"cmp"
	"regexp"

	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// Request selects the data of a description. The zero value is the run and all its nodes.
type Request struct {
	// Values adds values, ValueBytes of each.
	Values     bool
	ValueBytes int
	// Attempts adds attempts.
	Attempts bool
	// Paged selects one page of Nodes nodes, from Cursor on.
	Paged  bool
	Cursor string
	Nodes  int
}

// pageCursor matches the cursor of a page.
var pageCursor = regexp.MustCompile(`^(s?[0-9]{1,20})?$`)

// Check returns the faults of a request with values of at most the given number of bytes, and sets the defaults.
func (q *Request) Check(most int) error {
	switch {
	case q.ValueBytes < 0 || q.ValueBytes > most:
		return engine.Invalid("ValueBytes %d: must be 0 to %d bytes", q.ValueBytes, most)
	case q.Paged && (q.Nodes < 1 || q.Nodes > describe.MaxPage):
		return engine.Invalid("Nodes %d: must be 1 to %d", q.Nodes, describe.MaxPage)
	case q.Paged && !pageCursor.MatchString(q.Cursor):
		return engine.Invalid("Cursor %.40q: it is not a cursor: use RunDescription.Next", q.Cursor)
	}
	q.ValueBytes = cmp.Or(q.ValueBytes, describe.DefaultValueBytes)
	return nil
}
