package enginecore

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// derivation is the UUID namespace of all ids that derive from names. It is part of the stored form: with
// another one, a re-submitted run would no longer meet its own flow.
const derivation = "8f6b0d4e-5c0a-5c3e-9d0f-3b1f6a1e7c21"

// derive is the UUIDv5 over a kind and parts. Each part is preceded by its length, so that no two lists of
// parts give the same text.
func derive(kind string, parts ...string) string {
	name := []byte(kind)
	for _, p := range parts {
		name = binary.AppendUvarint(name, uint64(len(p)))
		name = append(name, p...)
	}
	return uuid.NewSHA1(uuid.MustParse(derivation), name).String()
}

// FlowIDFor is the flow id of a run. A run id is unique within namespace and flow name, so submitting the
// same run again meets the same flow.
func FlowIDFor(namespace Namespace, flowName, runID string) FlowID {
	return FlowID(derive("flow", string(namespace), flowName, runID))
}

// ExecutionIDFor is the execution id of a node of a flow. The partition is the flow's.
func ExecutionIDFor(p Partition, flow FlowID, nodeName string) ExecutionID {
	return ExecutionID(p.Tag() + ":" + derive("execution", string(flow), nodeName))
}

// EdgeIDFor is the edge id between two nodes of a flow.
func EdgeIDFor(flow FlowID, upstreamNode, downstreamNode string) EdgeID {
	return EdgeID(derive("edge", string(flow), upstreamNode, downstreamNode))
}

// QuotaIDFor is the id of the quota that limits of one name and key in a namespace share.
func QuotaIDFor(namespace Namespace, name, key string) QuotaPolicyID {
	return QuotaPolicyID(derive("quota", string(namespace), name, key))
}

// BudgetIDFor is the id of a budget. The scope is run (parts: flow name, run id, budget name), flow (flow name, budget name) or
// shared (budget name, key).
func BudgetIDFor(namespace Namespace, scope string, parts ...string) BudgetID {
	return BudgetID(derive("budget", append([]string{string(namespace), scope}, parts...)...))
}

// ScheduleIDFor is the id of a schedule. Its name is unique within a namespace.
func ScheduleIDFor(namespace Namespace, name string) ScheduleID {
	return ScheduleID(derive("schedule", string(namespace), name))
}

// WaitpointIDFor is the id of the waitpoint of a waitpoint node of a flow.
func WaitpointIDFor(flow FlowID, nodeName string) WaitpointID {
	return WaitpointID(derive("waitpoint", string(flow), nodeName))
}
