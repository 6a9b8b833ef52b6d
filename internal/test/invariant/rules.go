package invariant

import "fmt"

// Mode selects the invariants to check.
type Mode int

const (
	// AnyTime selects the invariants that hold at every moment, also during work.
	AnyTime Mode = iota
	// Quiescent selects also the invariants that hold only when all flows are closed and all postponed work is done.
	Quiescent
)

// Rule names one thing that must hold.
type Rule string

// The rules.
const (
	RuleKeys        Rule = "keys"         // every key is documented and belongs to something that exists
	RuleState       Rule = "state"        // the fields of a state fit together
	RuleLaneIndex   Rule = "lane-index"   // an execution is in the lane index of its state and in no other
	RuleFairness    Rule = "fairness"     // eligible executions of lanes with fairness are in the queues of their keys
	RuleScore       Rule = "score"        // scores of an index agree with the records
	RuleLease       Rule = "lease"        // lease, its record, expiry index and the worker's set agree
	RuleTimers      Rule = "timers"       // timers exist only for executions that need them
	RuleAttempts    Rule = "attempts"     // attempts, their records and their index agree
	RuleDeps        Rule = "deps"         // both sides of every edge agree, and with the upstream's outcome
	RuleRows        Rule = "rows"         // the rows of a run, its graph and its other keys agree
	RuleFlow        Rule = "flow"         // counters and lists of a flow agree with its members and edges
	RuleClosed      Rule = "closed"       // a flow is closed exactly when all members have ended, with their outcome
	RuleHeld        Rule = "held"         // nothing of a flow that is submitted call by call can be claimed before all of it is
	RuleStuck       Rule = "stuck"        // whatever waits has something that it waits for
	RuleOrder       Rule = "order"        // nothing starts before its upstreams succeeded, or after the flow was stopped
	RuleEvents      Rule = "events"       // the event log contains each attempt and each end once
	RuleResult      Rule = "result"       // exactly the succeeded executions have a result
	RuleWaits       Rule = "waits"        // exactly suspended executions have an open waitpoint; journals fit their size
	RuleRunKeys     Rule = "run keys"     // the places and the queue of a key and the records of its runs agree
	RuleBulkJobs    Rule = "bulk jobs"    // a bulk job and its indexes agree
	RuleSchedules   Rule = "schedules"    // a schedule, its indexes and its runs agree
	RuleBudgets     Rule = "budgets"      // reserved amounts equal the reservations, and gates agree with the budget
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

// checker gathers the violations of the rules in a snapshot.
type checker struct {
	snapshot   *Snapshot
	violations []Violation
}

func (c *checker) fault(rule Rule, key, format string, args ...any) {
	c.violations = append(c.violations, Violation{rule, key, fmt.Sprintf(format, args...)})
}
