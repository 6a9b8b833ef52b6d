package invariant

// Tags of runs that were started in contract mode.
const (
	contractRun       = "flowfabric.run_id"
	contractSubmitted = "flowfabric.submitted"
	contractNode      = "flowfabric.node"
)

// contract reports that the flow was submitted call by call, so that the engine keeps no counts of it.
func (f *flowRecord) contract() bool { return f.parts["tags"].hash[contractRun] != "" }

func (f *flowRecord) submitted() bool { return f.parts["tags"].hash[contractSubmitted] != "" }

// contractOutcome is how a flow without an account did; "" while a member is open.
func (p *partition) contractOutcome(f *flowRecord) string {
	count := make(map[string]int)
	for id := range f.members() {
		if e := p.executions[id]; e != nil && e.core != nil {
			if !e.terminal() {
				return ""
			}
			count[e.get("terminal_outcome")]++
		}
	}
	switch {
	case f.core["public_flow_state"] == "cancelled":
		return "cancelled"
	case count["failed"]+count["expired"] > 0:
		return "failed"
	case count["cancelled"] > 0:
		return "cancelled"
	}
	return "success"
}

// contractFlow checks a flow that was submitted call by call. Until all work is done, edges may lag after their
// upstreams, and members after a cancel.
func (c *checker) contractFlow(p *partition, f *flowRecord, mode Mode) {
	for id := range f.members() {
		e := p.executions[id]
		if e == nil || e.core == nil {
			continue
		}
		began := number(e.get("total_attempt_count")) > 0
		if !f.submitted() && (began || e.get("eligibility_state") == "eligible_now") {
			c.fault(RuleHeld, e.key, "is %s, %s, but its flow is still being submitted", e.get("lifecycle_phase"), e.get("eligibility_state"))
		}
		join, satisfied := p.joinOf(e), 0
		for edge, dep := range e.deps {
			if dep["state"] == "satisfied" {
				satisfied++
			} else if began && join == nil {
				c.fault(RuleOrder, e.key, "has begun, but edge %s is %s", edge, dep["state"])
			}
			if dep["state"] != "unsatisfied" {
				c.dep(p, e, e.key, edge, dep)
			}
		}
		if began && join != nil && satisfied < join.needed() {
			c.fault(RuleOrder, e.key, "has begun, but only %d of its edges are satisfied", satisfied)
		}
		if _, has := e.parts["result"]; !has && e.get("terminal_outcome") == "success" {
			c.fault(RuleResult, e.key, "succeeded, but has no result")
		}
		if mode == Quiescent && !e.terminal() {
			c.fault(RuleQuiescent, e.key, "is %s, %s (%s)", e.get("lifecycle_phase"), e.get("eligibility_state"), e.get("blocking_detail"))
		}
	}
}
