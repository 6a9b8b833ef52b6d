package contract_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/contractcheck"
)

// The page has the table of the features that contract mode serves and refuses.
func TestFeaturesMatchPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/contract/contract-mode.md")
	require.NoError(t, err)
	var table strings.Builder
	table.WriteString("| feature | in contract mode | by, or why not |\n| --- | --- | --- |\n")
	for _, f := range features() {
		table.WriteString("| " + f.name + " | " + string(f.support) + " | " + f.by() + " |\n")
	}
	require.Contains(t, string(page), table.String())
}

// support is how contract mode supports a feature.
type support string

// Degrees of support.
const (
	// served: with every library of the contract.
	served support = "yes"
	// extended: with a library that has the edge-group functions, such as this project's build for the contract.
	extended support = "with the edge-group functions"
	// refused: the contract has no place for it. It is refused before anything is written.
	refused support = "no"
)

// feature is a row of [features].
type feature struct {
	// name is how errors name the feature.
	name    string
	support support
	// how is the part that performs it, or the reason of the refusal; functions are the functions of the contract that
	// perform it, without the prefix of their names.
	how, functions string
}

// by describes how the feature is implemented, or why it is refused, and names its functions.
func (f feature) by() string {
	var parts []string
	if f.how != "" {
		parts = append(parts, f.how)
	}
	for name := range strings.FieldsSeq(f.functions) {
		parts = append(parts, "`ff_"+name+"`")
	}
	return strings.Join(parts, ", ")
}

// features are the rows of the table in docs/contract/contract-mode.md.
func features() []feature {
	return []feature{
		{
			"flows of nodes and edges", served,
			"",
			"create_flow create_execution add_execution_to_flow " +
				"stage_dependency_edge apply_dependency_to_child resolve_dependency",
		},
		{
			"claims, leases, retries", served,
			"",
			"issue_claim_grant claim_execution claim_resumed_execution " +
				"renew_lease complete_execution fail_execution",
		},
		{
			"details of errors; retries by category and time", served,
			"a tag of the execution; the worker decides on retries",
			"set_execution_tags",
		},
		{"single activities as runs (Do)", served, "a flow of one node", ""},
		{"values of the context of a start (OpenConfig.Propagators)", served, "the tag of the run's trace context", ""},
		{"interceptors (Client.Use, WorkerConfig.Interceptors)", served, "clients and workers", ""},
		{"take-over of lost executions", served, "", "issue_reclaim_grant reclaim_execution"},
		{
			"grants (WorkerConfig.ClaimThrough, Worker.NextGranted)", served,
			"the grant of a scheduler, also to reclaim, then the claim",
			"",
		},
		{
			"held tasks (Worker.Next)", served,
			"the same functions",
			"delay_execution move_to_waiting_children report_usage_and_check",
		},
		{"cancelling runs", served, "", "cancel_flow cancel_execution ack_cancel_member"},
		{"deadlines, start-to-close, heartbeats", served, "the deadline of each node; the others by the worker", ""},
		{"lanes, capabilities, priorities of nodes", served, "the lane's index, `routing_requirements`", ""},
		{"progress, frames and logs of attempts", served, "", "update_progress append_frame"},
		{
			"waitpoint nodes", served,
			"executions of the lane `flowfabric.waits`, claimed and suspended by our programs",
			"",
		},
		{
			"activity.Await, activity.AwaitSignals, activity.OpenWaitpoint", served,
			"",
			"suspend_execution create_pending_waitpoint",
		},
		{"signals with tokens", served, "", "deliver_signal buffer_signal_for_pending_waitpoint"},
		{"Waitpoints, ResumeWait, CancelWait", served, "", "resume_execution cancel_execution close_waitpoint"},
		{
			"values and attempts of nodes (Describe, DescribeNode)", served,
			"the results of executions, which are read whole; attempts from the events that `Watch` composes",
			"",
		},
		{"budgets and quotas of executions", served, "package admin; grant issuers block and unblock by them", ""},
		{contractcheck.Joins, extended, "", "set_edge_group_policy drain_sibling_cancel_group"},
		{
			contractcheck.EdgeKinds, extended,
			"`dependency_kind`, which other libraries store and ignore, and an `all_of` group",
			"",
		},
		{contractcheck.Distinct, extended, "the condition of the wait", ""},
		{contractcheck.Decisive, extended, "the condition of the wait", ""},
		{
			"submission by one atomic call", refused,
			"a submission takes several calls, and is repeated until complete",
			"",
		},
		{"live values (activity.Publish, RunRef.Value)", refused, "executions have no place for them", ""},
		{"activity.Step", refused, "executions have no journal", ""},
		{contractcheck.Texts, refused, "waitpoints have no place for them; payloads are not checked", ""},
		{"waits of all runs (Waits, ReceivedSignals)", refused, "the contract has no index of them", ""},
		{contractcheck.Timers, refused, "suspensions of the contract end by signals; Await with a timeout waits for a time", ""},
		{contractcheck.Maps, refused, "executions have no child runs", ""},
		{contractcheck.SubFlows, refused, "executions have no child runs", ""},
		{contractcheck.Conditions, refused, "edges have no cases", ""},
		{contractcheck.OrElse, refused, "its edges know why a node was skipped", ""},
		{contractcheck.Finally, refused, "nothing of a flow starts after its end", ""},
		{contractcheck.AnyFailure, refused, "no policy of edge groups waits for all and needs one", ""},
		{contractcheck.Loops, refused, "executions have no child runs", ""},
		{contractcheck.Plans, refused, "executions have no child runs", ""},
		{"activity.ContinueAsNew", refused, "executions have no journal", ""},
		{contractcheck.Budgets, refused, "flows have no budgets; budgets of package admin count", ""},
		{contractcheck.Limits, refused, "executions have no limits; quotas of package admin count", ""},
		{contractcheck.StartTimeouts, refused, "no index of the contract is ordered by them", ""},
		{contractcheck.Retention, refused, "the server's trimmer removes executions", ""},
		{contractcheck.Fairness, refused, "lanes are ordered by priority and age", ""},
		{"schedules", refused, "the contract has none", ""},
		{"starting runs later (StartAt, MoveStart)", refused, "flows have no time of start", ""},
		{"signals by name (WithSignal, SignalWait)", refused, "the contract signals waitpoints by token", ""},
		{"memos of runs (WithMemo)", refused, "flows have no place for one", ""},
		{
			"runs by key, throttles, debounce (WithKey, WithThrottle, WithDebounce)", refused,
			"the contract stores only runs", "",
		},
		{"forks of runs (Fork)", refused, "executions cannot begin with a result", ""},
		{"batch activities (activity.NewBatch)", served, "the worker alone", ""},
		{"pauses of runs, lanes and activities", refused, "the contract has none", ""},
		{
			"reruns, cancelling single nodes, changing priorities, purging", refused,
			"package admin replays and cancels executions",
			"",
		},
		{"run search (Runs)", refused, "the contract has no index of runs by state or tag", ""},
		{"feed of all runs (Feed)", refused, "the contract does not publish starts and waits", ""},
		{"bulk jobs (StartBulkJob)", refused, "the contract has no place for jobs", ""},
		{"counts of runs (Counts)", refused, "the contract does not count runs", ""},
		{"catalogue of flows (Publish, Flows, FlowRef)", refused, "the contract stores no flows apart from runs", ""},
		{"audit log (Audit)", refused, "the contract has no place for it", ""},
		{"records of workers (Workers, DrainWorker)", refused, "workers of the contract have none", ""},
	}
}
