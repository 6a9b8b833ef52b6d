package invariant

import "strings"

// heldBack checks the data that keep executions of managed flows from starting: pauses, limits and start deadlines. It
// also checks that their lanes are known.
func (c *checker) heldBack(p *partition) {
	held, starts := p.indexes["held"].scores, p.indexes["start_deadlines"].scores
	timeouts, lanes := p.indexes["attempt_timeout"].scores, p.index("lanes")
	composite := func(name string) string { return p.key("ffx:" + p.tag + ":" + name) }
	for id, e := range p.executions {
		if e.core == nil || !e.managed() {
			continue
		}
		if f := p.flows[e.get("flow_id")]; f != nil && f.purging() {
			continue
		}
		// One with a row enters the lane when it may run.
		if aside := e.row != nil && (e.terminal() || e.get("eligibility_state") == "blocked_by_dependencies"); !aside && !lanes[e.lane()] {
			c.fault(RuleLaneIndex, composite("lanes"), "does not hold %s, the lane of %s", e.lane(), id)
		}
		runnable, eligibility := e.get("lifecycle_phase") == "runnable", e.get("eligibility_state")
		if _, armed := starts[id]; runnable && !p.rootLeft(e) && eligibility == "eligible_now" && e.get("start_timeout") != "" &&
			e.get("current_attempt_index") == "" && !armed {
			c.fault(RuleTimers, composite("start_deadlines"), "does not hold %s, which has to start in time", id)
		}
		if _, armed := timeouts[id]; e.get("lifecycle_phase") == "active" && e.get("ownership_state") == "leased" &&
			e.get("attempt_timeout") != "" && !armed {
			c.fault(RuleTimers, p.key("idx:"+p.tag+":attempt_timeout"), "does not hold %s, whose attempt has a timeout", id)
		}
		if _, listed := held[id]; runnable && eligibility == "blocked_by_operator" && paused(e) && !listed {
			c.fault(RuleStuck, composite("held"), "does not hold %s, which waits for the end of a pause", id)
		}
	}
	for _, name := range []string{"held", "unadmitted"} {
		for id := range p.indexes[name].scores {
			if e := p.executions[id]; e == nil || e.core == nil || e.terminal() {
				c.fault(RuleTimers, composite(name), "holds %s, which does not exist or has ended", id)
			}
		}
	}
	c.pauseMarks(p)
	for id, f := range p.flows {
		if state := f.core["rerun_state"]; (state == "resetting" || state == "resolving") && !p.index("reruns")[id] {
			c.fault(RuleStuck, composite("reruns"), "does not hold %s, which is being run again", id)
		}
	}
}

// paused reports whether one of the engine's own pauses holds an execution.
func paused(e *execution) bool {
	return strings.HasPrefix(e.get("blocking_detail"), "the run is paused") || strings.HasPrefix(e.get("blocking_detail"), "activity ")
}

// pauseMarks checks that the lanes where something is paused are marked, and no others.
func (c *checker) pauseMarks(p *partition) {
	kinds, lanes := false, make(set)
	for subject := range p.indexes["pauses"].hash {
		what, name, _ := strings.Cut(subject, " ")
		kinds = kinds || what == "kind"
		if what == "lane" {
			lanes[name] = true
		}
	}
	marked := make(set)
	for _, l := range p.lanes {
		if _, found := l.scores[pauseMark]; found && l.name == "eligible" {
			marked[l.lane] = true
		}
	}
	for lane := range p.index("lanes") {
		if want := kinds || lanes[lane]; want != marked[lane] {
			c.fault(RuleLaneIndex, p.key("idx:"+p.tag+":lane:"+lane+":eligible"), "is marked as paused: %t, must be %t", marked[lane], want)
		}
	}
}
