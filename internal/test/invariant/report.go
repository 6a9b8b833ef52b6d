package invariant

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/redis/rueidis"
)

// Mode selects the invariants to check.
type Mode int

const (
	// AnyTime selects the invariants that hold at every moment, also during work.
	AnyTime Mode = iota
	// Quiescent is what holds when all flows are closed and everything postponed is done.
	Quiescent
)

// Rule names one thing that must hold.
type Rule string

// The rules.
const (
	RuleKeys        Rule = "keys"         // every key is documented and belongs to something that exists
	RuleState       Rule = "state"        // the fields of a state fit together
	RuleLaneIndex   Rule = "lane-index"   // an execution is in the lane index of its state and in no other
	RuleFairness    Rule = "fairness"     // where keys take turns, what is eligible stands in the queue of its key, and nothing else does
	RuleScore       Rule = "score"        // an index orders by what the record says
	RuleLease       Rule = "lease"        // lease, its record, expiry index and the worker's set agree
	RuleTimers      Rule = "timers"       // nothing is due for what cannot need it
	RuleAttempts    Rule = "attempts"     // attempts, their records and their index agree
	RuleDeps        Rule = "deps"         // both sides of every edge agree, and with the upstream's outcome
	RuleRows        Rule = "rows"         // the rows of a run, its graph and what belongs to them agree
	RuleFlow        Rule = "flow"         // counters and lists of a flow agree with its members and edges
	RuleClosed      Rule = "closed"       // a flow is closed exactly when all members have ended, with their outcome
	RuleHeld        Rule = "held"         // nothing of a flow that is submitted call by call can be claimed before all of it is
	RuleStuck       Rule = "stuck"        // whatever waits has something that it waits for
	RuleOrder       Rule = "order"        // nothing starts before its upstreams succeeded, or after the flow was stopped
	RuleEvents      Rule = "events"       // the event log tells each attempt and each end once
	RuleResult      Rule = "result"       // what succeeded has a result, nothing else has
	RuleWaits       Rule = "waits"        // what is suspended has an open waitpoint, and nothing else has; journals fit their size
	RuleRunKeys     Rule = "run keys"     // the places and the queue of a key and the records of its runs agree
	RuleBulkJobs    Rule = "bulk jobs"    // a bulk job and its indexes agree
	RuleSchedules   Rule = "schedules"    // a schedule, its indexes and what it starts agree
	RuleBudgets     Rule = "budgets"      // what is reserved of a budget are its reservations, and everybody knows whether it is used up
	RuleQuiescent   Rule = "quiescent"    // nothing is left over when all is done
	RuleUnsettled   Rule = "unsettled"    // a partition kept changing
	RuleUnknownFlow Rule = "unknown-flow" // a flow id leads to a flow
)

// Violation is one thing that does not hold.
type Violation struct {
	Rule   Rule
	Key    string
	Detail string
}

// String names rule, key and fault.
func (v Violation) String() string { return fmt.Sprintf("[%s] %s: %s", v.Rule, v.Key, v.Detail) }

// Report is the result of a check.
type Report struct {
	// Violations are sorted by key.
	Violations []Violation
	// Keys, Executions and Flows count the checked records, so that a test can distinguish an empty keyspace from a
	// consistent one.
	Keys, Executions, Flows int
}

// Err is nil when everything holds, and lists all violations otherwise.
func (r *Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	lines := make([]string, len(r.Violations))
	for i, v := range r.Violations {
		lines[i] = v.String()
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Check reads the keyspace of a prefix and checks it.
func Check(ctx context.Context, client rueidis.Client, prefix string, mode Mode) (*Report, error) {
	s, err := Read(ctx, client, prefix)
	if err != nil {
		return nil, err
	}
	return s.Check(mode), nil
}

// Check checks the snapshot.
func (s *Snapshot) Check(mode Mode) *Report {
	c := &checker{snapshot: s, violations: append([]Violation(nil), s.faults...)}
	report := &Report{Keys: len(s.values)}
	for _, p := range s.partitions {
		c.partition(p, mode)
		report.Executions += len(p.executions)
		report.Flows += len(p.flows)
	}
	for _, tag := range s.unsettled {
		if mode == Quiescent {
			c.fault(RuleUnsettled, tag, "the partition changes all the time")
		}
	}
	report.Violations = c.violations
	sort.Slice(report.Violations, func(i, j int) bool {
		a, b := report.Violations[i], report.Violations[j]
		if a.Key != b.Key {
			return a.Key < b.Key
		}
		return a.String() < b.String()
	})
	return report
}

type checker struct {
	snapshot   *Snapshot
	violations []Violation
}

func (c *checker) fault(rule Rule, key, format string, args ...any) {
	c.violations = append(c.violations, Violation{rule, key, fmt.Sprintf(format, args...)})
}

func (c *checker) partition(p *partition, mode Mode) {
	c.schedules(p)
	c.bulkJobs(p)
	c.checkRunKeys(p)
	c.rows(p)
	for _, e := range p.executions {
		if e.core == nil {
			c.fault(RuleKeys, e.key, "keys of the execution exist, but not its core: %s", e.keyNames())
			continue
		}
		c.state(e)
		if f := p.flows[e.get("flow_id")]; f != nil && f.purging() {
			continue // parts of it may be gone
		}
		c.attempts(e, p.keeps(e))
		if f := p.flows[e.get("flow_id")]; f == nil || !f.rerunning() {
			c.deps(p, e) // while nodes are reset, their edges are, one after the other
		}
		c.result(e)
	}
	c.laneIndexes(p)
	c.queues(p)
	c.leases(p)
	c.timers(p)
	c.heldBack(p)
	c.waits(p)
	c.checkBudgets(p, mode)
	c.gates(p, mode)
	c.closedFlows(p)
	for _, f := range p.flows {
		if f.core == nil {
			c.fault(RuleKeys, f.key, "keys of the flow exist, but not its core")
			continue
		}
		if f.purging() {
			if mode == Quiescent {
				c.fault(RuleQuiescent, f.key, "is not purged to the end")
			}
			continue
		}
		c.flow(p, f)
		if f.contract() {
			c.contractFlow(p, f, mode)
		}
		if f.managed() {
			c.managedFlow(p, f)
			c.events(p, f)
		}
	}
	c.membership(p)
	c.runs(p)
	c.children(p)
	c.backlog(p)
	c.owedSiblings(p, mode)
	if mode == Quiescent {
		c.quiescent(p)
		c.settledChildren(p)
	}
}

func (e *execution) keyNames() string {
	var names []string
	for part := range e.parts {
		names = append(names, part)
	}
	for edge := range e.deps {
		names = append(names, "dep:"+edge)
	}
	for number := range e.attempts {
		names = append(names, "attempt "+number)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}
