package invariant

import "strings"

// waitpoint is everything that belongs to one waitpoint.
type waitpoint struct {
	key       string
	record    map[string]string // nil when only its companions exist
	condition map[string]string
}

func (w *waitpoint) open() bool {
	return w.record["state"] == "active" || w.record["state"] == "pending"
}

func (p *partition) sortWaitpoint(text string, v value) string {
	id, part, _ := strings.Cut(text, ":")
	w := p.waitpoints[id]
	if w == nil {
		w = &waitpoint{key: p.key("wp:" + p.tag + ":" + id)}
		p.waitpoints[id] = w
	}
	switch part {
	case "":
		w.record = v.hash
		return wrongType(v, "hash")
	case "condition":
		w.condition = v.hash
		return wrongType(v, "hash")
	case "signals":
		return wrongType(v, "stream")
	}
	return unknownKey
}

// entryOverhead is the size of a journal entry in addition to its name and value.
const entryOverhead = 32

// waits checks suspensions, waitpoints and journals.
func (c *checker) waits(p *partition) {
	timeouts, expiries := p.indexes["suspension_timeout"].scores, p.indexes["pending_waitpoint_expiry"].scores
	for _, e := range p.executions {
		if e.core == nil {
			continue
		}
		c.journal(e)
		if e.get("lifecycle_phase") == "suspended" {
			c.suspended(p, e, timeouts)
			continue
		}
		if e.get("current_waitpoint_id") != "" || e.get("current_suspension_id") != "" {
			c.fault(RuleWaits, e.key, "is %s, but names waitpoint %q and suspension %q", e.get("lifecycle_phase"),
				e.get("current_waitpoint_id"), e.get("current_suspension_id"))
		}
		if s := e.parts["suspension:current"].hash; s != nil && s["closed_at"] == "" {
			c.fault(RuleWaits, e.key, "is %s, but its suspension is open", e.get("lifecycle_phase"))
		}
	}
	for id, w := range p.waitpoints {
		if w.record == nil {
			c.fault(RuleKeys, w.key, "companions of a waitpoint without its record")
			continue
		}
		c.waitpoint(p, id, w)
		// The entry of a waitpoint that has been activated in between is removed when it is due.
		if _, expiring := expiries[id]; !expiring && w.record["state"] == "pending" && w.record["expires_at"] != "" {
			c.fault(RuleTimers, p.key("idx:"+p.tag+":pending_waitpoint_expiry"), "does not hold %s, which expires at %s", id,
				w.record["expires_at"])
		}
	}
	for id := range expiries {
		if p.waitpoints[id] == nil {
			c.fault(RuleTimers, p.key("idx:"+p.tag+":pending_waitpoint_expiry"), "holds %s, which does not exist", id)
		}
	}
}

// suspended checks an execution that waits for signals.
func (c *checker) suspended(p *partition, e *execution, timeouts map[string]float64) {
	s, id := e.parts["suspension:current"].hash, e.get("current_waitpoint_id")
	w := p.waitpoints[id]
	switch {
	case s == nil || s["closed_at"] != "":
		c.fault(RuleStuck, e.key, "is suspended without an open suspension")
		return
	case w == nil || w.record["state"] != "active":
		c.fault(RuleStuck, e.key, "is suspended, but waitpoint %q is not active", id)
		return
	case s["waitpoint_id"] != id || s["suspension_id"] != e.get("current_suspension_id"):
		c.fault(RuleWaits, e.key, "waits at %s in suspension %s, its record says %s in %s", id, e.get("current_suspension_id"),
			s["waitpoint_id"], s["suspension_id"])
	case w.condition["closed"] == "1":
		c.fault(RuleStuck, w.key, "is active, but its condition is closed")
	}
	due, armed := timeouts[e.id]
	if armed != (s["timeout_at"] != "") || armed && decimal(due) != s["timeout_at"] {
		c.fault(RuleTimers, e.key, "timeout_at is %q, in suspension_timeout: %t (%s)", s["timeout_at"], armed, decimal(due))
	}
	if e.waitpoint() && e.get("current_attempt_index") != "" {
		c.fault(RuleWaits, e.key, "is a waitpoint with attempt %s", e.get("current_attempt_index"))
	}
}

// waitpoint checks whom a waitpoint belongs to, and that a closed one has a closed condition.
func (c *checker) waitpoint(p *partition, id string, w *waitpoint) {
	e := p.executions[w.record["execution_id"]]
	if w.record["waitpoint_id"] != id || e == nil || e.core == nil {
		c.fault(RuleWaits, w.key, "says that it is waitpoint %s of %s", w.record["waitpoint_id"], w.record["execution_id"])
		return
	}
	if !e.parts["waitpoints"].set[id] {
		c.fault(RuleWaits, w.key, "is not among the waitpoints of %s", e.id)
	}
	if w.record["state"] == "active" && e.get("current_waitpoint_id") != id {
		c.fault(RuleWaits, w.key, "is active, but %s waits at %q", e.id, e.get("current_waitpoint_id"))
	}
	if w.condition != nil && (w.condition["closed"] == "1") == w.open() {
		c.fault(RuleWaits, w.key, "is %s, closed in its condition: %s", w.record["state"], w.condition["closed"])
	}
	satisfied := 0
	for field, v := range w.condition {
		if strings.HasSuffix(field, ":satisfied") && v == "1" {
			satisfied++
		}
	}
	if got := number(w.condition["satisfied_count"]); got != satisfied {
		c.fault(RuleWaits, w.key, "satisfied_count is %d, %d matchers are", got, satisfied)
	}
}

// journal checks the recorded size of a journal.
func (c *checker) journal(e *execution) {
	size := 0
	for name, v := range e.parts["journal"].hash {
		size += len(name) + len(v) + entryOverhead
	}
	if got := number(e.get("journal")); got != size {
		c.fault(RuleWaits, e.key, "journal is %d, its entries take %d", got, size)
	}
}
