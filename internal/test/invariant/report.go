package invariant

import (
	"context"
	"errors"
	"sort"
	"strings"

	"github.com/redis/rueidis"
)

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
