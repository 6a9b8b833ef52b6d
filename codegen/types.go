package main

// valueKind groups the scalar types by how they travel.
type valueKind int

const (
	kindText   valueKind = iota // a Go string type
	kindBytes                   // []byte
	kindInt                     // a Go integer type
	kindFloat                   // float64
	kindMillis                  // time.Duration, whole milliseconds
	kindTime                    // time.Time, unix milliseconds
	kindBool                    // "1" or "0"

	kindPartition    // in texts only: the number of a partition of flows
	kindAnyPartition // in texts only: the same, or with q or b before it a partition of quotas or budgets
)

type scalarType struct {
	name   string
	goType string // as package enginerpc names it
	kind   valueKind
}

// scalarTypes is the vocabulary of the headers.
var scalarTypes = []scalarType{
	{"text", "string", kindText},
	{"csv", "string", kindText},
	{"bytes", "[]byte", kindBytes},
	{"json", "[]byte", kindBytes},
	{"int", "int64", kindInt},
	{"float", "float64", kindFloat},
	{"ms", "time.Duration", kindMillis},
	{"unix_ms", "time.Time", kindTime},
	{"bool", "bool", kindBool},
	{"execution_id", "enginecore.ExecutionID", kindText},
	{"any_execution_id", "enginecore.ExecutionID", kindText}, // of whatever partition
	{"flow_id", "enginecore.FlowID", kindText},
	{"attempt_id", "keyspace.AttemptID", kindText},
	{"lease_id", "enginecore.LeaseID", kindText},
	{"edge_id", "enginecore.EdgeID", kindText},
	{"signal_id", "enginecore.SignalID", kindText},
	{"waitpoint_id", "enginecore.WaitpointID", kindText},
	{"suspension_id", "keyspace.SuspensionID", kindText},
	{"budget_id", "enginecore.BudgetID", kindText},
	{"quota_policy_id", "enginecore.QuotaPolicyID", kindText},
	{"schedule_id", "keyspace.ScheduleID", kindText},
	{"bulk_job_id", "keyspace.BulkJobID", kindText},
	{"run_key_id", "keyspace.RunKeyID", kindText},
	{"worker_id", "enginecore.WorkerID", kindText},
	{"worker_instance_id", "enginecore.WorkerInstanceID", kindText},
	{"lane_id", "enginecore.LaneID", kindText},
	{"namespace", "keyspace.Namespace", kindText},
	{"lease_epoch", "enginecore.LeaseEpoch", kindInt},
	{"attempt_index", "enginecore.AttemptIndex", kindInt},
	{"lifecycle_phase", "string", kindText},
	{"ownership_state", "string", kindText},
	{"eligibility_state", "string", kindText},
	{"blocking_reason", "string", kindText},
	{"terminal_outcome", "string", kindText},
	{"attempt_state", "string", kindText},
	{"public_state", "fabrictype.NodeState", kindText},
}

func scalarNamed(name string) (scalarType, bool) {
	for _, t := range scalarTypes {
		if t.name == name {
			return t, true
		}
	}
	return scalarType{}, false
}

// isFreeText reports whether a template parameter may have any text as its value: values of the other types are numbers
// and ids of a fixed form.
func isFreeText(param string) bool {
	if param == "slot" { // a number
		return false
	}
	switch t := paramType(param); t.goType {
	case "string", "enginecore.LaneID", "enginecore.WorkerID", "enginecore.WorkerInstanceID", "keyspace.Namespace":
		return true
	default:
		return false
	}
}

// paramType is the type of a template parameter: the type of the same name, else text.
func paramType(param string) scalarType {
	if t, ok := scalarNamed(param); ok {
		return t
	}
	t, _ := scalarNamed("text")
	return t
}
