package invariant

import (
	"slices"
	"sort"
	"strconv"
	"strings"
)

// deps checks the child's side of the edges.
func (c *checker) deps(p *partition, e *execution) {
	base := strings.TrimSuffix(e.key, "core")
	unresolved, all := e.parts["deps:unresolved"].set, e.parts["deps:all_edges"].set
	meta := e.parts["deps:meta"].hash
	impossible := 0
	join := p.joinOf(e)
	if e.row != nil {
		impossible = c.rowDeps(p, e, join, len(unresolved))
	} else if got := number(meta["unsatisfied_required_count"]); got != len(unresolved) {
		c.fault(RuleDeps, base+"deps:meta", "unsatisfied_required_count is %d, %d edges are unresolved", got, len(unresolved))
	}
	for edge, dep := range e.deps {
		key := base + "dep:" + edge
		if !all[edge] {
			c.fault(RuleDeps, key, "the edge is not in deps:all_edges")
		}
		if dep["edge_id"] != edge || dep["downstream_execution_id"] != e.id {
			c.fault(RuleDeps, key, "says that it is edge %s to %s", dep["edge_id"], dep["downstream_execution_id"])
		}
		if waiting := dep["state"] == "unsatisfied" && !join.fired(); waiting != unresolved[edge] {
			c.fault(RuleDeps, key, "state is %s, in deps:unresolved: %t", dep["state"], unresolved[edge])
		}
		if dep["state"] == "impossible" {
			impossible++
		}
		if e.managed() {
			c.dep(p, e, key, edge, dep)
		}
	}
	if join != nil {
		c.join(p, e, join)
	} else if got := number(meta["impossible_required_count"]); e.row == nil && got != impossible {
		c.fault(RuleDeps, base+"deps:meta", "impossible_required_count is %d, %d edges are impossible", got, impossible)
	}
	for edge := range all {
		if e.deps[edge] == nil {
			c.fault(RuleDeps, base+"deps:all_edges", "edge %s has no record", edge)
		}
	}
	for edge := range unresolved {
		if !all[edge] {
			c.fault(RuleDeps, base+"deps:unresolved", "edge %s is not in deps:all_edges", edge)
		}
	}
	blocked := e.get("lifecycle_phase") == "runnable" && e.get("eligibility_state") == "blocked_by_dependencies"
	if open := e.waitsFor(); !blocked && !e.terminal() && open > 0 {
		c.fault(RuleDeps, e.key, "is %s, %s with %d unresolved edges", e.get("lifecycle_phase"), e.get("eligibility_state"), open)
	}
	// A node is also skipped if its child run has no result. A fork keeps such a node skipped without a child run.
	hollow := e.get("child_outcome") == "success" || p.keeps(e)
	if e.get("terminal_outcome") == "skipped" && impossible == 0 && !e.upstreamReplayed() && !hollow {
		c.fault(RuleDeps, e.key, "node %s of flow %s was skipped (%s), but no edge is impossible", e.node(), e.get("flow_id"), e.get("failure_reason"))
	}
	if e.get("terminal_outcome") == "success" && impossible > 0 && join == nil && !e.upstreamReplayed() {
		c.fault(RuleDeps, e.key, "succeeded, but %d edges are impossible", impossible)
	}
}

// waitsFor is how many edges of an execution are open.
func (e *execution) waitsFor() int {
	if e.row != nil {
		return e.row.open
	}
	return len(e.parts["deps:unresolved"].set)
}

// upstreamReplayed reports whether an upstream of a node with a row was run again: nothing but the end that it has by now is
// known of it.
func (e *execution) upstreamReplayed() bool {
	return slices.ContainsFunc(e.edges, func(edge rowEdge) bool { return number(edge.up.get("replay_count")) > 0 })
}

// dep checks one edge against the outcome of its upstream.
func (c *checker) dep(p *partition, e *execution, key, edge string, dep map[string]string) {
	up := p.executions[dep["upstream_execution_id"]]
	if up == nil || up.core == nil {
		c.fault(RuleDeps, key, "upstream %s does not exist", dep["upstream_execution_id"])
		return
	}
	if number(up.get("replay_count")) > 0 {
		return // its outcome may have changed since the edge was resolved
	}
	satisfied := satisfies(dep["dependency_kind"], up.outcomeFor(dep["dependency_kind"]))
	switch dep["state"] {
	case "satisfied":
		if !satisfied {
			c.fault(RuleDeps, key, "is satisfied, but the upstream's outcome is %s", up.get("terminal_outcome"))
		}
	case "impossible":
		if !up.terminal() || satisfied {
			c.fault(RuleDeps, key, "is impossible, but the upstream's outcome is %s", up.get("terminal_outcome"))
		}
	default:
		f := p.flows[e.get("flow_id")]
		// A replayed execution waits until those upstreams are replayed that have to be.
		waits := number(e.get("replay_count")) > 0 && !satisfied
		if up.terminal() && !e.terminal() && !waits && f != nil && !f.rerunning() && f.open() && !p.unresolved[up.id].set[edge] && !p.inBacklog(up.id) {
			c.fault(RuleStuck, key, "is unsatisfied, but the upstream has ended (%s) and the edge is not in the backlog",
				up.get("terminal_outcome"))
		}
	}
}

