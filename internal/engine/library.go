package engine

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/contractcheck"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Library has the calls of this project's whole function library, which the functions of the contract cannot replace.
type Library interface {
	Backend
	batching.Pipeliner

	// Changes of runs other than cancelling them as a whole.

	CancelNode(context.Context, enginerpc.CancelNodeCall) (enginerpc.CancelNodeReply, error)
	MoveStart(context.Context, enginerpc.MoveStartCall) (enginerpc.MoveStartReply, error)
	SetPriority(context.Context, enginerpc.SetPriorityCall) (enginerpc.SetPriorityReply, error)
	Rerun(context.Context, enginerpc.RerunCall) (enginerpc.RerunReply, error)
	PurgeFlow(context.Context, enginerpc.PurgeFlowCall) (enginerpc.PurgeFlowReply, error)

	// The search for runs by flow, tag and state.

	ReadResults(context.Context, enginerpc.ReadResultsCall) (enginerpc.ReadResultsReply, error)

	// Signals to waits by name, also to waits that have not begun.

	SignalNode(context.Context, enginerpc.SignalNodeCall) (enginerpc.SignalNodeReply, error)

	// The waits of all runs.

	ListWaits(context.Context, enginerpc.ListWaitsCall) (enginerpc.ListWaitsReply, error)
	ReadWaitpoint(context.Context, enginerpc.ReadWaitpointCall) (enginerpc.ReadWaitpointReply, error)

	// The audit log.

	Audit(context.Context, enginerpc.AuditCall) (enginerpc.AuditReply, error)
	ReadAudit(context.Context, enginerpc.ReadAuditCall) (enginerpc.ReadAuditReply, error)

	// The journals of executions: the results of steps and waits.

	RecordStep(context.Context, enginerpc.RecordStepCall) (enginerpc.RecordStepReply, error)
	ReadJournal(context.Context, enginerpc.ReadJournalCall) (enginerpc.ReadJournalReply, error)

	// The pauses of a partition.

	Pauses(context.Context, enginerpc.PausesCall) (enginerpc.PausesReply, error)

	// Budgets of flows.

	SetBudget(context.Context, enginerpc.SetBudgetCall) (enginerpc.SetBudgetReply, error)
	GetBudgets(context.Context, enginerpc.GetBudgetsCall) (enginerpc.GetBudgetsReply, error)
	ListBudgets(context.Context, enginerpc.ListBudgetsCall) (enginerpc.ListBudgetsReply, error)
	ResetBudget(context.Context, enginerpc.ResetBudgetCall) (enginerpc.ResetBudgetReply, error)
	RemoveBudget(context.Context, enginerpc.RemoveBudgetCall) (enginerpc.RemoveBudgetReply, error)

	// Schedules.

	ReadSchedule(context.Context, enginerpc.ReadScheduleCall) (enginerpc.ReadScheduleReply, error)
	ListSchedules(context.Context, enginerpc.ListSchedulesCall) (enginerpc.ListSchedulesReply, error)
	WriteSchedule(context.Context, enginerpc.WriteScheduleCall) (enginerpc.WriteScheduleReply, error)
	DeleteSchedule(context.Context, enginerpc.DeleteScheduleCall) (enginerpc.DeleteScheduleReply, error)

	// Bulk jobs.

	StartBulkJob(context.Context, enginerpc.StartBulkJobCall) (enginerpc.StartBulkJobReply, error)
	ReadBulkJob(context.Context, enginerpc.ReadBulkJobCall) (enginerpc.ReadBulkJobReply, error)
	ListBulkJobs(context.Context, enginerpc.ListBulkJobsCall) (enginerpc.ListBulkJobsReply, error)
	StopBulkJob(context.Context, enginerpc.StopBulkJobCall) (enginerpc.StopBulkJobReply, error)

	// Runs of a key.

	ReadRunKey(context.Context, enginerpc.ReadRunKeyCall) (enginerpc.ReadRunKeyReply, error)

	// The events of one node.

	ReadNodeEvents(context.Context, enginerpc.ReadNodeEventsCall) (enginerpc.ReadNodeEventsReply, error)

	// Admission of executions that wait for permits of limits.

	Exchange(context.Context, enginerpc.ExchangeCall) (enginerpc.ExchangeReply, error)
	GrantNext(context.Context, enginerpc.GrantNextCall) (enginerpc.GrantNextReply, error)

	// Graphs, each stored once in a partition, and runs of them.

	PutGraph(context.Context, enginerpc.PutGraphCall) (enginerpc.PutGraphReply, error)
	Start(context.Context, enginerpc.StartCall) (enginerpc.StartReply, error)
	Submit(context.Context, enginerpc.SubmitCall) (enginerpc.SubmitReply, error)
	FindNode(context.Context, enginerpc.FindNodeCall) (enginerpc.FindNodeReply, error)

	// Several results in one call.

	Commit(context.Context, enginerpc.WorkCall, []*enginerpc.ClaimedExecution) (enginerpc.WorkReply, error)

	// The version of the function library, which another build can replace.

	Version(context.Context, enginerpc.VersionCall) (enginerpc.VersionReply, error)

	// Repair of records and indexes, and removal of expired records.

	DropAdmissions(context.Context, enginerpc.DropAdmissionsCall) (enginerpc.DropAdmissionsReply, error)
	VerifyBudgetUse(context.Context, enginerpc.VerifyBudgetUseCall) (enginerpc.VerifyBudgetUseReply, error)
	BudgetDone(context.Context, enginerpc.BudgetDoneCall) (enginerpc.BudgetDoneReply, error)

	// Child runs of map and sub-flow nodes.

	LinkChild(context.Context, enginerpc.LinkChildCall) (enginerpc.LinkChildReply, error)
	AwaitChild(context.Context, enginerpc.AwaitChildCall) (enginerpc.AwaitChildReply, error)
	AskChild(context.Context, enginerpc.AskChildCall) (enginerpc.AskChildReply, error)
	ChildEnded(context.Context, enginerpc.ChildEndedCall) (enginerpc.ChildEndedReply, error)
	EndRelayEntry(context.Context, enginerpc.EndRelayEntryCall) (enginerpc.EndRelayEntryReply, error)

	// Functions that continue as new.

	ContinueAsNew(context.Context, enginerpc.ContinueAsNewCall) (enginerpc.ContinueAsNewReply, error)

	// Timers of nodes that sleep.

	MoveTimer(context.Context, enginerpc.MoveTimerCall) (enginerpc.MoveTimerReply, error)

	// Live values of executions.

	PutLiveValue(context.Context, enginerpc.PutLiveValueCall) (enginerpc.PutLiveValueReply, error)
	ReadLiveValue(context.Context, enginerpc.ReadLiveValueCall) (enginerpc.ReadLiveValueReply, error)

	// Records that workers write of themselves.

	ReportWorker(context.Context, enginerpc.ReportWorkerCall) (enginerpc.ReportWorkerReply, error)
	DrainWorker(context.Context, enginerpc.DrainWorkerCall) (enginerpc.DrainWorkerReply, error)
	ListWorkers(context.Context, enginerpc.ListWorkersCall) (enginerpc.ListWorkersReply, error)
	FindWorkers(context.Context, enginerpc.FindWorkersCall) (enginerpc.FindWorkersReply, error)
	ReadBuilds(context.Context, enginerpc.ReadBuildsCall) (enginerpc.ReadBuildsReply, error)

	// The catalogue of published flows.

	PublishFlow(context.Context, enginerpc.PublishFlowCall) (enginerpc.PublishFlowReply, error)
	ReadPublished(context.Context, enginerpc.ReadPublishedCall) (enginerpc.ReadPublishedReply, error)
	ListPublished(context.Context, enginerpc.ListPublishedCall) (enginerpc.ListPublishedReply, error)
	WithdrawFlow(context.Context, enginerpc.WithdrawFlowCall) (enginerpc.WithdrawFlowReply, error)
}

// Library returns the whole library. In contract mode the error names the construct that needs it, and matches
// [ErrNotInContract].
func (s *Session) Library(construct string) (Library, error) {
	if library, whole := s.Backend.(Library); whole {
		return library, nil
	}
	return nil, contractcheck.Refused(construct)
}

// IsWhole reports whether the engine has the whole library, so that [Session.Library] returns no error.
func (s *Session) IsWhole() bool {
	_, whole := s.Backend.(Library)
	return whole
}

// IsOneServer reports whether one server has all partitions, so that it keeps one order for each lane, in partition 0,
// and a claim takes executions of all of them. It is false for a cluster and in contract mode.
func (s *Session) IsOneServer() bool {
	return s.IsWhole() && !s.InCluster()
}
