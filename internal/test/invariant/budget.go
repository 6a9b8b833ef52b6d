package invariant

import (
	"strconv"
	"strings"
)

// budgetRecord is everything that belongs to one budget.
type budgetRecord struct {
	key   string
	parts map[string]value // "" is the record
}

// sortBudget files a key of a partition of budgets: "budget:<tag>:<id>…" or "ffx:<tag>:…".
func (p *partition) sortBudget(head, text string, v value) string {
	if head == "ffx" {
		if text == "budget_due" {
			p.indexes[text] = v
			return wrongType(v, "zset")
		}
		rest, ok := strings.CutPrefix(text, "budget:")
		id, part, _ := strings.Cut(rest, ":")
		if !ok || part != "reserved" && part != "reservations" {
			return unknownKey
		}
		p.budget(id).parts[part] = v
		return wrongType(v, "hash")
	}
	id, part, _ := strings.Cut(text, ":")
	if part != "" && part != "limits" && part != "usage" {
		return unknownKey
	}
	p.budget(id).parts[part] = v
	return wrongType(v, "hash")
}

func (p *partition) budget(id string) *budgetRecord {
	b := p.budgets[id]
	if b == nil {
		b = &budgetRecord{key: p.key("budget:" + p.tag + ":" + id), parts: make(map[string]value)}
		p.budgets[id] = b
	}
	return b
}

// checkBudgets checks the budgets of a partition of theirs.
func (c *checker) checkBudgets(p *partition, mode Mode) {
	for _, b := range p.budgets {
		if b.parts[""].hash["budget_id"] == "" {
			c.fault(RuleKeys, b.key, "keys of the budget exist, but not its record")
			continue
		}
		c.reserved(b)
		c.watched(p, b)
		if n := len(b.parts["reservations"].hash); n > 0 && mode == Quiescent {
			c.fault(RuleQuiescent, b.key, "%d reservations are held", n)
		}
		for name, text := range b.parts["usage"].hash {
			if b.parts[""].hash["gate"] != "" && number(text) < 0 {
				c.fault(RuleBudgets, b.key, "%s of %s are used", text, name)
			}
		}
	}
	for text := range p.indexes["budget_due"].scores {
		kind, rest, _ := strings.Cut(text, " ")
		if id, reservation, _ := strings.Cut(rest, " "); kind == "held" {
			if b := p.budgets[id]; b == nil || b.parts["reservations"].hash[reservation] == "" {
				c.fault(RuleBudgets, p.key("ffx:"+p.tag+":budget_due"), "%s is owed, but the reservation does not exist", text)
			}
		}
		if mode == Quiescent && (kind == "gate" || kind == "breach") {
			c.fault(RuleQuiescent, p.key("ffx:"+p.tag+":budget_due"), "%s is owed", text)
		}
	}
}

// reserved compares a budget's reserved amounts with its reservations.
func (c *checker) reserved(b *budgetRecord) {
	sums := make(map[string]int)
	for id, text := range b.parts["reservations"].hash {
		amount, name, ok := strings.Cut(text, " ")
		n, err := strconv.Atoi(amount)
		if !ok || err != nil || n < 0 {
			c.fault(RuleBudgets, b.key, "reservation %s is %q", id, text)
		}
		sums[name] += n
	}
	for name, text := range b.parts["reserved"].hash {
		if sums[name] != number(text) {
			c.fault(RuleBudgets, b.key, "%s of %s are reserved, the reservations are %d", text, name, sums[name])
		}
		delete(sums, name)
	}
	for name, sum := range sums {
		if sum != 0 {
			c.fault(RuleBudgets, b.key, "none of %s is reserved, the reservations are %d", name, sum)
		}
	}
}

// watched reports reservations whose lease no keeper checks.
func (c *checker) watched(p *partition, b *budgetRecord) {
	for id := range b.parts["reservations"].hash {
		if _, found := p.indexes["budget_due"].scores["held "+b.parts[""].hash["budget_id"]+" "+id]; !found {
			c.fault(RuleBudgets, b.key, "no keeper checks the lease of reservation %s", id)
		}
	}
}

// budgetsOfGraph is the field budgets of a run that uses the budgets of its graph.
const budgetsOfGraph = "graph"

// gates checks the budget gates of a partition of flows.
func (c *checker) gates(p *partition, mode Mode) {
	for _, f := range p.flows {
		own := f.core["budgets"] != "" && f.core["budgets"] != budgetsOfGraph
		if _, found := f.parts["budgets"]; found != own {
			c.fault(RuleBudgets, f.key, "its record and the key of its budgets do not agree on whether it has any of its own")
		}
	}
	for _, e := range p.executions {
		f := p.flows[e.get("flow_id")]
		if e.get("eligibility_state") != "blocked_by_budget" || f == nil || f.core["budget_ids"] == "" {
			continue
		}
		waits := false
		for id := range strings.SplitSeq(f.core["budget_ids"], ",") {
			_, found := p.budgetWaiting[id].scores[e.id]
			waits = waits || found
		}
		if !waits {
			c.fault(RuleStuck, e.key, "is blocked by a budget, but waits for none")
		}
	}
	if mode != Quiescent {
		return
	}
	for id, text := range p.indexes["budget_gates"].hash {
		_, closed, _ := strings.Cut(text, " ")
		for _, other := range c.snapshot.partitions {
			if b := other.budgets[id]; b != nil && b.parts[""].hash["closed"] != closed {
				c.fault(RuleBudgets, p.key("ffx:"+p.tag+":budget_gates"), "%s is %q, the budget says %q", id, closed, b.parts[""].hash["closed"])
			}
		}
	}
}
