package fabrictype

import "time"

// AuditEntry is one action in the audit log. It was written before the action was performed. These are the actions;
// later versions may have further ones:
//   - of budgets: "create_budget", "set_budget", "reset_budget", "delete_budget"; of limits: "set_limit",
//     "reset_limit".
//   - of schedules: "set_schedule", "pause_schedule", "resume_schedule", "trigger_schedule", "backfill_schedule",
//     "delete_schedule".
//   - of lanes, activities, workers and flows: "pause_lane", "resume_lane", "pause_activity", "resume_activity",
//     "drain_worker", "withdraw_flow".
//   - of bulk jobs and secrets: "start_bulk_job", "stop_bulk_job", "rotate_secrets".
//   - of servers, who may call them: "create_token", "delete_token", "delete_session", "remove_push_worker". The text
//     of a token is in no entry. The Name of a session or a registration that another principal ended is the
//     principal's.
//   - "answer_wait" is a signal to a wait. By a link of package approvals: Detail has the answer, how the visitor was
//     identified, and the address of the request. Through a server, or by a client that acts for an actor (Client.As):
//     Detail has the name of the signal, and in whose name it was sent. No entry has a payload.
//   - of runs: "set_priority", "move_start", "move_timer", "skip_timer", "purge_run".
//   - of package admin: "cancel_execution", "cancel_flow", "close_waitpoint", "create_quota", "replay_execution",
//     "revoke_lease", "set_tags", "run_keeper_task".
type AuditEntry struct {
	// ID identifies the action.
	ID string `json:"id"`
	// At is when the engine wrote the entry.
	At time.Time `json:"at"`
	// Actor is the actor of Client.As or WithActor; without either, "client", or "admin" for package admin.
	Actor  string `json:"actor"`
	Action string `json:"action"`
	// Name is the name of the changed thing: a budget, a limit with its key, a schedule, a lane, an activity, a worker,
	// a job, a token, a run with its flow, a node with its run and flow, or the id of an execution, a flow or a
	// waitpoint.
	Name string `json:"name,omitempty"`
	// Detail has the values that were set, or the reason that was given; it may be empty.
	Detail string `json:"detail,omitempty"`
	// Failure is set in a second entry with the same ID: why the action was not performed, or not all of it.
	Failure string `json:"failure,omitempty" doc:"Why the action was not carried out, or not all of it."`
	// Cursor continues after the entry, as AuditQuery.After. In JSON, only the page has one.
	Cursor string `json:"-"`
}
