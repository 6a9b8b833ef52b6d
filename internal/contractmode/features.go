package contractmode

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
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
	// How says what carries it out, or why it is refused; functions are those of the contract that do it, without the
	// prefix of their names.
	How, functions string
}

// By says what carries the feature out, or why it is refused, with the functions by name.
func (f Feature) By() string {
	var parts []string
	if f.How != "" {
		parts = append(parts, f.How)
	}
	for name := range strings.FieldsSeq(f.functions) {
		parts = append(parts, "`ff_"+name+"`")
	}
	return strings.Join(parts, ", ")
}

// Features that flows are checked for, by name.
const (
	featureJoins    = "joins (flow.AnyOf, flow.Quorum)"
	featureKinds    = "edges of other kinds (flow.OnFailure, flow.Always)"
	featureDistinct = "signals of different sources (activity.AtLeastDistinct)"
	featureDecisive = "decisive signals (activity.Decisive)"
	featureMaps     = "maps"
	featureSubFlows = "sub-flows"
	featureLoops    = "loops (flow.Loop)"
	featureExpand   = "plans (flow.Expand)"
	featureStart    = "schedule-to-start timeouts"
	featureLimits   = "limits (activity.Limit)"
	featureText     = "texts and schemas of waits (activity.Title, Question, Audience, AnswerSchema)"
	featureRetain   = "retention of flows (flow.Retention)"
	featureFair     = "fairness (flow.FairBy)"
	featureBranches = "conditions (flow.When, flow.Switch)"
	featureFinally  = "nodes that run however a run ends (flow.Finally)"
	featureAnyFail  = "compensation of several nodes (flow.OnAnyFailure)"
	featureTimers   = "timers (flow.Sleep, flow.Until, activity.Sleep)"
)

// FeatureBudgets is the feature of flows with budgets.
const FeatureBudgets = "budgets of flows (flow.Budget)"

// memberFeatures names the features of members of definitions.
var memberFeatures = map[string]string{
	"budgets": FeatureBudgets, "limits": featureLimits, "keep_ms": featureRetain, "fair_by": featureFair,
	"condition": featureBranches, "when": featureBranches, "finally": featureFinally,
}

