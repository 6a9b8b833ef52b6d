// Package auditlink has the entries that packages of this module write into the audit log of an engine.
package auditlink

import (
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Actions. The comment of fabrictype.AuditAction describes them.
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

	// Of servers.
	CreateToken      fabrictype.AuditAction = "create_token"
	DeleteToken      fabrictype.AuditAction = "delete_token"
	DeleteSession    fabrictype.AuditAction = "delete_session"
	RemovePushWorker fabrictype.AuditAction = "remove_push_worker"

	AnswerWait fabrictype.AuditAction = "answer_wait"

	// Of runs.
	SetPriority fabrictype.AuditAction = "set_priority"
	MoveStart   fabrictype.AuditAction = "move_start"
	MoveTimer   fabrictype.AuditAction = "move_timer"
	SkipTimer   fabrictype.AuditAction = "skip_timer"
	PurgeRun    fabrictype.AuditAction = "purge_run"

	// Of package admin.
	CancelExecution fabrictype.AuditAction = "cancel_execution"
	CancelFlow      fabrictype.AuditAction = "cancel_flow"
	CloseWaitpoint  fabrictype.AuditAction = "close_waitpoint"
	CreateQuota     fabrictype.AuditAction = "create_quota"
	ReplayExecution fabrictype.AuditAction = "replay_execution"
	RevokeLease     fabrictype.AuditAction = "revoke_lease"
	SetTags         fabrictype.AuditAction = "set_tags"
	RunKeeperTask   fabrictype.AuditAction = "run_keeper_task"
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
