// Package auditlog describes who has changed what: limits, budgets, schedules, lanes, activities, workers, bulk jobs,
// secrets, tokens, sessions, priorities, later starts and purges of runs, and who has answered a wait by a link, a
// server or a client that acts for an actor. Client.Audit of package runtime reads the log. Who starts, cancels, pauses
// or reruns a run, or ends its waits, is kept with the run, in its description and its events, and so is who has sent
// any signal to it.
//
//	for entry, err := range client.Audit(ctx, auditlog.Query{Actor: "ann"}) { … }
package auditlog

import "time"

// Action is what was done. Later versions may add actions.
type Action string

// Actions.
const (
	CreateBudget Action = "create_budget"
	SetBudget    Action = "set_budget"
	ResetBudget  Action = "reset_budget"
	DeleteBudget Action = "delete_budget"

	SetLimit   Action = "set_limit"
	ResetLimit Action = "reset_limit"

	SetSchedule      Action = "set_schedule"
	PauseSchedule    Action = "pause_schedule"
	ResumeSchedule   Action = "resume_schedule"
	TriggerSchedule  Action = "trigger_schedule"
	BackfillSchedule Action = "backfill_schedule"
	DeleteSchedule   Action = "delete_schedule"

	PauseLane      Action = "pause_lane"
	ResumeLane     Action = "resume_lane"
	PauseActivity  Action = "pause_activity"
	ResumeActivity Action = "resume_activity"

	DrainWorker   Action = "drain_worker"
	WithdrawFlow  Action = "withdraw_flow"
	StartBulkJob  Action = "start_bulk_job"
	StopBulkJob   Action = "stop_bulk_job"
	RotateSecrets Action = "rotate_secrets"

	// Of servers: who may call them. The text of a token is in no entry. The Name of a session or a registration that
	// another principal ended is the principal's.
	CreateToken      Action = "create_token"
	DeleteToken      Action = "delete_token"
	DeleteSession    Action = "delete_session"
	RemovePushWorker Action = "remove_push_worker"

	// AnswerWait is a signal to a wait. By a link of package approvals: Detail has the answer, how the visitor was
	// identified, and the address of the request. Through a server, or by a client that acts for an actor (Client.As):
	// Detail has the name of the signal, and in whose name it was sent. No entry has a payload.
	AnswerWait Action = "answer_wait"

	// Of runs: their priority and that of their nodes, the time of their start, the timers of their nodes, and what
	// removes them.
	SetPriority Action = "set_priority"
	MoveStart   Action = "move_start"
	MoveTimer   Action = "move_timer"
	SkipTimer   Action = "skip_timer"
	PurgeRun    Action = "purge_run"

	// Of package admin: executions and flows of any program, their waitpoints and leases, quotas, and keeper tasks.
	CancelExecution Action = "cancel_execution"
	CancelFlow      Action = "cancel_flow"
	CloseWaitpoint  Action = "close_waitpoint"
	CreateQuota     Action = "create_quota"
	ReplayExecution Action = "replay_execution"
	RevokeLease     Action = "revoke_lease"
	SetTags         Action = "set_tags"
	RunKeeperTask   Action = "run_keeper_task"
)

// Entry is one action. It was written before the action was carried out.
type Entry struct {
	// ID identifies the action.
	ID string
	// At is when the engine wrote the entry.
	At time.Time
	// Actor is who acted, as Client.As or WithActor said; if neither did, "client", or "admin" for package admin.
	Actor  string
	Action Action
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
	Action Action
	// Name selects the entries of what has this name.
	Name string
	// From (inclusive) and Before (exclusive) bound the time.
	From, Before time.Time
	// After continues behind the entry with this cursor, towards older ones.
	After string
}
