package keyspace

import (
	"crypto/sha1" // UUIDv5 is defined by it
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// derivation is the UUID namespace of all ids that derive from names. It is part of the stored form: with
// another one, a re-submitted run would no longer meet its own flow.
const derivation = "8f6b0d4e-5c0a-5c3e-9d0f-3b1f6a1e7c21"

var derivationSpace = uuid.MustParse(derivation)

// derive is the UUIDv5 over a kind and parts. Each part is preceded by its length, so that no two lists of
// parts give the same text.
func derive(kind string, parts ...string) string { return deriveUUID(kind, parts...).String() }

func deriveUUID(kind string, parts ...string) uuid.UUID {
	text := append(append(make([]byte, 0, maxShortDerivation), derivationSpace[:]...), kind...)
	for _, p := range parts {
		text = appendPart(text, p)
	}
	return hashUUID(text)
}

// maxShortDerivation is the length of texts that are hashed without an allocation.
const maxShortDerivation = 256

// appendPart adds a part with its length before it.
func appendPart[T ~string | ~[]byte](text []byte, part T) []byte {
	return append(binary.AppendUvarint(text, uint64(len(part))), part...)
}

func hashUUID(text []byte) uuid.UUID {
	sum := sha1.Sum(text)
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x50 // version 5
	id[8] = id[8]&0x3f | 0x80 // the variant of RFC 9562
	return id
}

// appendUUID adds the canonical form of 36 characters.
func appendUUID(text []byte, id uuid.UUID) []byte {
	var form [uuidLength]byte
	hex.Encode(form[:8], id[:4])
	form[8] = '-'
	hex.Encode(form[9:13], id[4:6])
	form[13] = '-'
	hex.Encode(form[14:18], id[6:8])
	form[18] = '-'
	hex.Encode(form[19:23], id[8:10])
	form[23] = '-'
	hex.Encode(form[24:], id[10:])
	return append(text, form[:]...)
}

// FlowIDFor is the flow id of a run. A run id is unique within namespace and flow name, so submitting the
// same run again meets the same flow.
//
// It is a UUID of version 8 that ends in 0000: the ids of the executions of a run that is submitted whole have the
// ordinals of their nodes there, see [NodeExecutionID].
func FlowIDFor(namespace Namespace, flowName, runID string) enginecore.FlowID {
	return enginecore.FlowID(flowUUID(namespace, flowName, runID).String())
}

func flowUUID[T ~string | ~[]byte](namespace Namespace, flowName string, runID T) uuid.UUID {
	text := append(append(make([]byte, 0, maxShortDerivation), derivationSpace[:]...), "flow"...)
	text = appendPart(appendPart(appendPart(text, namespace), flowName), runID)
	id := hashUUID(text)
	id[6] = id[6]&0x0f | 0x80 // version 8
	id[14], id[15] = 0, 0
	return id
}

// NodeExecutionID is the execution id of the node of a flow with an ordinal, from 1 on, in the order of the flow's
// definition. It goes for flows that are submitted whole.
func NodeExecutionID(p Partition, flow enginecore.FlowID, ordinal int) enginecore.ExecutionID {
	return enginecore.ExecutionID(AppendNodeExecutionID(make([]byte, 0, maxExecutionID), p, flow, ordinal))
}

// maxExecutionID is room for an execution id.
const maxExecutionID = 64

// AppendNodeExecutionID appends the id that NodeExecutionID returns.
func AppendNodeExecutionID(text []byte, p Partition, flow enginecore.FlowID, ordinal int) []byte {
	text = append(p.appendTag(text), ':')
	text = append(text, flow[:min(len(flow), flowPrefix)]...)
	digits := strconv.AppendInt(make([]byte, 0, 8), int64(ordinal), 16)
	text = append(text, "0000"[min(len(digits), 4):]...)
	return append(text, digits...)
}

// PackFlowID returns the id of a flow that is submitted whole as lists of runs contain it: its bytes but the last two,
// which are zero. It is empty if the id is not a UUID.
func PackFlowID(flow enginecore.FlowID) []byte { return AppendPackedFlowID(nil, flow) }

// AppendPackedFlowID appends the bytes that PackFlowID returns.
func AppendPackedFlowID(to []byte, flow enginecore.FlowID) []byte {
	id, err := uuid.Parse(string(flow))
	if err != nil {
		return to
	}
	return append(to, id[:packedFlowID]...)
}

// listedName is how many bytes of the id of a run the list of all runs has.
const listedName = 40

// AppendListedName appends the part of the id of a run that the list of all runs has: the first bytes, or all of a UUID
// in lower case, as a byte 0 and its bytes.
func AppendListedName(to []byte, runID string) []byte {
	if len(runID) == uuidLength && !strings.ContainsAny(runID, "ABCDEF") {
		if id, err := uuid.Parse(runID); err == nil {
			return append(append(to, 0), id[:]...)
		}
	}
	return append(to, runID[:min(len(runID), listedName)]...)
}

// PackRunOf returns the id of the run of a node in the same form; nil for an execution outside of runs.
func PackRunOf(node enginecore.ExecutionID) []byte {
	id, err := uuid.Parse(node.UUID())
	if err != nil || id.Version() != 8 {
		return nil
	}
	return id[:packedFlowID]
}

// packedFlowID is the length of the id of a flow in lists of runs.
const packedFlowID = 14

// flowPrefix is how many characters the executions of a flow have in common with its id.
const flowPrefix = 32

// FlowPartitionFor is the partition of the flow that FlowIDFor names.
func (p Partitioning) FlowPartitionFor(namespace Namespace, flowName, runID string) Partition {
	id := flowUUID(namespace, flowName, runID)
	return Partition{FlowFamily, bucket(crc16(id[:]), p.Flow)}
}

// FlowPartitionForUUID is FlowPartitionFor for a run whose id is a UUID, without a text of the UUID.
func (p Partitioning) FlowPartitionForUUID(namespace Namespace, flowName string, run uuid.UUID) Partition {
	text := appendUUID(make([]byte, 0, uuidLength), run)
	id := flowUUID(namespace, flowName, text)
	return Partition{FlowFamily, bucket(crc16(id[:]), p.Flow)}
}

// uuidLength is the length of a UUID as text.
const uuidLength = 36

// ExecutionIDFor is the execution id of a node of a flow that is created call by call. The partition is the flow's.
func ExecutionIDFor(p Partition, flow enginecore.FlowID, nodeName string) enginecore.ExecutionID {
	text := append(p.appendTag(make([]byte, 0, 64)), ':')
	return enginecore.ExecutionID(appendUUID(text, deriveUUID("execution", string(flow), nodeName)))
}

// EdgeIDFor is the edge id between two nodes of a flow.
func EdgeIDFor(flow enginecore.FlowID, upstreamNode, downstreamNode string) enginecore.EdgeID {
	return enginecore.EdgeID(derive("edge", string(flow), upstreamNode, downstreamNode))
}

// QuotaIDFor is the id of the quota that limits of one name and key in a namespace share.
func QuotaIDFor(namespace Namespace, name, key string) enginecore.QuotaPolicyID {
	return enginecore.QuotaPolicyID(derive("quota", string(namespace), name, key))
}

// BudgetIDFor is the id of a budget. The scope is run (parts: flow name, run id, budget name), flow (flow name, budget
// name) or shared (budget name, key).
func BudgetIDFor(namespace Namespace, scope string, parts ...string) enginecore.BudgetID {
	return enginecore.BudgetID(derive("budget", append([]string{string(namespace), scope}, parts...)...))
}

// ScheduleIDFor is the id of a schedule. Its name is unique within a namespace.
func ScheduleIDFor(namespace Namespace, name string) ScheduleID {
	return ScheduleID(derive("schedule", string(namespace), name))
}

// BulkJobIDFor is the id under which a bulk job is stored. Its name is unique within a namespace.
func BulkJobIDFor(namespace Namespace, name string) BulkJobID {
	return BulkJobID(derive("bulk job", string(namespace), name))
}

// RunKeyIDFor returns the id of the engine's record of a run key, which runs of a flow with this key share. Keys are
// unique within a namespace and flow.
func RunKeyIDFor(namespace Namespace, flowName, key string) RunKeyID {
	return RunKeyID(derive("run key", string(namespace), flowName, key))
}

// WaitpointIDFor is the id of the waitpoint of a waitpoint node of a flow.
func WaitpointIDFor(flow enginecore.FlowID, nodeName string) enginecore.WaitpointID {
	return enginecore.WaitpointID(derive("waitpoint", string(flow), nodeName))
}
