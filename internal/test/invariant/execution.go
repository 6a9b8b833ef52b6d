package invariant

import (
	"strconv"
	"strings"
)

// blockedIndex names the lane index of each eligibility state of a runnable execution.
func blockedIndex(eligibility string) (string, bool) {
	index, ok := map[string]string{
		"eligible_now": "eligible", "not_eligible_until_time": "delayed", "blocked_by_dependencies": "blocked:dependencies",
		"blocked_by_budget": "blocked:budget", "blocked_by_quota": "blocked:quota", "blocked_by_route": "blocked:route",
		"blocked_by_operator": "blocked:operator", "blocked_by_lane_state": "",
	}[eligibility]
	return index, ok
}

// home is the lane index that an execution must be in. known is false for states that name none.
func (e *execution) home() (lane, index string, known bool) {
	switch e.get("lifecycle_phase") {
	case "terminal":
		return e.lane(), "terminal", true
	case "suspended":
		return e.lane(), "suspended", true
	case "active":
		if lane := e.get("current_lane"); lane != "" {
			return lane, "active", true
		}
		return e.lane(), "active", true
	}
	index, ok := blockedIndex(e.get("eligibility_state"))
	return e.lane(), index, ok && index != ""
}

func (e *execution) lane() string {
	if lane := e.get("lane_id"); lane != "" {
		return lane
	}
	return e.get("current_lane")
}

func publicState(e *execution) string {
	switch e.get("lifecycle_phase") {
	case "terminal":
		if e.get("terminal_outcome") == "success" {
			return "completed"
		}
		return e.get("terminal_outcome")
	case "active", "suspended":
		return e.get("lifecycle_phase")
	}
	switch e.get("eligibility_state") {
	case "eligible_now":
		return "waiting"
	case "not_eligible_until_time":
		return "delayed"
	case "blocked_by_dependencies":
		if e.get("ending_lease") != "" {
			return "active" // its function has been notified to stop
		}
		return "waiting_children"
	}
	return "rate_limited"
}

// state checks that the fields of the state vector fit together.
func (c *checker) state(e *execution) {
	expect := func(field string, allowed ...string) {
		for _, v := range allowed {
			if e.get(field) == v {
				return
			}
		}
		c.fault(RuleState, e.key, "%s is %q in phase %s (%s), must be %s", field, e.get(field), e.get("lifecycle_phase"),
			e.get("ownership_state"), strings.Join(allowed, " or "))
	}
	expect("execution_id", e.id)
	expect("lifecycle_phase", "runnable", "active", "suspended", "terminal")
	expect("public_state", publicState(e))
	switch e.get("lifecycle_phase") {
	case "runnable":
		expect("ownership_state", "unowned")
		expect("terminal_outcome", "none")
		if e.get("ending") != "" {
			expect("attempt_state", "attempt_terminal")
		} else {
			expect("attempt_state", "pending_first_attempt", "pending_retry_attempt", "pending_replay_attempt", "attempt_interrupted",
				"none", "")
		}
		if _, ok := blockedIndex(e.get("eligibility_state")); !ok {
			c.fault(RuleState, e.key, "eligibility_state is %q", e.get("eligibility_state"))
		}
	case "active":
		expect("eligibility_state", "not_applicable")
		expect("terminal_outcome", "none")
		expect("ownership_state", "leased", "lease_expired_reclaimable", "lease_revoked")
		if e.get("ownership_state") == "leased" {
			expect("attempt_state", "running_attempt")
			expect("blocking_reason", "none")
		} else {
			expect("attempt_state", "attempt_interrupted")
			expect("blocking_reason", "waiting_for_worker")
		}
	case "suspended":
		expect("ownership_state", "unowned")
		expect("eligibility_state", "not_applicable")
		expect("terminal_outcome", "none")
	case "terminal":
		expect("ownership_state", "unowned")
		expect("eligibility_state", "not_applicable")
		expect("blocking_reason", "none")
		expect("terminal_outcome", "success", "failed", "cancelled", "expired", "skipped")
		if e.get("completed_at") == "" {
			c.fault(RuleState, e.key, "completed_at is missing")
		}
		if e.get("current_attempt_index") != "" {
			expect("attempt_state", "attempt_terminal", "none")
		}
	}
	if e.get("lifecycle_phase") != "active" {
		for _, field := range []string{"current_lease_id", "current_worker_id", "current_worker_instance_id", "lease_expires_at"} {
			if e.get(field) != "" {
				c.fault(RuleState, e.key, "%s is %q although no worker holds the execution", field, e.get(field))
			}
		}
	}
}

