package invariant

import (
	"slices"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Events of a flow's log.
func isStart(event string) bool {
	return event == "started" || event == "resumed" || event == "reclaimed"
}

func isEnd(event string) bool {
	switch event {
	case "success", "failed", "cancelled", "expired", "skipped":
		return true
	}
	return false
}

func isFlowEnd(event string) bool {
	switch event {
	case "flow_success", "flow_failed", "flow_cancelled", "flow_expired":
		return true
	}
	return false
}

// logged is one event of a flow's log.
type logged struct {
	index               int   // of its element
	ms                  int64 // when it happened
	kind, node, attempt string
}

// happenedIn lists the events of a log's elements. An element that is empty has none. malformed is the index of the
// first element of another form, or -1.
func happenedIn(elements []string) (list []logged, malformed int) {
	for i, element := range elements {
		if element == "" {
			continue
		}
		lines := strings.Split(element, "\n")
		ms, err := strconv.ParseInt(lines[0], 10, 64)
		if err != nil || len(lines) == 1 {
			return list, i
		}
		for _, line := range lines[1:] {
			e, ok := enginerpc.ParseLoggedText(line)
			if !ok {
				return list, i
			}
			list = append(list, logged{i, ms, e.Event, e.Node, e.Attempt})
		}
	}
	return list, -1
}

// history is the state derived from the log so far.
type history struct {
	ended map[string]string // node → outcome
	// outcomes are all that nodes have ended with so far, and reset is which of them came before a rerun reset the
	// node: an edge that was satisfied stays so when its upstream is replayed, unless the node that it leads to is
	// reset.
	outcomes map[string][]string
	reset    map[string]map[string]int
	replays  map[string]int  // node → replays so far
	started  map[string]bool // node and attempt
	stopped  string          // the event after which nothing may start
	closed   string
}

// events checks the flow's log: its order is the order in which things happened.
func (c *checker) events(p *partition, f *flowRecord) {
	key := p.key("flow:" + p.tag + ":" + f.id + ":events")
	happened, ok := c.happened(f, key)
	if !ok {
		return
	}
	if len(happened) == 0 || happened[0].kind != "flow_submitted" {
		return // its beginning has been trimmed
	}
	nodes := make(map[string]*execution)
	for id := range f.members() {
		if e := p.executions[id]; e != nil && e.core != nil {
			nodes[e.node()] = e
		}
	}
	h := &history{
		ended: make(map[string]string), outcomes: make(map[string][]string), reset: make(map[string]map[string]int),
		replays: make(map[string]int), started: make(map[string]bool),
	}
	for _, e := range happened {
		c.event(p, f, key, e, nodes, h)
	}
	for node, e := range nodes {
		if want := e.get("terminal_outcome"); e.terminal() && h.ended[node] != want {
			c.fault(RuleEvents, key, "node %s is %s, the log says %q", node, want, h.ended[node])
		} else if !e.terminal() && h.ended[node] != "" {
			c.fault(RuleEvents, key, "node %s has not ended, the log says %q", node, h.ended[node])
		}
		c.startEvents(key, node, e, h)
	}
	want := ""
	if f.closed() {
		want = "flow_" + f.core["outcome"]
	}
	if h.closed != want {
		c.fault(RuleEvents, key, "the log ends the flow with %q, must be %q", h.closed, want)
	}
}

// happened returns the events of a flow, from its rows or its event log, and whether both have the right form.
func (c *checker) happened(f *flowRecord, key string) ([]logged, bool) {
	log, exists := f.parts["events"]
	if f.run != nil && !f.run.isLogged {
		if exists {
			c.fault(RuleEvents, key, "there is an event log, though the events follow from the rows")
		}
		return c.ofRows(f, key), !exists
	}
	if !exists || len(log.list) == 0 {
		c.fault(RuleEvents, key, "the event log is missing")
		return nil, false
	}
	happened, malformed := happenedIn(log.list)
	if malformed >= 0 {
		c.fault(RuleEvents, key, "element %d is malformed: %q", malformed, log.list[malformed])
	}
	return happened, malformed < 0
}

// ofRows lists the events that follow from the rows of a run.
func (c *checker) ofRows(f *flowRecord, key string) (list []logged) {
	for i, e := range f.run.events {
		of := logged{index: i, ms: e.At, kind: e.Kind}
		if e.Ordinal > 0 {
			of.attempt = "0"
			if n := f.run.definition.node(e.Ordinal); n != nil {
				of.node = n.get("name")
			}
		}
		if e.At == 0 {
			c.fault(RuleEvents, key, "%d: %s of node %q has no time", i, e.Kind, of.node)
		}
		list = append(list, of)
	}
	return list
}

func (e *execution) node() string {
	if node := e.get("node"); node != "" {
		return node
	}
	if node := e.parts["tags"].hash[contractNode]; node != "" {
		return node
	}
	return e.id
}

// startEvents checks that every attempt was logged when it began.
func (c *checker) startEvents(key, node string, e *execution, h *history) {
	missing := func(number string) {
		if !h.started[node+" "+number] {
			c.fault(RuleEvents, key, "attempt %s of node %s was not logged", number, node)
		}
	}
	for number := range e.attempts {
		missing(number)
	}
	if e.inRow() {
		missing("0")
	}
}

func (c *checker) event(p *partition, f *flowRecord, key string, entry logged, nodes map[string]*execution, h *history) {
	event, node, number := entry.kind, entry.node, entry.attempt
	switch {
	case event == "flow_cancel_requested" || event == "flow_deadline":
		if h.stopped != "" {
			c.fault(RuleEvents, key, "%d: %s although the flow was stopped by %s", entry.index, event, h.stopped)
		}
		h.stopped = event
		return
	case isFlowEnd(event):
		if h.closed != "" {
			c.fault(RuleEvents, key, "%d: %s although %s came before", entry.index, event, h.closed)
		}
		h.closed = event
		return
	case event == "flow_reopened":
		h.closed, h.stopped = "", ""
		return
	case event == "flow_submitted" || event == "flow_paused" || event == "flow_resumed" || event == "flow_rerun":
		return
	}
	e := nodes[node]
	if e == nil {
		c.fault(RuleEvents, key, "%d: %s of node %q, which is not a member", entry.index, event, node)
		return
	}
	switch event {
	case "replayed":
		h.replayed(node, e)
		return
	case "budget_soft", "budget_hard":
		return // effects of the use of a budget may be logged later
	}
	if h.ended[node] != "" {
		c.fault(RuleEvents, key, "%d: %s of node %s, which is %s already", entry.index, event, node, h.ended[node])
	}
	switch {
	case isEnd(event):
		h.ended[node] = event
		h.outcomes[node] = append(h.outcomes[node], event)
	case isStart(event), event == "suspended" && e.waitpoint():
		c.start(p, f, key, entry, e, h)
		if event != "resumed" && event != "suspended" {
			if h.started[node+" "+number] {
				c.fault(RuleEvents, key, "%d: attempt %s of node %s begins again", entry.index, number, node)
			}
			h.started[node+" "+number] = true
		}
	}
}

// replayed records that a node runs again. A node reset by a rerun waits for its upstreams again; a node replayed alone
// uses the outcomes of ended upstreams, and its downstream nodes know its earlier outcome.
func (h *history) replayed(node string, e *execution) {
	delete(h.ended, node)
	byRerun := h.isRerun(node, e)
	h.replays[node]++
	for _, reset := range h.reset {
		if !byRerun && reset[node] > 0 {
			reset[node] = min(reset[node], len(h.outcomes[node])-1)
		}
	}
	if !byRerun && h.reset[node] == nil {
		return
	}
	reset := make(map[string]int)
	for up, outcomes := range h.outcomes {
		reset[up] = len(outcomes)
		if !byRerun {
			reset[up] = h.reset[node][up]
			if h.ended[up] != "" {
				reset[up] = min(reset[up], len(outcomes)-1)
			}
		}
	}
	h.reset[node] = reset
}

// isRerun reports whether it is a rerun by which a node runs again next.
func (h *history) isRerun(node string, e *execution) bool {
	n := h.replays[node]
	for _, entry := range e.parts["lease:history"].stream {
		if entry.get("event") != "replay_initiated" {
			continue
		}
		if n == 0 {
			return entry.get("replay_type") == "rerun"
		}
		n--
	}
	return false
}

// satisfied reports whether an upstream has ended so that an edge of a kind is satisfied.
func (h *history) satisfied(kind, up, down string) bool {
	since := h.outcomes[up][h.reset[down][up]:]
	return satisfies(kind, h.ended[up]) || slices.ContainsFunc(since, func(outcome string) bool { return satisfies(kind, outcome) })
}

// start checks that a node was allowed to start when it did.
func (c *checker) start(p *partition, f *flowRecord, key string, entry logged, e *execution, h *history) {
	event := entry.kind
	join, succeeded := p.joinOf(e), 0
	for edge := range f.in[e.id].set {
		up := p.executions[f.edges[edge]["upstream_execution_id"]]
		if up == nil || up.core == nil {
			continue
		}
		if h.satisfied(f.edges[edge]["dependency_kind"], up.node(), e.node()) {
			succeeded++
		} else if join == nil {
			c.fault(RuleOrder, key, "%d: %s of node %s, but upstream %s had not ended as it must (%q)", entry.index, event, e.node(), up.node(),
				h.ended[up.node()])
		}
	}
	if join != nil && succeeded < join.needed() {
		c.fault(RuleOrder, key, "%d: %s of node %s, but only %d of its upstreams had succeeded", entry.index, event, e.node(), succeeded)
	}
	if p.isFinally(e) {
		return
	}
	if h.stopped != "" {
		c.fault(RuleOrder, key, "%d: %s of node %s after %s", entry.index, event, e.node(), h.stopped)
	}
	if at, err := strconv.ParseInt(f.core["cancelled_at"], 10, 64); err == nil && entry.ms > at {
		c.fault(RuleOrder, key, "%d: %s of node %s, but the flow was cancelled at %d", entry.index, event, e.node(), at)
	}
}
