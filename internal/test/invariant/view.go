package invariant

// Node is the state of one member of a flow.
type Node struct {
	Name string
	// Outcome is success, failed, cancelled, expired or skipped; "none" while it is open.
	Outcome string
	// Result is the stored result, nil when there is none.
	Result []byte
	// Attempts and Reclaims count started attempts and take-overs.
	Attempts, Reclaims int
	// Reason and Category are from the last failure.
	Reason, Category string
}

// Flow is the state of one flow.
type Flow struct {
	ID, Run, Outcome string
	Closed           bool
	Nodes            map[string]Node
}

// Flow returns a flow by its id, and false when there is none.
func (s *Snapshot) Flow(id string) (Flow, bool) {
	for _, p := range s.partitions {
		f := p.flows[id]
		if f == nil || f.core == nil {
			continue
		}
		view := Flow{ID: id, Run: f.core["run_id"], Outcome: f.core["outcome"], Closed: f.closed(), Nodes: make(map[string]Node)}
		if f.contract() {
			view.Run, view.Outcome = f.parts["tags"].hash[contractRun], p.contractOutcome(f)
			view.Closed = view.Outcome != ""
		}
		for member := range f.members() {
			e := p.executions[member]
			if e == nil || e.core == nil {
				continue
			}
			n := Node{
				Name: e.node(), Outcome: e.get("terminal_outcome"), Attempts: number(e.get("total_attempt_count")),
				Reclaims: number(e.get("lease_reclaim_count")), Reason: e.get("failure_reason"), Category: e.get("failure_category"),
			}
			if result, exists := e.parts["result"]; exists {
				n.Result = []byte(result.text)
			}
			view.Nodes[n.Name] = n
		}
		return view, true
	}
	return Flow{}, false
}

// FlowIDs lists the flows that exist, in no particular order.
func (s *Snapshot) FlowIDs() []string {
	var ids []string
	for _, p := range s.partitions {
		for id, f := range p.flows {
			if f.core != nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
