package describe

import (
	"cmp"
	"encoding/json"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
)

// History makes attempts of the events of a run, in their order. The zero History is ready for use.
type History struct {
	nodes map[string]*nodeHistory
}

type nodeHistory struct {
	attempts []fabrictype.Attempt
	replays  int
}

// Add takes the next event of the run.
func (h *History) Add(e fabrictype.Event) {
	if e.Node == "" {
		return
	}
	n := h.nodes[e.Node]
	if n == nil {
		if h.nodes == nil {
			h.nodes = make(map[string]*nodeHistory)
		}
		n = new(nodeHistory)
		h.nodes[e.Node] = n
	}
	n.add(e)
}

// Attempts returns the attempts of a node, the oldest first: the last MaxAttempts ones.
func (h *History) Attempts(node string) []fabrictype.Attempt {
	n := h.nodes[node]
	if n == nil {
		return nil
	}
	return n.attempts
}

func (n *nodeHistory) add(e fabrictype.Event) {
	switch e.Kind {
	case fabrictype.EventStarted, eventkind.Reclaimed:
		n.begin(e)
	case eventkind.Resumed:
		a := n.open(e)
		a.Aside, a.Worker = "", e.Detail
	case fabrictype.EventProgress:
		a := n.open(e)
		a.Percent, a.Message = e.Percent, e.Message
	case fabrictype.EventSuspended, eventkind.Sleeping, eventkind.WaitingChildren, eventkind.Delayed,
		eventkind.Released:
		n.open(e).Aside = e.Kind
	case eventkind.Replayed:
		n.replays++
	case eventkind.Panicked:
		n.open(e).Stack = e.Detail
	case fabrictype.EventRetry:
		n.end(e, fabrictype.OutcomeFailed)
	case eventkind.LeaseExpired:
		n.end(e, fabrictype.OutcomeWorkerLost)
	case eventkind.LeaseRevoked:
		n.end(e, fabrictype.OutcomeRevoked)
	case fabrictype.EventSucceeded, fabrictype.EventFailed, fabrictype.EventCancelled, fabrictype.EventExpired:
		n.endNode(e)
	}
}

// begin adds an attempt. A take-over whose log has no event about the lost worker ends the attempt before.
func (n *nodeHistory) begin(e fabrictype.Event) {
	if last := n.last(); last != nil && last.Outcome == "" && e.Kind == eventkind.Reclaimed {
		last.Outcome, last.Ended, last.Aside = fabrictype.OutcomeWorkerLost, e.At, ""
	}
	n.push(fabrictype.Attempt{Number: e.Attempt, Replay: n.replays, Worker: e.Detail, Begun: e.At})
}

func (n *nodeHistory) push(a fabrictype.Attempt) {
	if len(n.attempts) == MaxAttempts {
		n.attempts = append(n.attempts[:0], n.attempts[1:]...)
	}
	n.attempts = append(n.attempts, a)
}

func (n *nodeHistory) last() *fabrictype.Attempt {
	if len(n.attempts) == 0 {
		return nil
	}
	return &n.attempts[len(n.attempts)-1]
}

// open returns the attempt of an event. The log may no longer contain its beginning.
func (n *nodeHistory) open(e fabrictype.Event) *fabrictype.Attempt {
	if last := n.last(); last != nil && (last.Number == e.Attempt || e.Attempt == 0) {
		return last
	}
	n.push(fabrictype.Attempt{Number: e.Attempt, Replay: n.replays})
	return n.last()
}

func (n *nodeHistory) end(e fabrictype.Event, outcome fabrictype.Outcome) {
	a := n.open(e)
	a.Outcome, a.Ended, a.Error, a.Category, a.Aside = outcome, e.At, e.Detail, e.Category, ""
}

// endNode ends the last attempt with the node. A node that ends without a running attempt, as a cancelled one may, has
// none that ends with it.
func (n *nodeHistory) endNode(e fabrictype.Event) {
	last := n.last()
	hasNone := last == nil && e.Attempt == 0
	hasEnded := last != nil && last.Outcome != "" && (last.Number == e.Attempt || e.Attempt == 0)
	if hasNone || hasEnded {
		return
	}
	n.end(e, fabrictype.Outcome(e.Kind))
}

// JSONCodec is the name of the codec of flows and activities that have no other one.
const JSONCodec = "json"

// Codec returns the name of a codec as a graph has it.
func Codec(stored string) string { return cmp.Or(stored, JSONCodec) }

// Value returns a value of size bytes, of which data is the whole or the beginning.
func Value(codec string, size int, data []byte) *fabrictype.Value {
	v := &fabrictype.Value{Codec: codec, Size: size, Truncated: size > len(data)}
	switch {
	case codec != JSONCodec:
		v.Data = data
	case !v.Truncated && IsJSON(data):
		v.JSON = data
	default:
		v.Text = string(data)
	}
	return v
}

// IsJSON reports whether data can be part of a JSON text as it is. Readers would change invalid UTF-8.
func IsJSON(data []byte) bool { return json.Valid(data) && utf8.Valid(data) }
