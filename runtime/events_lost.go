package runtime

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// EventsLostError names the nodes of a run of which events are gone, since the run had more than the engine keeps.
type EventsLostError struct {
	// Gone is how many events are gone, by node, of up to 100 nodes; "" is the run itself.
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
	return strings.Join(parts, ", ")
}