// attempts checks the attempt records against the core and their index.
func (c *checker) attempts(e *execution, kept bool) {
	gone := 0 // the number of missing records
	if e.inRow() {
		gone = 1
		if strconv.Itoa(len(e.attempts)+1) != e.get("total_attempt_count") {
			c.fault(RuleAttempts, e.key, "the current attempt is marked as stored in the row only; %d have records, %s in all",
				len(e.attempts), e.get("total_attempt_count"))
		}
		if phase := e.get("lifecycle_phase"); phase != "active" && e.get("terminal_outcome") != "success" {
			c.fault(RuleAttempts, e.key, "the current attempt has no record, in phase %s", phase)
		}
	}
	total, _ := strconv.Atoi(e.get("total_attempt_count"))
	indexKey := strings.TrimSuffix(e.key, "core") + "attempts"
	for number := range e.parts["attempts"].scores {
		if a := e.attempts[number]; a == nil || a.record == nil {
			c.fault(RuleAttempts, indexKey, "attempt %s has no record", number)
		}
	}
	if n := len(e.parts["attempts"].scores); n != total-gone {
		c.fault(RuleAttempts, e.key, "total_attempt_count is %d, the index holds %d", total, n)
	}
	if current := e.get("current_attempt_index"); total > 0 && current != strconv.Itoa(total-1) {
		c.fault(RuleAttempts, e.key, "current_attempt_index is %q of %d attempts", current, total)
	} else if total == 0 && current != "" {
		c.fault(RuleAttempts, e.key, "current_attempt_index is %q without an attempt", current)
	}
	ids := make(map[string]string)
	started, succeeded := 0, 0
	for number, a := range e.attempts {
		if a.record == nil {
			c.fault(RuleKeys, a.key, "companions of an attempt without its record")
			continue
		}
		c.attempt(e, number, a)
		if other, taken := ids[a.record["attempt_id"]]; taken {
			c.fault(RuleAttempts, a.key, "attempt_id %s is also the id of attempt %s", a.record["attempt_id"], other)
		}
		ids[a.record["attempt_id"]] = number
		switch a.record["attempt_state"] {
		case "started":
			started++
		case "ended_success":
			succeeded++
		}
	}
	if started > 1 || (started > 0 && e.get("lifecycle_phase") != "active") {
		c.fault(RuleAttempts, e.key, "%d attempts are started in phase %s", started, e.get("lifecycle_phase"))
	}
	// Each replay may have followed a success.
	replays, success := number(e.get("replay_count")), e.get("terminal_outcome") == "success"
	if gone == 0 && (succeeded > 1+replays || success && succeeded == 0 && !e.waitpoint() && !kept || !success && succeeded > replays) {
		c.fault(RuleAttempts, e.key, "%d attempts succeeded, outcome is %s", succeeded, e.get("terminal_outcome"))
	}
}

// keeps reports whether an execution is of a fork, in which nodes succeed without an attempt.
func (p *partition) keeps(e *execution) bool {
	f := p.flows[e.get("flow_id")]
	return f != nil && f.core["forked_from"] != "" && len(e.attempts) == 0
}

// inRow reports whether the current attempt of an execution has no record because it only ran and succeeded.
func (e *execution) inRow() bool { return e.row != nil && e.get("in_row") != "" }

