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
)

type scalarType struct {
	name   string
	goType string
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
	{"execution_id", "ExecutionID", kindText},
	{"flow_id", "FlowID", kindText},
	{"attempt_id", "AttemptID", kindText},
	{"lease_id", "LeaseID", kindText},
	{"edge_id", "EdgeID", kindText},
	{"signal_id", "SignalID", kindText},
	{"waitpoint_id", "WaitpointID", kindText},
	{"suspension_id", "SuspensionID", kindText},
	{"budget_id", "BudgetID", kindText},
	{"quota_policy_id", "QuotaPolicyID", kindText},
	{"schedule_id", "ScheduleID", kindText},
	{"worker_id", "WorkerID", kindText},
	{"worker_instance_id", "WorkerInstanceID", kindText},
	{"lane_id", "LaneID", kindText},
	{"namespace", "Namespace", kindText},
	{"lease_epoch", "LeaseEpoch", kindInt},
	{"attempt_index", "AttemptIndex", kindInt},
	{"lifecycle_phase", "LifecyclePhase", kindText},
	{"ownership_state", "OwnershipState", kindText},
	{"eligibility_state", "EligibilityState", kindText},
	{"blocking_reason", "BlockingReason", kindText},
	{"terminal_outcome", "TerminalOutcome", kindText},
	{"attempt_state", "AttemptState", kindText},
	{"public_state", "PublicState", kindText},
}

func scalarNamed(name string) (scalarType, bool) {
	for _, t := range scalarTypes {
		if t.name == name {
			return t, true
		}
	}
	return scalarType{}, false
}

// isFreeText reports whether a template parameter may have any text as its value: those of the other types are numbers and ids
// of a fixed form.
func isFreeText(param string) bool {
	if param == "place" { // a number
		return false
	}
	switch t := paramType(param); t.goType {
	case "string", "LaneID", "WorkerID", "WorkerInstanceID", "Namespace":
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