// satisfies reports whether an upstream's outcome satisfies an edge of a kind.
func satisfies(kind, outcome string) bool {
	failure := outcome == "failed" || outcome == "expired" || outcome == "cancelled"
	switch kind {
	case "on_failure":
		return failure
	case "always":
		return failure || outcome == "success" || outcome == "skipped"
	case unlessFailed:
		return outcome == "success" || outcome == "skipped"
	}
	return outcome == "success"
}

// hasKinds reports whether a node of the flow may be skipped although nothing has failed.
func (f *flowRecord) hasKinds() bool {
	for _, edge := range f.edges {
		if kind := edge["dependency_kind"]; kind == "on_failure" || isCase(kind) {
			return true
		}
	}
	return false
}

// flow checks counters and edges of a flow.
func (c *checker) flow(p *partition, f *flowRecord) {
	expect := func(field string, want int) {
		if got := number(f.core[field]); got != want {
			c.fault(RuleFlow, f.key, "%s is %s, must be %d", field, f.core[field], want)
		}
	}
	if f.managed() {
		expect("node_count", len(f.members()))
		expect("edge_count", len(f.edges))
	} else if number(f.core["node_count"]) < len(f.members()) || number(f.core["edge_count"]) < len(f.edges) {
		// Its members go one by one when they have been kept long enough.
		c.fault(RuleFlow, f.key, "counts fewer members or edges than it has")
	}
	expect("graph_revision", number(f.core["node_count"])+number(f.core["edge_count"]))
	if id := f.core["flow_id"]; id != f.id && (f.run == nil || id != "") {
		c.fault(RuleFlow, f.key, "flow_id is %s", f.core["flow_id"])
	}
	if inIndex := p.index("flow_index")[f.id]; inIndex == f.managed() {
		c.fault(RuleFlow, f.key, "in the index of flows: %t", inIndex)
	}
	for id := range f.members() {
		e := p.executions[id]
		if e == nil || e.core == nil {
			c.fault(RuleFlow, f.key, "member %s does not exist", id)
		} else if e.get("flow_id") != f.id {
			c.fault(RuleFlow, e.key, "is a member of %s, but flow_id is %q", f.id, e.get("flow_id"))
		}
	}
	c.edges(p, f)
	pending, from := f.parts["pending_cancels"].set, f.core["owed_from"]
	if _, owed := p.indexes["cancel_backlog"].scores[f.id]; owed != (len(pending) > 0 || from != "") {
		c.fault(RuleFlow, f.key, "%d members are owed their end, and nodes from %q on, in cancel_backlog: %t", len(pending), from, owed)
	}
	for id := range pending {
		if !f.members()[id] {
			c.fault(RuleFlow, f.key, "pending_cancels holds %s, which is not a member", id)
		}
	}
}

func (c *checker) edges(p *partition, f *flowRecord) {
	base := strings.TrimSuffix(f.key, "core")
	for id, edge := range f.edges {
		key, up, down := base+"edge:"+id, edge["upstream_execution_id"], edge["downstream_execution_id"]
		if edge["edge_id"] != id || edge["flow_id"] != f.id {
			c.fault(RuleFlow, key, "says that it is edge %s of %s", edge["edge_id"], edge["flow_id"])
		}
		if trimmed := p.executions[up]; !f.managed() && (trimmed == nil || trimmed.core == nil) && f.members()[down] && f.in[down].set[id] {
			continue
		}
		if !f.members()[up] || !f.members()[down] {
			c.fault(RuleFlow, key, "leads from %s to %s, which are not both members", up, down)
		}
		if !f.out[up].set[id] || !f.in[down].set[id] {
			c.fault(RuleFlow, key, "is not in both out:%s and in:%s", up, down)
		}
	}
	sides := []struct {
		name  string
		lists map[string]value
		field string
	}{{"out", f.out, "upstream_execution_id"}, {"in", f.in, "downstream_execution_id"}}
	for _, side := range sides {
		for id, list := range side.lists {
			for edge := range list.set {
				if f.edges[edge][side.field] != id {
					c.fault(RuleFlow, base+side.name+":"+id, "holds edge %s, whose %s is %q", edge, side.field, f.edges[edge][side.field])
				}
			}
		}
	}
}