// Features is what contract mode does and refuses. The table of docs/operations/contract-mode.md is this one.
var Features = []Feature{
	{
		"flows of nodes and edges", Served,
		"",
		"create_flow create_execution add_execution_to_flow " +
			"stage_dependency_edge apply_dependency_to_child resolve_dependency",
	},
	{
		"claims, leases, retries", Served,
		"",
		"issue_claim_grant claim_execution claim_resumed_execution " +
			"renew_lease complete_execution fail_execution",
	},
	{
		"details of errors; retries by category and time", Served,
		"a tag of the execution; the worker decides on retries",
		"set_execution_tags",
	},
	{"single activities as runs (Do)", Served, "a flow of one node", ""},
	{"values of the context of a start (OpenConfig.Propagators)", Served, "the tag of the run's trace context", ""},
	{"interceptors (Client.Use, WorkerConfig.Interceptors)", Served, "clients and workers", ""},
	{"take-over of lost executions", Served, "", "issue_reclaim_grant reclaim_execution"},
	{
		"grants (WorkerConfig.ClaimThrough, Worker.NextGranted)", Served,
		"the grant of a scheduler, also to reclaim, then the claim",
		"",
	},
	{
		"held tasks (Worker.Next)", Served,
		"the same functions",
		"delay_execution move_to_waiting_children report_usage_and_check",
	},
	{"cancelling runs", Served, "", "cancel_flow cancel_execution ack_cancel_member"},
	{"deadlines, start-to-close, heartbeats", Served, "the deadline of each node; the others by the worker", ""},
	{"lanes, capabilities, priorities of nodes", Served, "the lane's index, `routing_requirements`", ""},
	{"progress, frames and logs of attempts", Served, "", "update_progress append_frame"},
	{
		"waitpoint nodes", Served,
		"executions of the lane `flowfabric.waits`, claimed and suspended by our programs",
		"",
	},
	{
		"activity.Await, activity.AwaitSignals, activity.OpenWaitpoint", Served,
		"",
		"suspend_execution create_pending_waitpoint",
	},
	{"signals with tokens", Served, "", "deliver_signal buffer_signal_for_pending_waitpoint"},
	{"Waitpoints, ResumeWait, CancelWait", Served, "", "resume_execution cancel_execution close_waitpoint"},
	{
		"values and attempts of nodes (Describe, DescribeNode)", Served,
		"the results of executions, which are read whole; attempts from the events that `Watch` composes",
		"",
	},
	{"budgets and quotas of executions", Served, "package admin; grant issuers block and unblock by them", ""},
	{featureJoins, Extended, "", "set_edge_group_policy drain_sibling_cancel_group"},
	{
		featureKinds, Extended,
		"`dependency_kind`, which other libraries store and ignore, and an `all_of` group",
		"",
	},
	{featureDistinct, Extended, "the condition of the wait", ""},
	{featureDecisive, Extended, "the condition of the wait", ""},
	{
		"submission by one atomic call", Refused,
		"a submission takes several calls, and is repeated until complete",
		"",
	},
	{"live values (activity.Publish, RunRef.Value)", Refused, "executions have no place for them", ""},
	{"activity.Step", Refused, "executions have no journal", ""},
	{featureText, Refused, "waitpoints have no place for them; payloads are not checked", ""},
	{"waits of all runs (Waits, ReceivedSignals)", Refused, "the contract has no index of them", ""},
	{featureTimers, Refused, "suspensions of the contract end by signals; Await with a timeout waits for a time", ""},
	{featureMaps, Refused, "executions have no child runs", ""},
	{featureSubFlows, Refused, "executions have no child runs", ""},
	{featureBranches, Refused, "edges have no cases", ""},
	{featureFinally, Refused, "nothing of a flow starts after its end", ""},
	{featureAnyFail, Refused, "no policy of edge groups waits for all and needs one", ""},
	{featureLoops, Refused, "executions have no child runs", ""},
	{featureExpand, Refused, "executions have no child runs", ""},
	{"activity.ContinueAsNew", Refused, "executions have no journal", ""},
	{FeatureBudgets, Refused, "flows have no budgets; budgets of package admin count", ""},
	{featureLimits, Refused, "executions have no limits; quotas of package admin count", ""},
	{featureStart, Refused, "no index of the contract is ordered by them", ""},
	{featureRetain, Refused, "the server's trimmer removes executions", ""},
	{featureFair, Refused, "lanes are ordered by priority and age", ""},
	{"schedules", Refused, "the contract has none", ""},
	{"starting runs later (StartAt, StartAfter, MoveStart)", Refused, "flows have no time of start", ""},
	{"signals by name (StartOrSignal, SignalWait)", Refused, "the contract signals waitpoints by token", ""},
	{"memos of runs (WithMemo)", Refused, "flows have no place for one", ""},
	{
		"runs by key, throttles, debounce (WithKey, WithThrottle, Debounce)", Refused,
		"the contract stores only runs", "",
	},
	{"forks of runs (Fork, ForkFrom, ForkInput, ForkResult)", Refused, "executions cannot begin with a result", ""},
	{"batch activities (activity.NewBatch)", Served, "the worker alone", ""},
	{"pauses of runs, lanes and activities", Refused, "the contract has none", ""},
	{
		"reruns, cancelling single nodes, changing priorities, purging", Refused,
		"package admin replays and cancels executions",
		"",
	},
	{"run search (Runs)", Refused, "the contract has no index of runs by state or tag", ""},
	{"feed of all runs (Feed)", Refused, "the contract does not publish starts and waits", ""},
	{"bulk jobs (StartBulkJob)", Refused, "the contract has no place for jobs", ""},
	{"counts of runs (Counts)", Refused, "the contract does not count runs", ""},
	{"catalogue of flows (Publish, Flows, StartNamed)", Refused, "the contract stores no flows apart from runs", ""},
	{"audit log (Audit)", Refused, "the contract has no place for it", ""},
	{"records of workers (Workers, DrainWorker)", Refused, "workers of the contract have none", ""},
}

// refusal returns the error that names a feature.
func refusal(feature string) error { return fmt.Errorf("%w: %s", engine.ErrNotInContract, feature) }

// extensions remembers whether the server's library has the edge-group functions. It is safe for concurrent use.
type extensions struct {
	mu      sync.Mutex
	present bool
	asked   time.Time
}

// rememberExtensions is how long an answer of the server counts. A library that is replaced within that time by one
// without the functions fails the calls of those.
const rememberExtensions = 30 * time.Second

func (e *extensions) get() (present, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.present, !e.asked.IsZero() && time.Since(e.asked) < rememberExtensions
}

func (e *extensions) set(present bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.present, e.asked = present, time.Now()
}

// requireExtended returns the refusal of a feature if the server has no library with the edge-group functions.
func (c *contract) requireExtended(ctx context.Context, feature string) error {
	present, known := c.extended.get()
	if !known {
		var err error
		if present, err = c.hasFunction(ctx, enginerpc.FunctionName(enginerpc.SetEdgeGroupPolicyCall{})); err != nil {
			return err
		}
		c.extended.set(present)
	}
	if !present {
		return refusal(feature)
	}
	return nil
}

// hasFunction reports whether a library of the server has a function.
func (c *contract) hasFunction(ctx context.Context, wanted string) (bool, error) {
	libraries, err := c.client.Do(ctx, c.client.B().FunctionList().Build()).ToArray()
	if err != nil {
		return false, engine.ReadError(ctx, "FUNCTION LIST", err)
	}
	for _, library := range libraries {
		fields, err := library.AsMap()
		if err != nil {
			return false, engine.ReadError(ctx, "FUNCTION LIST", err)
		}
		listed := fields["functions"]
		functions, _ := listed.ToArray()
		for _, function := range functions {
			names, _ := function.AsMap()
			text := names["name"]
			if name, err := text.ToString(); err == nil && name == wanted {
				return true, nil
			}
		}
	}
	return false, nil
}
