// Package waitreason has the reasons for which nodes do not run. The comment of fabrictype.Explanation describes them.
package waitreason

// A node waits for other nodes, runs or people.
const (
	Upstreams = "upstreams"
	Join      = "join"
	Settling  = "settling"
	ChildRun  = "child_run"
	Signals   = "signals"
	Escalated = "escalated"
)

// A node could start, but no worker takes it.
const (
	Worker       = "worker"
	Unserved     = "unserved"
	Unregistered = "unregistered"
	Capability   = "capability"
	WorkerLost   = "worker_lost"
	LeaseRevoked = "lease_revoked"
	Undecodable  = "undecodable"
)

// Something keeps a node from starting.
const (
	LanePaused     = "lane_paused"
	ActivityPaused = "activity_paused"
	RunPaused      = "run_paused"
	Operator       = "operator"
	Limit          = "limit"
	RateWindow     = "rate_window"
	Budget         = "budget"
)

// A node waits for a time, or for a program that is late.
const (
	Timer         = "timer"
	Delay         = "delay"
	Start         = "start"
	Queue         = "queue"
	Retry         = "retry"
	KeeperOverdue = "keeper_overdue"
	Submission    = "submission"
	RunOver       = "run_over"
	Other         = "other"
)

// All returns all reasons, in the order of their declaration.
func All() []string {
	return []string{
		Upstreams, Join, Settling, ChildRun, Signals, Escalated,
		Worker, Unserved, Unregistered, Capability, WorkerLost, LeaseRevoked, Undecodable,
		LanePaused, ActivityPaused, RunPaused, Operator, Limit, RateWindow, Budget,
		Timer, Delay, Start, Retry, KeeperOverdue, Submission, RunOver, Other,
	}
}
