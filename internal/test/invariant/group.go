package invariant

import "strings"

// edgeGroup is the record of a join: any_of, quorum or any_failure. It is nil where all edges are needed.
type edgeGroup map[string]string

// joinOf is the join that lets an execution run, or nil.
func (p *partition) joinOf(e *execution) edgeGroup {
	f := p.flows[e.get("flow_id")]
	if f == nil {
		return nil
	}
	g := edgeGroup(f.groups[e.id])
	if v := g["policy_variant"]; v != "any_of" && v != "quorum" && v != anyFailure && v != finally {
		return nil
	}
	return g
}

func (g edgeGroup) fired() bool {
	return g["group_state"] == "satisfied" || g["group_state"] == "impossible"
}

// Policies of joins that wait for all of their upstreams; one with finally may start in a flow that is over.
const (
	anyFailure = "any_failure"
	finally    = "finally"
)

// isFinally reports whether an execution runs however its flow ends.
func (p *partition) isFinally(e *execution) bool { return p.joinOf(e)["policy_variant"] == finally }

// waits reports whether a join waits for more upstreams than have ended.
func (g edgeGroup) waits(ended int) bool {
	v := g["policy_variant"]
	return (v == anyFailure || v == finally) && ended < number(g["n"])
}

func (g edgeGroup) needed() int {
	if g["policy_variant"] != "quorum" {
		return 1
	}
	return number(g["k"])
}

// join checks the counts of a join against the edges, and its decision against the counts and the child.
func (c *checker) join(p *partition, e *execution, g edgeGroup) {
	key := p.key("flow:" + p.tag + ":" + e.get("flow_id") + ":edgegroup:" + e.id)
	states := make(map[string]int)
	for _, dep := range e.deps {
		states[dep["state"]]++
	}
	for _, edge := range e.edges {
		states[edge.state]++
	}
	succeeded, failed := number(g["succeeded"]), number(g["failed"])+number(g["skipped"])
	if n := number(g["n"]); n != len(e.deps)+len(e.edges) {
		c.fault(RuleDeps, key, "n is %d of %d edges", n, len(e.deps)+len(e.edges))
	}
	if expected := number(g["expected_edges"]); e.row != nil && expected < len(e.edges) {
		c.fault(RuleDeps, key, "expects %d edges, %d lead to it", expected, len(e.edges))
	}
	if succeeded != states["satisfied"] || failed != states["impossible"] {
		c.fault(RuleDeps, key, "counts %d successes and %d others, the edges are %s", succeeded, failed, counts(states))
	}
	impossible := number(e.parts["deps:meta"].hash["impossible_required_count"]) > 0
	if e.row == nil && impossible != (g["group_state"] == "impossible") {
		c.fault(RuleDeps, key, "is %s, and impossible edges in deps:meta: %t", g["group_state"], impossible)
	}
	switch g["group_state"] {
	case "satisfied":
		if succeeded < g.needed() || g.waits(succeeded+failed) {
			c.fault(RuleDeps, key, "is satisfied by %d of %d successes", succeeded, g.needed())
		}
	case "impossible":
		if !e.terminal() {
			c.fault(RuleStuck, key, "is impossible, but the execution has not ended")
		}
	case "pending":
		if succeeded >= g.needed() && !g.waits(succeeded+failed) {
			c.fault(RuleStuck, key, "is pending with %d of %d successes", succeeded, g.needed())
		}
	default:
		c.fault(RuleDeps, key, "group_state is %q", g["group_state"])
	}
	if skipped := e.get("terminal_outcome") == "skipped"; skipped && g["group_state"] != "impossible" {
		c.fault(RuleDeps, e.key, "was skipped, but its join is %s", g["group_state"])
	}
}

// tolerated counts, by outcome, the members whose end is not the flow's own failure.
func (p *partition) tolerated(f *flowRecord) map[string]int {
	out := make(map[string]int)
	for id := range f.members() {
		e := p.executions[id]
		if e == nil {
			continue
		}
		by := e.get("absorbed")
		if by == "cancelled_siblings" || (by != "" && f.core["joins_impossible"] == "") {
			out[e.get("terminal_outcome")]++
		}
	}
	return out
}

// owedSiblings checks the groups that owe their siblings a cancel.
func (c *checker) owedSiblings(p *partition, mode Mode) {
	key := p.key("idx:" + p.tag + ":pending_cancel_groups")
	owed := p.index("pending_cancel_groups")
	for tuple := range owed {
		flow, child, _ := strings.Cut(tuple, "|")
		f := p.flows[flow]
		if f == nil || f.groups[child]["cancel_siblings_pending_flag"] != "true" {
			c.fault(RuleStuck, key, "holds %s, whose group owes nothing", tuple)
		}
		if f != nil && mode == Quiescent && f.managed() {
			c.fault(RuleQuiescent, key, "holds %s", tuple)
		}
	}
	for id, f := range p.flows {
		for child := range f.siblings {
			if !owed[id+"|"+child] {
				c.fault(RuleStuck, key, "does not hold %s|%s, some of whose siblings were not processed", id, child)
			}
		}
		for child, g := range f.groups {
			if g["cancel_siblings_pending_flag"] != "" && !owed[id+"|"+child] {
				c.fault(RuleStuck, key, "does not hold %s|%s, whose group owes cancels", id, child)
			}
		}
	}
}
