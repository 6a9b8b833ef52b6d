package describe

import "github.com/flowfabric/flowfabric-go/runtime/runevent"

// History makes attempts of the events of a run, in their order. The zero History is ready for use.
type History struct {
	nodes map[string]*nodeHistory
}

type nodeHistory struct {
	attempts []Attempt
	replays  int
}

// Add takes the next event of the run.
func (h *History) Add(e runevent.Event) {
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
func (h *History) Attempts(node string) []Attempt {
	n := h.nodes[node]
	if n == nil {
		return nil
	}
	return n.attempts
}

func (n *nodeHistory) add(e runevent.Event) {
	switch e.Kind {
	case runevent.Started, runevent.Reclaimed:
		n.begin(e)
	case runevent.Resumed:
		a := n.open(e)
		a.Aside, a.Worker = "", e.Detail
	case runevent.Progress:
		a := n.open(e)
		a.Percent, a.Message = e.Percent, e.Message
	case runevent.Suspended, runevent.Sleeping, runevent.WaitingChildren, runevent.Delayed, runevent.Released:
		n.open(e).Aside = e.Kind
	case runevent.Replayed:
		n.replays++
	case runevent.Panicked:
		n.open(e).Stack = e.Detail
	case runevent.Retry:
		n.end(e, Failed)
	case runevent.LeaseExpired:
		n.end(e, WorkerLost)
	case runevent.LeaseRevoked:
		n.end(e, Revoked)
	case runevent.Succeeded, runevent.Failed, runevent.Cancelled, runevent.Expired:
		n.endNode(e)
	}
}

// begin adds an attempt. A take-over without a word about the lost worker ends the attempt before.
func (n *nodeHistory) begin(e runevent.Event) {
	if last := n.last(); last != nil && last.Outcome == "" && e.Kind == runevent.Reclaimed {
		last.Outcome, last.Ended, last.Aside = WorkerLost, e.At, ""
	}
	n.push(Attempt{Number: e.Attempt, Replay: n.replays, Worker: e.Detail, Begun: e.At})
}

func (n *nodeHistory) push(a Attempt) {
	if len(n.attempts) == MaxAttempts {
		n.attempts = append(n.attempts[:0], n.attempts[1:]...)
	}
	n.attempts = append(n.attempts, a)
}

func (n *nodeHistory) last() *Attempt {
	if len(n.attempts) == 0 {
		return nil
	}
	return &n.attempts[len(n.attempts)-1]
}

// open returns the attempt of an event. The log may not have its beginning any more.
func (n *nodeHistory) open(e runevent.Event) *Attempt {
	if last := n.last(); last != nil && (last.Number == e.Attempt || e.Attempt == 0) {
		return last
	}
	n.push(Attempt{Number: e.Attempt, Replay: n.replays})
	return n.last()
}

func (n *nodeHistory) end(e runevent.Event, outcome Outcome) {
	a := n.open(e)
	a.Outcome, a.Ended, a.Error, a.Category, a.Aside = outcome, e.At, e.Detail, e.Category, ""
}

// endNode ends the last attempt with the node. A node that ends without a running attempt, as a cancelled one may, has
// none that ends with it.
func (n *nodeHistory) endNode(e runevent.Event) {
	last := n.last()
	hasNone := last == nil && e.Attempt == 0
	hasEnded := last != nil && last.Outcome != "" && (last.Number == e.Attempt || e.Attempt == 0)
	if hasNone || hasEnded {
		return
	}
	n.end(e, Outcome(e.Kind))
}
