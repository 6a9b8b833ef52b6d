package contractmode

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// Support says where contract mode has a feature.
type Support string

// Degrees of support.
const (
	// Served: with every library of the contract.
	Served Support = "yes"
	// Extended: with a library that has the edge-group functions, such as this project's build for the contract.
	Extended Support = "with the edge-group functions"
	// Refused: the contract has no place for it. It is refused before anything is written.
	Refused Support = "no"
)

// Feature is a row of [Features].
type Feature struct {
	// Name is how errors name the feature.
	Name    string
	Support Support
	// How is what carries it out, or why it is refused.
	How string
}

// Features that flows are checked for, by name.
const (
	featureJoins    = "joins (flow.AnyOf, flow.Quorum)"
	featureKinds    = "edges of other kinds (flow.OnFailure, flow.Always)"
	featureDistinct = "signals of different sources (activity.AtLeastDistinct)"
	featureDecisive = "decisive signals (activity.Decisive)"
	featureMaps     = "maps"
	featureSubFlows = "sub-flows"
	featureStart    = "schedule-to-start timeouts"
	featureBudgets  = "budgets of flows (flow.Budget)"
	featureLimits   = "limits (activity.Limit)"
	featureRetain   = "retention of flows (flow.Retention)"
	featureFair     = "fairness (flow.FairBy)"
)

// memberFeatures names the features of members of definitions.
var memberFeatures = map[string]string{
	"budgets": featureBudgets, "limits": featureLimits, "keep_ms": featureRetain, "fair_by": featureFair,
}

// Features is what contract mode does and refuses. The table of docs/operations/contract-mode.md is this one.
var Features = []Feature{
	{"flows of nodes and edges", Served, "`ff_create_flow`, `ff_create_execution`, `ff_add_execution_to_flow`, `ff_stage_dependency_edge`, `ff_apply_dependency_to_child`, `ff_resolve_dependency`"},
	{"claims, leases, retries", Served, "`ff_issue_claim_grant`, `ff_claim_execution`, `ff_claim_resumed_execution`, `ff_renew_lease`, `ff_complete_execution`, `ff_fail_execution`"},
	{"take-over of lost executions", Served, "`ff_issue_reclaim_grant`, `ff_reclaim_execution`"},
	{"grants (WorkerConfig.ClaimThrough, Worker.NextGranted)", Served, "the grant of a scheduler, also to reclaim, then the claim"},
	{"held tasks (Worker.Next)", Served, "the same functions, `ff_delay_execution`, `ff_move_to_waiting_children`, `ff_report_usage_and_check`"},
	{"cancelling runs", Served, "`ff_cancel_flow`, `ff_cancel_execution`, `ff_ack_cancel_member`"},
	{"deadlines, start-to-close, heartbeats", Served, "the deadline of each node; the others by the worker"},
	{"lanes, capabilities, priorities of nodes", Served, "the lane's index, `routing_requirements`"},
	{"progress and frames", Served, "`ff_update_progress`, `ff_append_frame`"},
	{"waitpoint nodes", Served, "executions of the lane `flowfabric.waits`, claimed and suspended by our programs"},
	{"activity.Await, activity.AwaitSignals, activity.OpenWaitpoint", Served, "`ff_suspend_execution`, `ff_create_pending_waitpoint`"},
	{"signals with tokens", Served, "`ff_deliver_signal`, `ff_buffer_signal_for_pending_waitpoint`"},
	{"Waitpoints, ResumeWait, CancelWait", Served, "`ff_resume_execution`, `ff_cancel_execution`, `ff_close_waitpoint`"},
	{"budgets and quotas of executions", Served, "package admin; grant issuers block and unblock by them"},
	{featureJoins, Extended, "`ff_set_edge_group_policy`, `ff_drain_sibling_cancel_group`"},
	{featureKinds, Extended, "`dependency_kind`, which other libraries store and ignore, and an `all_of` group"},
	{featureDistinct, Extended, "the condition of the wait"},
	{featureDecisive, Extended, "the condition of the wait"},
	{"submission by one atomic call", Refused, "a submission takes several calls, and is repeated until complete"},
	{"activity.Step", Refused, "executions have no journal"},
	{featureMaps, Refused, "executions have no child runs"},
	{featureSubFlows, Refused, "executions have no child runs"},
	{featureBudgets, Refused, "flows have no budgets; those of package admin count"},
	{featureLimits, Refused, "executions have no limits; quotas of package admin count"},
	{featureStart, Refused, "no index of the contract is ordered by them"},
	{featureRetain, Refused, "the server's trimmer removes executions"},
	{featureFair, Refused, "lanes are ordered by priority and age"},
	{"schedules", Refused, "the contract has none"},
	{"pauses of runs, lanes and activities", Refused, "the contract has none"},
	{"reruns, cancelling single nodes, changing priorities, purging", Refused, "package admin replays and cancels executions"},
	{"run search (Runs)", Refused, "the contract has no index of runs by state or tag"},
}

// refusal returns the error that names a feature.
func refusal(feature string) error { return fmt.Errorf("%w: %s", engine.ErrNotInContract, feature) }

// requireExtended returns the refusal of a feature if the server has no library with the edge-group functions.
func (c *contract) requireExtended(ctx context.Context, feature string) error {
	libraries, err := c.client.Do(ctx, c.client.B().FunctionList().Build()).ToArray()
	if err != nil {
		return engine.ReadError(ctx, "FUNCTION LIST", err)
	}
	for _, library := range libraries {
		fields, err := library.AsMap()
		if err != nil {
			return engine.ReadError(ctx, "FUNCTION LIST", err)
		}
		listed := fields["functions"]
		functions, _ := listed.ToArray()
		for _, function := range functions {
			names, _ := function.AsMap()
			text := names["name"]
			if name, err := text.ToString(); err == nil && name == "ff_set_edge_group_policy" {
				return nil
			}
		}
	}
	return refusal(feature)
}