// openNodes is how many members are counted as open.
func (f *flowRecord) openNodes() int {
	if f.run != nil {
		return f.run.open
	}
	return number(f.core["open_nodes"])
}

// managedFlow checks the guarantees of composite calls for their flows.
func (c *checker) managedFlow(p *partition, f *flowRecord) {
	open := 0
	outcomes := make(map[string]int)
	replayed := false
	for id := range f.members() {
		e := p.executions[id]
		if e == nil || e.core == nil {
			continue
		}
		if !e.managed() {
			// As one is that was over when another tool added it. It has none of the marks of a node.
			c.fault(RuleFlow, e.key, "belongs to a managed flow, but is not managed")
			continue
		}
		replayed = replayed || number(e.get("replay_count")) > 0
		if e.terminal() {
			outcomes[e.get("terminal_outcome")]++
		} else {
			open++
		}
		c.member(p, f, e)
	}
	if got := f.openNodes(); got != open {
		c.fault(RuleFlow, f.key, "%d nodes are counted as open, %d members have not ended", got, open)
	}
	if f.closed() != (open == 0) && !f.rerunning() {
		c.fault(RuleClosed, f.key, "closed_at is %q, %d members have not ended", f.core["closed_at"], open)
	}
	for _, outcome := range []string{"failed", "expired", "cancelled", "skipped"} {
		if got := number(f.core["nodes_"+outcome]); got != outcomes[outcome] {
			c.fault(RuleFlow, f.key, "nodes_%s is %d, %d members are %s", outcome, got, outcomes[outcome], outcome)
		}
	}
	if replayed {
		// A node that succeeds in a rerun leaves its downstreams skipped.
		delete(outcomes, "skipped")
	}
	c.outcome(p, f, outcomes)
}

// outcome checks how the flow ended against how its members did.
func (c *checker) outcome(p *partition, f *flowRecord, outcomes map[string]int) {
	state, outcome := f.core["public_flow_state"], f.core["outcome"]
	if f.open() {
		if outcome != "" || f.closed() {
			c.fault(RuleClosed, f.key, "is open, outcome is %q, closed_at is %q", outcome, f.core["closed_at"])
		}
		return
	}
	if !f.closed() {
		return
	}
	want := map[string]string{"success": "completed", "failed": "failed", "expired": "failed", "cancelled": "cancelled"}[outcome]
	if want == "" || state != want {
		c.fault(RuleClosed, f.key, "outcome is %q, state is %q", outcome, state)
	}
	tolerated := p.tolerated(f)
	failed := outcomes["failed"] + outcomes["expired"] - tolerated["failed"] - tolerated["expired"]
	cancelled := outcomes["cancelled"] - tolerated["cancelled"]
	switch outcome {
	case "success":
		if failed+cancelled > 0 || (outcomes["skipped"] > 0 && f.core["joins"] == "" && !f.hasKinds() && f.core["children"] == "") {
			c.fault(RuleClosed, f.key, "outcome is success, members are %s", counts(outcomes))
		}
	case "failed":
		if failed == 0 {
			c.fault(RuleClosed, f.key, "outcome is failed, members are %s", counts(outcomes))
		}
	case "cancelled":
		if f.core["cancelled_at"] == "" && (cancelled == 0 || failed > 0) {
			c.fault(RuleClosed, f.key, "outcome is cancelled, but no cancel was requested; members are %s", counts(outcomes))
		}
	}
}