func (c *checker) attempt(e *execution, number string, a *attempt) {
	r := a.record
	if _, indexed := e.parts["attempts"].scores[number]; !indexed {
		c.fault(RuleAttempts, a.key, "the attempt is not in the index")
	}
	if r["attempt_index"] != number || r["execution_id"] != e.id {
		c.fault(RuleAttempts, a.key, "says that it is attempt %s of %s", r["attempt_index"], r["execution_id"])
	}
	ended := strings.HasPrefix(r["attempt_state"], "ended_") || r["attempt_state"] == "interrupted_reclaimed"
	if ended != (r["ended_at"] != "") {
		c.fault(RuleAttempts, a.key, "attempt_state is %s, ended_at is %q", r["attempt_state"], r["ended_at"])
	}
	current := number == e.get("current_attempt_index")
	switch {
	case !current && !ended:
		c.fault(RuleAttempts, a.key, "attempt_state is %s, but attempt %s is the current one", r["attempt_state"],
			e.get("current_attempt_index"))
	case current && e.terminal() && !ended:
		c.fault(RuleAttempts, a.key, "attempt_state is %s, but the execution has ended", r["attempt_state"])
	case current && e.get("lifecycle_phase") == "active":
		if r["attempt_state"] != "started" {
			c.fault(RuleAttempts, a.key, "attempt_state is %s, but the execution is active", r["attempt_state"])
		}
		if r["attempt_id"] != e.get("current_attempt_id") || r["lease_id"] != e.get("current_lease_id") ||
			r["lease_epoch"] != e.get("current_lease_epoch") {
			c.fault(RuleAttempts, a.key, "attempt %s, lease %s, epoch %s; the core says %s, %s, %s", r["attempt_id"], r["lease_id"],
				r["lease_epoch"], e.get("current_attempt_id"), e.get("current_lease_id"), e.get("current_lease_epoch"))
		}
	case current && e.get("lifecycle_phase") == "runnable":
		interrupted := e.get("attempt_state") == "attempt_interrupted"
		if interrupted == ended {
			c.fault(RuleAttempts, a.key, "attempt_state is %s, the core's is %s", r["attempt_state"], e.get("attempt_state"))
		}
	}
	if current && e.terminal() && ended {
		want := map[string]string{
			"success": "ended_success", "failed": "ended_failure", "cancelled": "ended_cancelled", "expired": "ended_failure",
			"skipped": "ended_cancelled",
		}[e.get("terminal_outcome")]
		// An execution that ends between two attempts, or is replayed and then not run, leaves the last one as it was.
		replayed := e.get("replay_count") != "0" && e.get("replay_count") != ""
		if got := r["attempt_state"]; got != want && got != "ended_failure" && !replayed {
			c.fault(RuleAttempts, a.key, "attempt_state is %s, the outcome is %s", got, e.get("terminal_outcome"))
		}
	}
}

// result checks that exactly the succeeded executions have a result.
func (c *checker) result(e *execution) {
	_, has := e.parts["result"]
	key := strings.TrimSuffix(e.key, "core") + "result"
	if success := e.get("terminal_outcome") == "success"; has && !success && number(e.get("replay_count")) == 0 {
		c.fault(RuleResult, key, "there is a result, but the execution is %s", e.get("public_state"))
	} else if !has && success && e.managed() {
		c.fault(RuleResult, key, "the result is missing, but the execution succeeded")
	}
}

// laneIndexes checks that every execution is in the index of its state and in no other.
func (c *checker) laneIndexes(p *partition) {
	found := make(map[string]bool)
	for _, l := range p.lanes {
		for id, score := range l.scores {
			if id == pauseMark && l.name == "eligible" {
				continue
			}
			e := p.executions[id]
			if e == nil || e.core == nil {
				c.fault(RuleLaneIndex, l.key, "holds %s, which does not exist", id)
				continue
			}
			lane, index, known := e.home()
			if e.row != nil && (unlisted(l.name) || known && unlisted(index)) {
				c.fault(RuleLaneIndex, l.key, "holds %s, which has a row and is %s, %s", id, e.get("lifecycle_phase"),
					e.get("eligibility_state"))
				continue
			}
			if known && (lane != l.lane || index != l.name) {
				c.fault(RuleLaneIndex, l.key, "holds %s, which is %s, %s, %s on lane %s and belongs into %s", id,
					e.get("lifecycle_phase"), e.get("ownership_state"), e.get("eligibility_state"), lane, index)
				continue
			}
			if !known && !strings.HasPrefix(l.name, "blocked:") {
				c.fault(RuleLaneIndex, l.key, "holds %s, which is %s", id, e.get("eligibility_state"))
			}
			found[id] = true
			c.score(e, l, score)
		}
	}
	for id, e := range p.executions {
		lane, index, known := e.home()
		if e.core == nil || !known || e.row != nil && unlisted(index) || p.rootLeft(e) {
			continue
		}
		if f := p.flows[e.get("flow_id")]; f != nil && f.purging() {
			continue
		}
		if !found[id] {
			c.fault(RuleLaneIndex, e.key, "is %s, %s, %s, but not in %s of lane %s", e.get("lifecycle_phase"),
				e.get("ownership_state"), e.get("eligibility_state"), index, lane)
		}
	}
}

