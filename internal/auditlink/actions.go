// Package auditlink has the entries that packages of this module write into the audit log of an engine.
package auditlink

import (
	"errors"
	"fmt"
)

// Actions. The comment of fabrictype.AuditEntry describes them.
const (
	CreateBudget = "create_budget"
	SetBudget    = "set_budget"
	ResetBudget  = "reset_budget"
	DeleteBudget = "delete_budget"

	SetLimit   = "set_limit"
	ResetLimit = "reset_limit"

	SetSchedule      = "set_schedule"
	PauseSchedule    = "pause_schedule"
	ResumeSchedule   = "resume_schedule"
	TriggerSchedule  = "trigger_schedule"
	BackfillSchedule = "backfill_schedule"
	DeleteSchedule   = "delete_schedule"

	PauseLane      = "pause_lane"
	ResumeLane     = "resume_lane"
	PauseActivity  = "pause_activity"
	ResumeActivity = "resume_activity"

	DrainWorker   = "drain_worker"
	WithdrawFlow  = "withdraw_flow"
	StartBulkJob  = "start_bulk_job"
	StopBulkJob   = "stop_bulk_job"
	RotateSecrets = "rotate_secrets"

	// Of servers.
	CreateToken      = "create_token"
	DeleteToken      = "delete_token"
	DeleteSession    = "delete_session"
	RemovePushWorker = "remove_push_worker"

	AnswerWait = "answer_wait"

	// Of runs.
	SetPriority = "set_priority"
	MoveStart   = "move_start"
	MoveTimer   = "move_timer"
	SkipTimer   = "skip_timer"
	PurgeRun    = "purge_run"

	// Of package admin.
	CancelExecution = "cancel_execution"
	CancelFlow      = "cancel_flow"
	CloseWaitpoint  = "close_waitpoint"
	CreateQuota     = "create_quota"
	ReplayExecution = "replay_execution"
	RevokeLease     = "revoke_lease"
	SetTags         = "set_tags"
	RunKeeperTask   = "run_keeper_task"
)

// Entry is an action as it is recorded.
type Entry struct {
	// Actor performs Action on the object called Name; Detail contains the values or the reason.
	Actor, Action, Name, Detail string
}

// Refusal returns why an answer to a wait counts as one that was not recorded: it failed, or the wait took it neither
// as recorded nor as its end. It is nil for others. invalid is the error that those match whose text quotes the answer.
func Refusal(outcome string, err, invalid error) error {
	switch {
	case errors.Is(err, invalid):
		return errors.New("nothing was recorded: the answer is not valid")
	case err != nil:
		return err
	case outcome != "accepted" && outcome != "resumed":
		return fmt.Errorf("nothing was recorded: the answer is %s", outcome)
	}
	return nil
}
