package invariant

import "strings"

// waitsForChild reports whether an execution is suspended until its child run is over, or its end is pending.
func (e *execution) waitsForChild() bool {
	return e.get("ending") != "" || e.get("child_flow_id") != "" && e.get("child_outcome") == "" && e.get("attempt_state") == "attempt_interrupted"
}

// children checks child runs, as far as one partition has their data.
func (c *checker) children(p *partition) {
	key := p.key("ffx:" + p.tag + ":children")
	listed := p.indexes["children"].scores
	for id := range listed {
		if f := p.flows[id]; f == nil || f.core == nil {
			c.fault(RuleUnknownFlow, key, "holds %s, which does not exist", id)
		} else if f.core["parent_execution_id"] == "" {
			c.fault(RuleFlow, key, "holds %s, which belongs to no node", id)
		}
	}
	for id, f := range p.flows {
		if f.core == nil || f.core["parent_execution_id"] == "" || f.purging() {
			continue
		}
		_, found := listed[id]
		if !found && !f.closed() {
			c.fault(RuleStuck, f.key, "belongs to a node, but no keeper will check whether the node still needs it")
		}
		if !found && f.closed() && f.core["told"] != f.core["ends"] {
			c.fault(RuleStuck, f.key, "has ended %s times, but its node was notified of end %q, and no keeper will notify it", f.core["ends"], f.core["told"])
		}
		if f.closed() && number(f.core["ends"]) == 0 {
			c.fault(RuleFlow, f.key, "is closed, but its end was not counted")
		}
	}
}

// settledChildren checks that nodes and their runs know of each other when all is done.
func (c *checker) settledChildren(p *partition) {
	for _, name := range []string{"children", "unwanted"} {
		for member := range p.indexes[name].scores {
			c.fault(RuleQuiescent, p.key("ffx:"+p.tag+":"+name), "holds %s", member)
		}
	}
	for id, f := range p.flows {
		if f.core == nil || f.core["parent_execution_id"] == "" {
			continue
		}
		parent := c.snapshot.execution(f.core["parent_execution_id"])
		if parent == nil || parent.get("child_flow_id") != id && !strings.Contains(parent.get("child_kept"), id) {
			c.fault(RuleQuiescent, f.key, "belongs to node %s, which does not know it", f.core["parent_execution_id"])
		}
	}
}

// execution finds an execution by its id, nil when it does not exist.
func (s *Snapshot) execution(id string) *execution {
	for _, p := range s.partitions {
		if e := p.executions[id]; e != nil && e.core != nil {
			return e
		}
	}
	return nil
}