// priorityStep is by how much (ms) one step of priority moves an execution ahead.
const priorityStep = 1e12

func (c *checker) score(e *execution, l laneIndex, score float64) {
	var want float64
	switch l.name {
	case "eligible":
		want = e.number("created_at") - e.number("priority")*priorityStep
	case "delayed":
		want = e.number("delay_until")
	case "terminal":
		want = e.number("completed_at")
	case "blocked:dependencies":
		want = e.number("created_at")
	case "suspended":
		// An escalated suspension no longer has a timeout, and stays where it was.
		timeout := e.parts["suspension:current"].hash["timeout_at"]
		if timeout == "" {
			return
		}
		want, _ = strconv.ParseFloat(timeout, 64)
	default:
		return
	}
	if score != want {
		c.fault(RuleScore, l.key, "%s has score %s, must have %s", e.id, decimal(score), decimal(want))
	}
}

func (e *execution) number(field string) float64 {
	n, _ := strconv.ParseFloat(e.get(field), 64)
	return n
}

// leases checks the leases of executions and workers.
func (c *checker) leases(p *partition) {
	expiryKey := p.key("idx:" + p.tag + ":lease_expiry")
	expiry := p.indexes["lease_expiry"].scores
	for id, e := range p.executions {
		if e.core == nil {
			continue
		}
		active, owner := e.get("lifecycle_phase") == "active", e.get("ownership_state")
		score, expiring := expiry[id]
		if expiring && !active {
			c.fault(RuleLease, expiryKey, "holds %s, which is %s", id, e.get("lifecycle_phase"))
		}
		if active && owner != "lease_revoked" && !expiring {
			c.fault(RuleLease, expiryKey, "does not hold %s, which is active", id)
		}
		if active && owner == "leased" && expiring && score != e.number("lease_expires_at") {
			c.fault(RuleLease, expiryKey, "%s has score %s, its lease ends at %s", id, decimal(score), e.get("lease_expires_at"))
		}
		holder := e.get("current_worker_instance_id")
		if active && e.row == nil && owner != "lease_revoked" && !p.workers[holder].set[id] {
			c.fault(RuleLease, p.key("idx:"+p.tag+":worker:"+holder+":leases"), "does not hold %s, which the worker has", id)
		}
		c.leaseRecord(e, active, owner)
	}
	for id := range expiry {
		if e := p.executions[id]; e == nil || e.core == nil {
			c.fault(RuleLease, expiryKey, "holds %s, which does not exist", id)
		}
	}
	for instance, v := range p.workers {
		for id := range v.set {
			e := p.executions[id]
			if e != nil && e.row != nil {
				continue // reported as such
			}
			if e == nil || e.get("lifecycle_phase") != "active" || e.get("current_worker_instance_id") != instance {
				c.fault(RuleLease, p.key("idx:"+p.tag+":worker:"+instance+":leases"), "holds %s, which the worker does not have", id)
			}
		}
	}
	for _, l := range p.reclaimable {
		for id := range l.scores {
			e := p.executions[id]
			if e == nil || e.get("lifecycle_phase") != "active" || e.get("ownership_state") == "leased" || e.get("current_lane") != l.lane {
				c.fault(RuleLease, l.key, "holds %s, whose worker is not lost", id)
			}
		}
	}
}

func (c *checker) leaseRecord(e *execution, active bool, owner string) {
	v, exists := e.parts["lease:current"]
	key := strings.TrimSuffix(e.key, "core") + "lease:current"
	if exists && !active {
		c.fault(RuleLease, key, "exists, but the execution is %s", e.get("lifecycle_phase"))
		return
	}
	if !exists && active && owner == "leased" {
		// The record expires some time after the lease, possibly before any call marks the lease as expired.
		return
	}
	if !exists {
		return
	}
	for field, want := range map[string]string{
		"lease_id": "current_lease_id", "lease_epoch": "current_lease_epoch", "attempt_id": "current_attempt_id",
		"worker_instance_id": "current_worker_instance_id", "expires_at": "lease_expires_at",
	} {
		if v.hash[field] != e.get(want) {
			c.fault(RuleLease, key, "%s is %q, the core's %s is %q", field, v.hash[field], want, e.get(want))
		}
	}
}