func counts(outcomes map[string]int) string {
	var parts []string
	for outcome, n := range outcomes {
		parts = append(parts, strconv.Itoa(n)+" "+outcome)
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

// member checks one member of a managed flow.
func (c *checker) member(p *partition, f *flowRecord, e *execution) {
	in, all := f.in[e.id].set, e.parts["deps:all_edges"].set
	if len(in) != len(all)+len(e.edges) {
		c.fault(RuleDeps, e.key, "has %d edges, the flow leads %d to it", len(all)+len(e.edges), len(in))
	}
	for edge := range in {
		if !all[edge] && !ofGraph(edge) {
			c.fault(RuleDeps, e.key, "does not know edge %s, which the flow leads to it", edge)
		}
	}
	if e.terminal() {
		return
	}
	blocked := e.get("lifecycle_phase") == "runnable" && e.get("eligibility_state") == "blocked_by_dependencies"
	switch {
	case !f.rerunning() && f.open() && blocked && e.waitsFor() == 0 && !e.waitsForChild():
		c.fault(RuleStuck, e.key, "is blocked by dependencies, but none is unresolved")
	case f.core["cancellation_policy"] == "cancel_pending" && e.get("lifecycle_phase") == "active":
		// it may end by itself
	case p.isFinally(e):
		// it runs although the flow is over
	case e.get("ending") != "":
		// it ends when its run has ended, or its function has returned
	case !f.open() && !f.closed() && !f.owed(e):
		c.fault(RuleStuck, e.key, "is %s in a flow that is %s, but is not owed its end", e.get("lifecycle_phase"),
			f.core["public_flow_state"])
	}
}

// membership checks the lists of all executions and flows against the records.
func (c *checker) membership(p *partition) {
	allKey := p.key("idx:" + p.tag + ":all_executions")
	all := p.index("all_executions")
	for id, e := range p.executions {
		if e.core != nil && e.row == nil && !all[id] {
			c.fault(RuleKeys, allKey, "does not hold %s", id)
		}
		flowID := e.get("flow_id")
		if flowID == "" {
			continue
		}
		if f := p.flows[flowID]; f == nil || f.core == nil {
			c.fault(RuleUnknownFlow, e.key, "flow_id is %s, which does not exist", flowID)
		} else if !f.members()[id] {
			c.fault(RuleFlow, e.key, "flow_id is %s, but is not a member of it", flowID)
		}
	}
	for id := range all {
		if e := p.executions[id]; e == nil || e.core == nil {
			c.fault(RuleKeys, allKey, "holds %s, which does not exist", id)
		}
	}
	for id := range p.index("flow_index") {
		if f := p.flows[id]; f == nil || f.core == nil {
			c.fault(RuleUnknownFlow, p.key("idx:"+p.tag+":flow_index"), "holds %s, which does not exist", id)
		}
	}
	for id := range p.indexes["cancel_backlog"].scores {
		if f := p.flows[id]; f == nil || f.core == nil {
			c.fault(RuleUnknownFlow, p.key("idx:"+p.tag+":cancel_backlog"), "holds %s, which does not exist", id)
		}
	}
}

// backlog checks the edges that a call left for later.
func (c *checker) backlog(p *partition) {
	key := p.key("ffx:" + p.tag + ":backlog")
	listed := make(set)
	for _, id := range p.indexes["backlog"].list {
		listed[id] = true
		if flowID, found := strings.CutPrefix(id, p.tag+":"); found && p.flows[flowID] != nil {
			if p.flows[flowID].core["roots_left"] == "" {
				c.fault(RuleQuiescent, key, "holds run %s, all roots of which may run", flowID)
			}
			continue
		}
		if e := p.executions[id]; e == nil || !e.terminal() {
			c.fault(RuleQuiescent, key, "holds %s, which has not ended", id)
		}
	}
	for id, f := range p.flows {
		if f.core["roots_left"] != "" && !f.purging() && !listed[p.tag+":"+id] {
			c.fault(RuleStuck, f.key, "%s roots are left, but the backlog does not name the run", f.core["roots_left"])
		}
	}
	for id := range p.unresolved {
		if !listed[id] {
			c.fault(RuleStuck, p.key("ffx:"+p.tag+":unresolved:"+id), "edges wait, but the backlog does not name the execution")
		}
	}
}

// quiescent checks that nothing is left over.
func (c *checker) quiescent(p *partition) {
	for id := range p.index("reruns") {
		c.fault(RuleQuiescent, p.key("ffx:"+p.tag+":reruns"), "holds %s", id)
	}
	for id, e := range p.executions {
		if e.core != nil && e.managed() && !e.terminal() {
			c.fault(RuleQuiescent, e.key, "%s has not ended: %s, %s, %s", id, e.get("lifecycle_phase"), e.get("ownership_state"),
				e.get("eligibility_state"))
		}
	}
	for _, f := range p.flows {
		if f.core != nil && f.managed() && !f.closed() {
			c.fault(RuleQuiescent, f.key, "is not closed: state %s, %d open nodes", f.core["public_flow_state"], f.openNodes())
		}
		if n := len(f.parts["pending_cancels"].set); n > 0 || f.core["owed_from"] != "" {
			c.fault(RuleQuiescent, f.key, "%d members are still owed their end", n)
		}
	}
	for id := range p.unresolved {
		c.fault(RuleQuiescent, p.key("ffx:"+p.tag+":unresolved:"+id), "edges wait")
	}
	if n := len(p.indexes["backlog"].list); n > 0 {
		c.fault(RuleQuiescent, p.key("ffx:"+p.tag+":backlog"), "%d executions wait", n)
	}
}
