package invariant

// queues checks the order of lanes in which keys take turns: an execution with a key is in the queue of its key exactly
// while it is eligible, with the same score, and a key is in the rotation exactly while its queue is not empty.
// Executions without a key may wait outside of the queues if they were eligible before the first key.
func (c *checker) queues(p *partition) {
	queued := make(map[string]bool)
	lined := make(map[string]bool)
	for _, t := range p.turns {
		for fairKey := range t.scores {
			lined[t.lane+"\n"+fairKey] = true
		}
	}
	eligible := make(map[string]float64)
	for _, l := range p.lanes {
		if l.name != "eligible" {
			continue
		}
		for id, score := range l.scores {
			eligible[l.lane+"\n"+id] = score
		}
	}
	for _, q := range p.queues {
		if !lined[q.lane+"\n"+q.fairKey] {
			c.fault(RuleFairness, q.key, "holds %d, but its key is not in the line of lane %s", len(q.scores), q.lane)
		}
		delete(lined, q.lane+"\n"+q.fairKey)
		for id, score := range q.scores {
			queued[id] = true
			want, waits := eligible[q.lane+"\n"+id]
			switch e := p.executions[id]; {
			case e == nil || e.core == nil:
				c.fault(RuleFairness, q.key, "holds %s, which does not exist", id)
			case !waits:
				c.fault(RuleFairness, q.key, "holds %s, which is not eligible", id)
			case score != want:
				c.fault(RuleFairness, q.key, "%s has score %s, must have %s", id, decimal(score), decimal(want))
			case e.get("fair_key") != q.fairKey:
				c.fault(RuleFairness, q.key, "holds %s, whose key is %q", id, e.get("fair_key"))
			}
		}
	}
	for _, t := range p.turns {
		for fairKey := range t.scores {
			if lined[t.lane+"\n"+fairKey] {
				c.fault(RuleFairness, t.key, "has %q in line, of which nothing waits", fairKey)
			}
		}
	}
	for _, l := range p.lanes {
		if l.name != "eligible" {
			continue
		}
		for id := range l.scores {
			if e := p.executions[id]; e != nil && e.get("fair_key") != "" && !queued[id] {
				c.fault(RuleFairness, l.key, "holds %s of key %q, which is in no queue", id, e.get("fair_key"))
			}
		}
	}
}
