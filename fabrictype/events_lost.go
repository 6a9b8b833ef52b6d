package fabrictype

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// EventsLostError is yielded by RunRef.Watch when events after the given id, or the last yielded one, are gone: the run
// had more than the engine keeps, or the server has lost its latest writes. All events that are left follow, so some
// may be yielded a second time. Feed.Events yields it when the reader was too slow. errors.Is reports each
// *EventsLostError as equal to any other.
type EventsLostError struct {
	// Gone is how many events are gone, by node, of up to 100 nodes; "" is the run itself. It is empty when that is not
	// known.
	Gone map[string]int
}

// mostNamed bounds the nodes that the text of a EventsLostError names.
const mostNamed = 3

// Error names the nodes with the most events that are gone.
func (e *EventsLostError) Error() string {
	nodes := slices.SortedFunc(maps.Keys(e.Gone), func(a, b string) int {
		return cmp.Or(cmp.Compare(e.Gone[b], e.Gone[a]), cmp.Compare(a, b))
	})
	var parts []string
	for i, node := range nodes {
		if i == mostNamed {
			parts = append(parts, fmt.Sprintf("and of %d more nodes", len(nodes)-i))
			break
		}
		name := "node " + node
		if node == "" {
			name = "the run itself"
		}
		parts = append(parts, fmt.Sprintf("%d of %s", e.Gone[node], name))
	}
	if len(parts) == 0 {
		return "events were dropped"
	}
	return "events were dropped: " + strings.Join(parts, ", ")
}

// Is reports whether target is an *EventsLostError.
func (e *EventsLostError) Is(target error) bool {
	_, same := target.(*EventsLostError)
	return same
}
