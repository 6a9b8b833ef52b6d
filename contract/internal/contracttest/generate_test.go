package contracttest

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// generator makes calls whose arguments fit together, so that many of them succeed and the executions come into
// every state.
type generator struct {
	b          *bench
	r          *rand.Rand
	executions []enginecore.ExecutionID
	flows      []enginecore.FlowID
	waitpoints []enginecore.WaitpointID
	kinds      []callKind
}

// callKind makes one call of a type with fitting arguments.
type callKind struct {
	name string
	make func(g *generator, focus focus) (function string, keys, args []string, err error)
}

func kind[C enginerpc.Call[R], R any]() callKind {
	name := reflect.TypeFor[C]().Name()
	return callKind{name: name, make: func(g *generator, f focus) (string, []string, []string, error) {
		var c C
		g.fill(name, f, "", reflect.ValueOf(&c).Elem())
		return enginerpc.Wire(g.b.keys, c)
	}}
}

func newGenerator(b *bench, seed uint64) *generator {
	g := &generator{b: b, r: rand.New(rand.NewPCG(seed, 1))}
	for range 8 {
		g.executions = append(g.executions, newExecutionID())
	}
	for range 3 {
		g.flows = append(g.flows, enginecore.FlowID(uuid.NewString()))
		g.waitpoints = append(g.waitpoints, enginecore.WaitpointID(uuid.NewString()))
	}
	g.flows[2] = keyspace.FlowIDFor("ns", "name", uuid.NewString())
	g.kinds = allKinds()
	return g
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// focus is the execution that a call is about, with its record.
type focus struct {
	id   enginecore.ExecutionID
	core map[string]string
	wait enginecore.WaitpointID
	// token is the waitpoint's token.
	token string
	flow  enginecore.FlowID
}

func (g *generator) focus() focus { return g.focusOn(pick(g.r, g.executions...)) }

func (g *generator) focusOn(id enginecore.ExecutionID) focus {
	f := focus{id: id, wait: pick(g.r, g.waitpoints...), flow: pick(g.r, g.flows...)}
	core := g.b.record(f.id)
	f.core = core
	if id := core["current_waitpoint_id"]; id != "" && g.r.IntN(4) > 0 {
		f.wait = enginecore.WaitpointID(id)
	}
	if id := core["flow_id"]; id != "" && g.r.IntN(4) > 0 {
		f.flow = enginecore.FlowID(id)
	}
	f.token = g.b.field(g.b.keys.WaitpointRecord(partition, f.wait), "waitpoint_token")
	return f
}

// phaseOf is the phase in which an execution must be for a call to get far.
var phaseOf = map[string]string{
	"AppendFrameCall": "active", "CompleteCall": "active", "CompleteExecutionCall": "active", "CreatePendingWaitpointCall": "active",
	"DelayExecutionCall": "active", "FailCall": "active", "FailExecutionCall": "active", "MoveToWaitingChildrenCall": "active",
	"ReleaseCall": "active", "RenewCall": "active", "RenewLeaseCall": "active", "RevokeLeaseCall": "active", "SuspendExecutionCall": "active",
	"UpdateProgressCall": "active", "ClaimExecutionCall": "runnable", "ClaimResumedExecutionCall": "runnable",
	"IssueClaimGrantCall": "runnable", "ChangePriorityCall": "runnable", "BlockExecutionForAdmissionCall": "runnable",
	"UnblockExecutionCall": "runnable", "PromoteBlockedToEligibleCall": "runnable", "DeliverSignalCall": "suspended",
	"ResumeExecutionCall": "suspended", "ExpireSuspensionCall": "suspended", "CloseWaitpointCall": "suspended",
	"SuspendCall": "active", "RecordStepCall": "active", "OpenWaitpointCall": "active", "SignalCall": "suspended", "EndWaitCall": "suspended",
	"ReclaimExecutionCall": "lost", "IssueReclaimGrantCall": "lost", "ReplayExecutionCall": "terminal",
}

// before are calls that some calls need before them.
var before = map[string]string{
	"ClaimExecutionCall": "IssueClaimGrantCall", "ReclaimExecutionCall": "IssueReclaimGrantCall",
	"ClaimResumedExecutionCall": "IssueClaimGrantCall", "UnblockExecutionCall": "BlockExecutionForAdmissionCall",
	"DeliverSignalCall": "RotateWaitpointHMACSecretCall", "BufferSignalForPendingWaitpointCall": "CreatePendingWaitpointCall",
	"SuspendCall": "RotateWaitpointHMACSecretCall", "OpenWaitpointCall": "RotateWaitpointHMACSecretCall",
}

// prepare picks an execution for a call, mostly one that it suits, and takes some on their way when there is none.
func (g *generator) prepare(call string) focus {
	f := g.focus()
	wanted, particular := phaseOf[call]
	if particular && g.r.IntN(8) > 0 {
		for range 20 {
			if f.phase() == wanted {
				break
			}
			g.advance(f)
			f = g.focus()
		}
	} else if g.r.IntN(2) == 0 {
		g.advance(f)
	}
	if name := before[call]; name != "" && g.r.IntN(4) > 0 {
		g.make(name, f)
	}
	return g.focusOn(f.id)
}

// phase is the execution's phase, "lost" for an active execution without a lease, and "" if the execution does not
// exist.
func (f focus) phase() string {
	if f.core["lifecycle_phase"] == "active" && f.core["ownership_state"] != "leased" {
		return "lost"
	}
	return f.core["lifecycle_phase"]
}

// advance takes an execution a step further.
func (g *generator) advance(f focus) {
	switch f.phase() {
	case "":
		g.make("CreateExecutionCall", f)
	case "runnable":
		g.make(pick(g.r, "UnblockExecutionCall", "PromoteDelayedCall", "PromoteBlockedToEligibleCall"), f)
		g.make("IssueClaimGrantCall", f)
		g.make("ClaimExecutionCall", f)
		g.make("ClaimResumedExecutionCall", f)
	case "active":
		g.make("RotateWaitpointHMACSecretCall", f)
		g.make(pick(g.r, "SuspendExecutionCall", "CreatePendingWaitpointCall", "CreateFlowCall", "AddExecutionToFlowCall",
			"RevokeLeaseCall", "DelayExecutionCall"), f)
	case "terminal":
		g.make("ReplayExecutionCall", f)
	}
}

// make sends a call that fits; whether it succeeds does not matter.
func (g *generator) make(name string, f focus) {
	i := slices.IndexFunc(g.kinds, func(k callKind) bool { return k.name == name })
	function, keys, args, err := g.kinds[i].make(g, f)
	if err != nil {
		g.b.tb.Fatalf("%s: %v", name, err)
	}
	refusalOf(g.b.raw(context.Background(), function, keys, args))
}

func (g *generator) familyOf(call string) keyspace.Partition {
	switch {
	case strings.Contains(call, "Budget") || strings.Contains(call, "Usage"):
		return keyspace.Partition{Family: keyspace.BudgetFamily, Index: 1}
	case strings.Contains(call, "Quota") || strings.Contains(call, "Admission"):
		return keyspace.Partition{Family: keyspace.QuotaFamily, Index: 1}
	}
	return partition
}

// texts are values for text arguments by name.
var texts = map[string][]string{
	"AttemptPolicyJSON": {"", `{"a":1,"b":[1]}`}, "BlockingReason": {"waiting_for_budget", "waiting_for_quota", "paused_by_policy"},
	"CancellationPolicy": {"cancel_all", "flow_only"}, "Capabilities": {"", "gpu"}, "ClaimID": {uuid.NewString()},
	"DependencyKind": {"success_only"}, "ExpireReason": {"attempt_timeout", "execution_deadline", "operator"},
	"IdempotencyKey": {"", "again"}, "Kinds": {"\nkind\n"}, "NewKID": {"k1", "k2", "k3"},
	"NewSecretHex": {"00ff", "ab"}, "PolicyJSON": {"", `{"max_reclaim_count":1}`, `{"retry_policy":{"max_retries":2}}`},
	"ResumeConditionJSON": {`{}`, `{"required_signal_names":["go"]}`, `{"required_signal_names":["go","on"],"signal_match_mode":"all"}`},
	"PolicyVariant":       {"any_of", "quorum", "all_of"}, "OnSatisfied": {"cancel_remaining", "let_run"},
	"RetryPolicyJSON": {"", `{"max_retries":2,"backoff":{"type":"fixed","delay_ms":1}}`},
	"SignalName":      {"go", "on"}, "Source": {"", "operator_override"}, "Tags": {"a.b", "team.x"}, "TagsJSON": {"", `{"a.b":"c"}`},
	"TimeoutBehavior": {"fail", "cancel", "auto_resume", "auto_resume_with_timeout_signal", "escalate"}, "UpstreamOutcome": {"success", "failed"},
	"ReasonCode": {"waiting_for_signal", "manual_pause"}, "Ts": {""}, "Cursor": {"", "0"}, "FromID": {"-"}, "ToID": {"+"}, "After": {""},
	"WorkerCapabilitiesCSV": {"", "gpu"}, "ExpectedBlockingReason": {""}, "ExecutionKind": {"kind"}, "DedupKey": {""},
	"WaitpointKey": {"key"}, "Step": {"ask", "more"}, "Condition": {"{}", `{"required_signal_names":["go"]}`},
	"Graph": {"5d41402abc4b2a76b9719d911017c592"}, "Ups": {""}, "Downs": {""}, "Join": {"", ""}, "Policy": {"{}"}, "Retention": {""},
	"Wait": {"", "", `{"waitpoint_id":"00000000-0000-4000-8000-000000000009","waitpoint_key":"key","condition":{}}`},
}

// fill sets a value of a call to something that fits the focus.
func (g *generator) fill(call string, f focus, name string, v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		offset := pick(g.r, -time.Minute, -time.Millisecond, 20*time.Millisecond, time.Hour)
		v.Set(reflect.ValueOf(time.UnixMilli(time.Now().Add(offset).UnixMilli()).UTC()))
		return
	case time.Duration:
		v.SetInt(int64(pick(g.r, time.Minute, time.Minute, time.Minute, time.Minute, 0, 15*time.Millisecond)))
		return
	case keyspace.Partition:
		v.Set(reflect.ValueOf(g.familyOf(call)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			g.fill(call, f, v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		g.fillList(call, f, name, v)
	case reflect.String:
		v.SetString(g.text(f, name, v.Type().Name()))
	case reflect.Int, reflect.Int64:
		v.SetInt(g.number(f, name))
	case reflect.Bool:
		v.SetBool(g.r.IntN(2) == 0)
	}
}

func (g *generator) fillList(call string, f focus, name string, v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte(g.text(f, name, "")))
		return
	}
	if strings.HasSuffix(call, "TagsCall") {
		v.Set(reflect.ValueOf([]string{"team.a", "x", "b.c", "y"}))
		return
	}
	list := reflect.MakeSlice(v.Type(), g.r.IntN(3), 3)
	for i := range list.Len() {
		g.fill(call, f, name, list.Index(i))
	}
	v.Set(list)
}

// held is a value of the current lease, or of the last one; a claim changes it.
func (g *generator) held(f focus, field string) string {
	if value := f.core[field]; value != "" && f.core["lifecycle_phase"] == "active" && f.core["ownership_state"] == "leased" {
		return value
	}
	return uuid.NewString()
}

func (g *generator) text(f focus, name, kind string) string {
	switch kind {
	case "ExecutionID":
		if strings.HasPrefix(name, "Upstream") || strings.HasPrefix(name, "Result") {
			return string(pick(g.r, g.executions...))
		}
		return string(f.id)
	case "FlowID":
		return string(f.flow)
	case "LeaseID":
		return g.held(f, "current_lease_id")
	case "AttemptID":
		return g.held(f, "current_attempt_id")
	case "WaitpointID":
		return string(f.wait)
	case "EdgeID", "SignalID", "SuspensionID", "BudgetID", "QuotaPolicyID":
		return "00000000-0000-4000-8000-00000000000" + pick(g.r, "1", "2", "3")
	case "WorkerID":
		return worker
	case "WorkerInstanceID":
		return instance
	case "LaneID":
		return lane
	}
	if name == "WaitpointToken" {
		return f.token
	}
	if name == "PartitionID" {
		return "1"
	}
	if known := texts[name]; known != nil {
		return pick(g.r, known...)
	}
	return "text"
}

func (g *generator) number(f focus, name string) int64 {
	switch name {
	case "LeaseEpoch":
		return atoi(f.core["current_lease_epoch"])
	case "AttemptIndex", "OldAttemptIndex":
		return atoi(f.core["current_attempt_index"])
	case "ExpectedGraphRevision":
		return atoi(g.b.flowField(f.flow, "graph_revision"))
	case "First", "Run", "Node":
		return 1
	case "MaxPayloadBytes":
		return 100
	}
	return int64(g.r.IntN(3))
}

func allKinds() []callKind {
	return []callKind{
		kind[enginerpc.AckCancelMemberCall](), kind[enginerpc.AddExecutionToFlowCall](), kind[enginerpc.AnnounceCall](),
		kind[enginerpc.AppendFrameCall](), kind[enginerpc.ApplyDependencyToChildCall](),
		kind[enginerpc.BlockExecutionForAdmissionCall](), kind[enginerpc.BufferSignalForPendingWaitpointCall](),
		kind[enginerpc.CancelExecutionCall](), kind[enginerpc.CancelFlowCall](), kind[enginerpc.ChangePriorityCall](),
		kind[enginerpc.CheckAdmissionAndRecordCall](), kind[enginerpc.ClaimCall](), kind[enginerpc.ClaimExecutionCall](),
		kind[enginerpc.ClaimResumedExecutionCall](), kind[enginerpc.CloseWaitpointCall](), kind[enginerpc.CompleteCall](),
		kind[enginerpc.CompleteExecutionCall](), kind[enginerpc.ContractCancelFlowCall](), kind[enginerpc.CreateBudgetCall](),
		kind[enginerpc.CreateExecutionCall](), kind[enginerpc.CreateFlowCall](), kind[enginerpc.CreatePendingWaitpointCall](),
		kind[enginerpc.CreateQuotaPolicyCall](), kind[enginerpc.DelayExecutionCall](), kind[enginerpc.DeliverSignalCall](),
		kind[enginerpc.DescribeFlowCall](), kind[enginerpc.EndLeasesCall](), kind[enginerpc.EvaluateFlowEligibilityCall](),
		kind[enginerpc.ExpireExecutionCall](), kind[enginerpc.ExpireSuspensionCall](), kind[enginerpc.FailCall](),
		kind[enginerpc.FailExecutionCall](), kind[enginerpc.FlowResultCall](), kind[enginerpc.IssueClaimGrantCall](),
		kind[enginerpc.IssueReclaimGrantCall](), kind[enginerpc.ListRunsCall](), kind[enginerpc.ListWaitpointHMACKIDsCall](),
		kind[enginerpc.MarkLeaseExpiredIfDueCall](), kind[enginerpc.MoveToWaitingChildrenCall](),
		kind[enginerpc.PromoteBlockedToEligibleCall](), kind[enginerpc.PromoteDelayedCall](),
		kind[enginerpc.ReadAttemptStreamCall](), kind[enginerpc.ReadEventsCall](), kind[enginerpc.ReadInputsCall](),
		kind[enginerpc.ReclaimExecutionCall](), kind[enginerpc.ReleaseAdmissionCall](), kind[enginerpc.ReleaseCall](),
		kind[enginerpc.RenewCall](), kind[enginerpc.RenewLeaseCall](), kind[enginerpc.ReplayExecutionCall](),
		kind[enginerpc.ReportUsageAndCheckCall](), kind[enginerpc.ResetBudgetCall](), kind[enginerpc.ResolveDependencyCall](),
		kind[enginerpc.ResumeExecutionCall](), kind[enginerpc.RevokeLeaseCall](),
		kind[enginerpc.RotateWaitpointHMACSecretCall](), kind[enginerpc.SetExecutionTagsCall](),
		kind[enginerpc.SetFlowTagsCall](), kind[enginerpc.StageDependencyEdgeCall](), kind[enginerpc.PutGraphCall](), kind[enginerpc.SubmitCall](),
		kind[enginerpc.SuspendExecutionCall](), kind[enginerpc.TickCall](), kind[enginerpc.UnblockExecutionCall](),
		kind[enginerpc.UpdateProgressCall](), kind[enginerpc.SetEdgeGroupPolicyCall](),
		kind[enginerpc.SuspendCall](), kind[enginerpc.RecordStepCall](), kind[enginerpc.OpenWaitpointCall](),
		kind[enginerpc.ReadJournalCall](), kind[enginerpc.SignalCall](), kind[enginerpc.ListWaitpointsCall](),
		kind[enginerpc.EndWaitCall](), kind[enginerpc.DrainSiblingCancelGroupCall](), kind[enginerpc.ReconcileSiblingCancelGroupCall](),
	}
}
