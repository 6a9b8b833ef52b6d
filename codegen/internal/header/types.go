package header

import "slices"

// ValueKind groups the scalar types by how they travel.
type ValueKind int

const (
	KindText   ValueKind = iota // a Go string type
	KindBytes                   // []byte
	KindInt                     // a Go integer type
	KindFloat                   // float64
	KindMillis                  // time.Duration, whole milliseconds
	KindTime                    // time.Time, unix milliseconds
	KindBool                    // "1" or "0"

	KindPartition    // in texts only: the number of a partition of flows
	KindAnyPartition // in texts only: the same, or with q or b before it a partition of quotas or budgets
)

type ScalarType struct {
	Name   string
	GoType string // as package enginerpc names it
	Kind   ValueKind
}

// scalarTypes is the vocabulary of the headers.
var scalarTypes = []ScalarType{
	{"text", "string", KindText},
	{"csv", "string", KindText},
	{"bytes", "[]byte", KindBytes},
	{"value", "[]byte", KindBytes}, // which has its own key where it is large
	{"json", "[]byte", KindBytes},
	{"int", "int64", KindInt},
	{"float", "float64", KindFloat},
	{"ms", "time.Duration", KindMillis},
	{"unix_ms", "time.Time", KindTime},
	{"bool", "bool", KindBool},
	{"execution_id", "enginecore.ExecutionID", KindText},
	{"any_execution_id", "enginecore.ExecutionID", KindText}, // of whatever partition
	{"flow_id", "enginecore.FlowID", KindText},
	{"attempt_id", "keyspace.AttemptID", KindText},
	{"lease_id", "enginecore.LeaseID", KindText},
	{"edge_id", "enginecore.EdgeID", KindText},
	{"signal_id", "enginecore.SignalID", KindText},
	{"waitpoint_id", "enginecore.WaitpointID", KindText},
	{"suspension_id", "keyspace.SuspensionID", KindText},
	{"budget_id", "enginecore.BudgetID", KindText},
	{"quota_policy_id", "enginecore.QuotaPolicyID", KindText},
	{"schedule_id", "keyspace.ScheduleID", KindText},
	{"bulk_job_id", "keyspace.BulkJobID", KindText},
	{"run_key_id", "keyspace.RunKeyID", KindText},
	{"worker_id", "enginecore.WorkerID", KindText},
	{"worker_instance_id", "enginecore.WorkerInstanceID", KindText},
	{"lane_id", "enginecore.LaneID", KindText},
	{"namespace", "keyspace.Namespace", KindText},
	{"lease_epoch", "enginecore.LeaseEpoch", KindInt},
	{"attempt_index", "enginecore.AttemptIndex", KindInt},
	{"lifecycle_phase", "string", KindText},
	{"ownership_state", "string", KindText},
	{"eligibility_state", "string", KindText},
	{"blocking_reason", "string", KindText},
	{"terminal_outcome", "string", KindText},
	{"attempt_state", "string", KindText},
	{"public_state", "fabrictype.NodeState", KindText},
}

// owners are the types of ids to which sealed values belong.
var owners = []string{"execution_id", "any_execution_id", "flow_id", "schedule_id"}

// IsOwner reports whether a field has the id to which the sealed values of its call, reply or record belong.
func IsOwner(x Field) bool { return x.Shape == Scalar && slices.Contains(owners, x.Scalar) }

func ScalarNamed(name string) (ScalarType, bool) {
	for _, t := range scalarTypes {
		if t.Name == name {
			return t, true
		}
	}
	return ScalarType{}, false
}

// isFreeText reports whether a template parameter may have any text as its value: values of the other types are numbers
// and ids of a fixed form.
func isFreeText(param string) bool {
	if param == "slot" { // a number
		return false
	}
	switch t := ParamType(param); t.GoType {
	case "string", "enginecore.LaneID", "enginecore.WorkerID", "enginecore.WorkerInstanceID", "keyspace.Namespace":
		return true
	default:
		return false
	}
}

// ParamType is the type of a template parameter: the type of the same name, else text.
func ParamType(param string) ScalarType {
	if t, ok := ScalarNamed(param); ok {
		return t
	}
	t, _ := ScalarNamed("text")
	return t
}
