// Package auditlog describes who has changed what: limits, budgets, schedules, lanes, activities, workers, bulk jobs,
// secrets, tokens, sessions, priorities, later starts and purges of runs, and who has answered a wait by a link, a
// server or a client that acts for an actor. Client.Audit of package runtime reads the log. Who starts, cancels, pauses
// or reruns a run, or ends its waits, is kept with the run, in its description and its events, and so is who has sent
// any signal to it.
//
//	for entry, err := range client.Audit(ctx, auditlog.Query{Actor: "ann"}) { … }
package auditlog

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// Action is what was done. Later versions may add actions.
type Action string

// Actions.
const (
	CreateBudget fabrictype.AuditAction = "create_budget"
	SetBudget    fabrictype.AuditAction = "set_budget"
	ResetBudget  fabrictype.AuditAction = "reset_budget"
	DeleteBudget fabrictype.AuditAction = "delete_budget"

	SetLimit   fabrictype.AuditAction = "set_limit"
	ResetLimit fabrictype.AuditAction = "reset_limit"

	SetSchedule      fabrictype.AuditAction = "set_schedule"
	PauseSchedule    fabrictype.AuditAction = "pause_schedule"
	ResumeSchedule   fabrictype.AuditAction = "resume_schedule"
	TriggerSchedule  fabrictype.AuditAction = "trigger_schedule"
	BackfillSchedule fabrictype.AuditAction = "backfill_schedule"
	DeleteSchedule   fabrictype.AuditAction = "delete_schedule"

	PauseLane      fabrictype.AuditAction = "pause_lane"
	ResumeLane     fabrictype.AuditAction = "resume_lane"
	PauseActivity  fabrictype.AuditAction = "pause_activity"
	ResumeActivity fabrictype.AuditAction = "resume_activity"

	DrainWorker   fabrictype.AuditAction = "drain_worker"
	WithdrawFlow  fabrictype.AuditAction = "withdraw_flow"
	StartBulkJob  fabrictype.AuditAction = "start_bulk_job"
	StopBulkJob   fabrictype.AuditAction = "stop_bulk_job"
	RotateSecrets fabrictype.AuditAction = "rotate_secrets"

	// Of servers: who may call them. The text of a token is in no entry. The Name of a session or a registration that
	// another principal ended is the principal's.
	CreateToken      fabrictype.AuditAction = "create_token"
	DeleteToken      fabrictype.AuditAction = "delete_token"
	DeleteSession    fabrictype.AuditAction = "delete_session"
	RemovePushWorker fabrictype.AuditAction = "remove_push_worker"

	// AnswerWait is a signal to a wait. By a link of package approvals: Detail has the answer, how the visitor was
	// identified, and the address of the request. Through a server, or by a client that acts for an actor (Client.As):
	// Detail has the name of the signal, and in whose name it was sent. No entry has a payload.
	AnswerWait fabrictype.AuditAction = "answer_wait"

	// Of runs: their priority and that of their nodes, the time of their start, the timers of their nodes, and what
	// removes them.
	SetPriority fabrictype.AuditAction = "set_priority"
	MoveStart   fabrictype.AuditAction = "move_start"
	MoveTimer   fabrictype.AuditAction = "move_timer"
	SkipTimer   fabrictype.AuditAction = "skip_timer"
	PurgeRun    fabrictype.AuditAction = "purge_run"

	// Of package admin: executions and flows of any program, their waitpoints and leases, quotas, and keeper tasks.
	CancelExecution fabrictype.AuditAction = "cancel_execution"
	CancelFlow      fabrictype.AuditAction = "cancel_flow"
	CloseWaitpoint  fabrictype.AuditAction = "close_waitpoint"
	CreateQuota     fabrictype.AuditAction = "create_quota"
	ReplayExecution fabrictype.AuditAction = "replay_execution"
	RevokeLease     fabrictype.AuditAction = "revoke_lease"
	SetTags         fabrictype.AuditAction = "set_tags"
	RunKeeperTask   fabrictype.AuditAction = "run_keeper_task"
)

// Entry is one action. It was written before the action was carried out.
type Entry struct {
	// ID identifies the action.
	ID string
	// At is when the engine wrote the entry.
	At time.Time
	// Actor is who acted, as Client.As or WithActor said; if neither did, "client", or "admin" for package admin.
	Actor  string
	Action fabrictype.AuditAction
	// Name is what was changed: a budget, a limit with its key, a schedule, a lane, an activity, a worker, a job, a
	// token, a run with its flow, a node with its run and flow, or the id of an execution, a flow or a waitpoint.
	Name string
	// Detail has the values that were set, or the reason that was given; it may be empty.
	Detail string
	// Failure is set in a second entry with the same ID: the action was not carried out, or not all of it, and why.
	Failure string
	// Cursor continues behind the entry, as Query.After.
	Cursor string
}

// Query selects entries. An entry must satisfy all fields that are set; the zero value selects all.
type Query struct {
	// Actor and Action select by these.
	Actor  string
	Action fabrictype.AuditAction
	// Name selects the entries of what has this name.
	Name string
	// From (inclusive) and Before (exclusive) bound the time.
	From, Before time.Time
	// After continues behind the entry with this cursor, towards older ones.
	After string
}
