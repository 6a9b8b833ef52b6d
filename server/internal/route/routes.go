package route

import (
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/server/internal/service"
)

// routes binds each operation of the table to its handler.
func (r *Router) routes(s *service.Service) {
	handle(r, api.ListRuns, s.ListRuns)
	handle(r, api.StartRun, s.StartRun)
	handle(r, api.GetRun, s.GetRun)
	handle(r, api.GetResult, s.GetResult)
	follow(r, api.FollowRun, s.FollowRun)
	handle(r, api.GetRunGraph, s.GetRunGraph)
	handle(r, api.GetRunLayout, s.GetRunLayout)
	handle(r, api.CompareRuns, s.CompareRuns)
	handle(r, api.CancelRun, s.CancelRun)
	handle(r, api.RerunRun, s.RerunRun)
	handle(r, api.PauseRun, s.PauseRun)
	handle(r, api.ResumeRun, s.ResumeRun)
	handle(r, api.SetRunPriority, s.SetRunPriority)
	handle(r, api.MoveRunStart, s.MoveRunStart)
	handle(r, api.PurgeRun, s.PurgeRun)

	handle(r, api.GetNode, s.GetNode)
	handle(r, api.ListItems, s.ListItems)
	follow(r, api.FollowLogs, s.FollowLogs)
	follow(r, api.FollowFrames, s.FollowFrames)
	handle(r, api.CancelNode, s.CancelNode)
	handle(r, api.SetNodePriority, s.SetNodePriority)

	handle(r, api.ListWaits, s.ListWaits)
	handle(r, api.ListRunWaits, s.ListRunWaits)
	handle(r, api.SignalRun, s.SignalRun)
	handle(r, api.SignalToken, s.SignalToken)
	handle(r, api.GetTokenWait, s.GetTokenWait)
	handle(r, api.ListSignals, s.ListSignals)
	handle(r, api.ResumeWait, s.ResumeWait)
	handle(r, api.CancelWait, s.CancelWait)

	handle(r, api.ListFlows, s.ListFlows)
	handle(r, api.GetFlow, s.GetFlow)
	handle(r, api.GetFlowGraph, s.GetFlowGraph)
	handle(r, api.GetFlowLayout, s.GetFlowLayout)
	handle(r, api.WithdrawFlow, s.WithdrawFlow)

	handle(r, api.ListSchedules, s.ListSchedules)
	handle(r, api.GetSchedule, s.GetSchedule)
	handle(r, api.PauseSchedule, s.PauseSchedule)
	handle(r, api.ResumeSchedule, s.ResumeSchedule)
	handle(r, api.TriggerSchedule, s.TriggerSchedule)
	handle(r, api.DeleteSchedule, s.DeleteSchedule)

	handle(r, api.ListLanes, s.ListLanes)
	handle(r, api.ListPauses, s.ListPauses)
	handle(r, api.PauseLane, s.PauseLane)
	handle(r, api.ResumeLane, s.ResumeLane)
	handle(r, api.PauseActivity, s.PauseActivity)
	handle(r, api.ResumeActivity, s.ResumeActivity)

	handle(r, api.ListLimits, s.ListLimits)
	handle(r, api.GetLimit, s.GetLimit)
	handle(r, api.SetLimit, s.SetLimit)
	handle(r, api.ResetLimit, s.ResetLimit)
	handle(r, api.ListBudgets, s.ListBudgets)
	handle(r, api.GetBudget, s.GetBudget)
	handle(r, api.SetBudget, s.SetBudget)
	handle(r, api.ResetBudget, s.ResetBudget)
	handle(r, api.DeleteBudget, s.DeleteBudget)

	handle(r, api.ListWorkers, s.ListWorkers)
	handle(r, api.DrainWorker, s.DrainWorker)

	handle(r, api.ListBulkJobs, s.ListBulkJobs)
	handle(r, api.GetBulkJob, s.GetBulkJob)
	handle(r, api.PreviewBulkJob, s.PreviewBulkJob)
	handle(r, api.StartBulkJob, s.StartBulkJob)
	handle(r, api.StopBulkJob, s.StopBulkJob)

	handle(r, api.CountRuns, s.CountRuns)
	handle(r, api.ExplainRuns, s.ExplainRuns)
	follow(r, api.FollowFeed, s.FollowFeed)
	handle(r, api.ListAudit, s.ListAudit)
	handle(r, api.Inspect, s.Inspect)
	handle(r, api.ListKeeperTasks, s.ListKeeperTasks)
	handle(r, api.RunKeeperTask, s.RunKeeperTask)

	handle(r, api.GetServer, s.GetServer)
	handle(r, api.ListTokens, s.ListTokens)
	handle(r, api.CreateToken, s.CreateToken)
	handle(r, api.DeleteToken, s.DeleteToken)
	handle(r, api.RotateSecrets, s.RotateSecrets)
}