// timers checks that nothing is due for an execution or flow that has no use for it.
func (c *checker) timers(p *partition) {
	allowed := map[string]func(e *execution) bool{
		"attempt_timeout":    func(e *execution) bool { return e.get("lifecycle_phase") == "active" },
		"execution_deadline": func(e *execution) bool { return !e.terminal() },
		"suspension_timeout": func(e *execution) bool { return e.get("lifecycle_phase") == "suspended" },
		"start_deadlines": func(e *execution) bool {
			return e.get("lifecycle_phase") == "runnable" && e.get("current_attempt_index") == ""
		},
	}
	allowed["open_waits"] = func(e *execution) bool {
		return e.get("lifecycle_phase") == "suspended" && e.get("managed") == "1"
	}
	for id, e := range p.executions {
		if _, listed := p.indexes["open_waits"].scores[id]; e.core != nil && allowed["open_waits"](e) && !listed {
			c.fault(RuleTimers, p.key("ffx:"+p.tag+":open_waits"), "does not hold %s, which is suspended", id)
		}
	}
	for name, fits := range allowed {
		family := "idx:"
		if name == "start_deadlines" || name == "open_waits" {
			family = "ffx:"
		}
		for id := range p.indexes[name].scores {
			e := p.executions[id]
			if e == nil || e.core == nil {
				c.fault(RuleTimers, p.key(family+p.tag+":"+name), "holds %s, which does not exist", id)
			} else if !fits(e) {
				c.fault(RuleTimers, p.key(family+p.tag+":"+name), "holds %s, which is %s", id, e.get("lifecycle_phase"))
			}
		}
	}
	key := p.key("ffx:" + p.tag + ":flow_deadlines")
	deadlines := p.indexes["flow_deadlines"].scores
	for id := range deadlines {
		if f := p.flows[id]; f == nil || f.core == nil {
			c.fault(RuleTimers, key, "holds %s, which does not exist", id)
		} else if f.closed() {
			c.fault(RuleTimers, key, "holds %s, which is closed", id)
		}
	}
	for id, f := range p.flows {
		if _, armed := deadlines[id]; f.core != nil && f.managed() && f.open() && f.core["deadline_at"] != "" && !armed {
			c.fault(RuleTimers, key, "does not hold %s, which expires at %s", id, f.core["deadline_at"])
		}
	}
}

// closedFlows checks the list of flows that have ended, by the time of their end.
func (c *checker) closedFlows(p *partition) {
	key := p.key("ffx:" + p.tag + ":closed_flows")
	listed := c.runList(key, p.indexes["closed_flows"].list)
	for id, f := range p.flows {
		if f.core == nil || !f.managed() || f.run == nil {
			continue
		}
		if f.closed() != (f.run.closed > 0) {
			c.fault(RuleClosed, f.key, "closed_at is %q, the rows say %d", f.core["closed_at"], f.run.closed)
		}
		if name, isListed := listed[listedRun{f.run.closed, id}]; f.run.closed > 0 && (!isListed || name != "") {
			c.fault(RuleClosed, key, "does not hold %s, which closed at %s", id, f.core["closed_at"])
		}
		if f.run.closed > 0 && f.run.closed < 1000*int64(number(f.core["closed_at"])) {
			c.fault(RuleClosed, key, "holds %s at %d µs, closed_at is %s", id, f.run.closed, f.core["closed_at"])
		}
	}
	c.retention(p)
}

// retention checks the list of flows that are to be purged, by the time when they are.
func (c *checker) retention(p *partition) {
	key := p.key("ffx:" + p.tag + ":purge_due")
	due := p.indexes["purge_due"].scores
	for id, at := range due {
		f := p.flows[id]
		switch {
		case f == nil || f.core == nil:
			c.fault(RuleUnknownFlow, key, "holds %s, which does not exist", id)
		case !f.closed():
			c.fault(RuleClosed, key, "holds %s, which is not closed", id)
		case at < float64(number(f.core["closed_at"])):
			c.fault(RuleClosed, key, "holds %s at %f, before it closed", id, at)
		}
	}
	for id, f := range p.flows {
		if f.core == nil || !f.managed() || !f.closed() || f.core["retention"] == "" || strings.Contains(f.core["retention"], "-1") {
			continue
		}
		if _, found := due[id]; !found {
			c.fault(RuleClosed, key, "does not hold %s, which closed at %s", id, f.core["closed_at"])
		}
	}
}
