// Package waitreason has the reasons for which nodes do not run. The comment of fabrictype.WaitReason describes them.
package waitreason

import "github.com/flowfabric/flowfabric-go/fabrictype"

// A node waits for other nodes, runs or people.
const (
	Upstreams fabrictype.WaitReason = "upstreams"
	Join      fabrictype.WaitReason = "join"
	Settling  fabrictype.WaitReason = "settling"
	ChildRun  fabrictype.WaitReason = "child_run"
	Signals   fabrictype.WaitReason = "signals"
	Escalated fabrictype.WaitReason = "escalated"
)

// A node could start, but no worker takes it.
const (
	Worker       fabrictype.WaitReason = "worker"
	Unserved     fabrictype.WaitReason = "unserved"
	Unregistered fabrictype.WaitReason = "unregistered"
	Capability   fabrictype.WaitReason = "capability"
	WorkerLost   fabrictype.WaitReason = "worker_lost"
	LeaseRevoked fabrictype.WaitReason = "lease_revoked"
)

// Something keeps a node from starting.
const (
	LanePaused     fabrictype.WaitReason = "lane_paused"
	ActivityPaused fabrictype.WaitReason = "activity_paused"
	RunPaused      fabrictype.WaitReason = "run_paused"
	Operator       fabrictype.WaitReason = "operator"
	Limit          fabrictype.WaitReason = "limit"
	RateWindow     fabrictype.WaitReason = "rate_window"
	Budget         fabrictype.WaitReason = "budget"
)

// A node waits for a time, or for a program that is late.
const (
	Timer         fabrictype.WaitReason = "timer"
	Delay         fabrictype.WaitReason = "delay"
	Start         fabrictype.WaitReason = "start"
	Queue         fabrictype.WaitReason = "queue"
	Retry         fabrictype.WaitReason = "retry"
	KeeperOverdue fabrictype.WaitReason = "keeper_overdue"
	Submission    fabrictype.WaitReason = "submission"
	RunOver       fabrictype.WaitReason = "run_over"
	Other         fabrictype.WaitReason = "other"
)

// All returns all reasons, in the order of their declaration.
func All() []fabrictype.WaitReason {
	return []fabrictype.WaitReason{
		Upstreams, Join, Settling, ChildRun, Signals, Escalated,
		Worker, Unserved, Unregistered, Capability, WorkerLost, LeaseRevoked,
		LanePaused, ActivityPaused, RunPaused, Operator, Limit, RateWindow, Budget,
		Timer, Delay, Start, Retry, KeeperOverdue, Submission, RunOver, Other,
	}
}
