package rowread

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// HeadBytes and RowBytes are the lengths of the header and of a row.
	HeadBytes, RowBytes = 46, 93

	form      = 1
	noAttempt = 65535
	noLease   = "------------------------------------"
	// otherLease stands for a lease whose id is among the further fields.
	otherLease = "++++++++++++++++++++++++++++++++++++"

	flowUUIDBytes = 36
)

// Flags of rows.
const (
	More         = 1 << iota // fields of the row are in the hash of further fields
	Recorded                 // the current attempt has a record of its own
	Leased                   // the lease is shown
	OtherAttempt             // the id of the attempt is in the hash of further fields
	Untold                   // it ended with its run, so the nodes behind it were not told
	Ahead                    // it was leased for the first time before it had its permits
)

// Input is the flag of a run whose input is behind the rows.
const Input = 64

const (
	standing = 15 // flags of a run that say what has become of it
	plain    = 8  // of these: it is open, and its nodes have ended with success, if they have
	smallRun = 10 // nodes up to which the rows of a plain run say how many are open, and not its header
)

// Head is the header of a run's rows.
type Head struct {
	Nodes   int
	Flags   int // 1: extended by calls of the contract; 2: a node was replayed
	Open    int // nodes that have not ended
	Created int64
	Graph   string // hash
}

// Row is one node. State fields have the texts that records have, "" for a value that is in the hash of further fields.
type Row struct {
	Phase, Ownership, Eligibility, Reason, Outcome, Attempt, Public string

	Flags                           int
	Index                           int // of the current attempt; -1 before the first
	Attempts, Retries, Reclaims     int
	Epoch                           int64
	Open, Told                      int
	Expires, Acquired               int64
	Started, Ended, Changed, Worker int64
	Lease                           string // "" before the first

	states [7]byte
}

var states = [7][]string{
	{"runnable", "active", "suspended", "terminal"},
	{"unowned", "leased", "lease_expired_reclaimable", "lease_revoked"},
	{
		"eligible_now", "not_eligible_until_time", "blocked_by_dependencies", "blocked_by_budget", "blocked_by_quota",
		"blocked_by_route", "blocked_by_operator", "blocked_by_lane_state", "not_applicable",
	},
	{
		"none", "waiting_for_worker", "waiting_for_delay", "waiting_for_retry_backoff", "waiting_for_resume_delay",
		"waiting_for_children", "waiting_for_budget", "waiting_for_quota", "waiting_for_capable_worker", "waiting_for_signal",
		"waiting_for_approval", "waiting_for_callback", "waiting_for_tool_result", "paused_by_operator", "paused_by_policy",
		"waiting_for_locality_match", "paused_by_flow_cancel",
	},
	{"none", "success", "failed", "cancelled", "expired", "skipped"},
	{
		"none", "pending_first_attempt", "running_attempt", "attempt_interrupted", "pending_retry_attempt",
		"pending_replay_attempt", "attempt_terminal",
	},
	{
		"waiting", "delayed", "rate_limited", "waiting_children", "active", "suspended", "completed", "failed", "cancelled",
		"expired", "skipped",
	},
}

// Result returns the result of a node of a run by its ordinal: nodes is the string that has its rows, and results the
// hash that has results. A run of one node has a short result behind its row.
func Result(nodes string, results map[string]string, ordinal int) string {
	if ordinal == 1 && len(nodes) >= HeadBytes+RowBytes && binary.LittleEndian.Uint16([]byte(nodes[1:])) == 1 {
		_, rest := inputBehind(nodes, 1)
		if result, _ := textAt(rest); result != "" {
			return result
		}
	}
	return results[strconv.Itoa(ordinal)]
}

// inputBehind returns the input behind the rows of a run of so many nodes, "" for none, and what follows it.
func inputBehind(nodes string, count int) (input, rest string) {
	rest = nodes[HeadBytes+count*RowBytes:]
	if nodes[3]&Input == 0 {
		return "", rest
	}
	return textAt(rest)
}

// textAt returns the text at the beginning of stored bytes, with its length before it, and what follows it.
func textAt(stored string) (text, rest string) {
	if len(stored) < 4 {
		return "", ""
	}
	length := int(binary.LittleEndian.Uint32([]byte(stored)))
	if length > len(stored)-4 {
		return "", ""
	}
	return stored[4:][:length], stored[4+length:]
}

// Parse reads the rows of a run: nodes is the whole string.
func Parse(nodes string) (Head, []Row, error) {
	if len(nodes) < HeadBytes || nodes[0] != form {
		return Head{}, nil, fmt.Errorf("no rows: %d bytes", len(nodes))
	}
	b := []byte(nodes)
	h := Head{
		Nodes: int(binary.LittleEndian.Uint16(b[1:])), Flags: int(b[3]), Open: int(binary.LittleEndian.Uint32(b[4:])),
		Created: int48(b[8:]), Graph: nodes[14:HeadBytes],
	}
	want := HeadBytes + h.Nodes*RowBytes
	if h.Flags&Input != 0 && len(b) > want {
		input, _ := inputBehind(nodes, h.Nodes)
		want += 4 + len(input)
	}
	if len(b) != want && (h.Nodes != 1 || len(b) < want) {
		return h, nil, fmt.Errorf("rows of %d nodes have %d bytes, want %d", h.Nodes, len(b), want)
	}
	rows := make([]Row, h.Nodes)
	for i := range rows {
		rows[i] = parseRow(b[HeadBytes+i*RowBytes:])
		if rows[i].Changed == 0 {
			rows[i].Changed = h.Created
		}
	}
	if h.Flags&standing == plain && h.Nodes <= smallRun {
		h.Open = 0
		for i := range rows {
			if rows[i].Phase != "terminal" {
				h.Open++
			}
		}
	}
	return h, rows, nil
}

func int48(b []byte) int64 {
	return int64(binary.LittleEndian.Uint32(b)) | int64(binary.LittleEndian.Uint16(b[4:]))<<32
}

func parseRow(b []byte) Row {
	r := Row{
		Flags: int(b[7]), Index: int(binary.LittleEndian.Uint16(b[8:])), Attempts: int(binary.LittleEndian.Uint16(b[10:])),
		Retries: int(binary.LittleEndian.Uint16(b[12:])), Reclaims: int(b[14]), Epoch: int64(binary.LittleEndian.Uint32(b[15:])),
		Open: int(binary.LittleEndian.Uint16(b[19:])), Told: int(binary.LittleEndian.Uint16(b[21:])), Expires: int48(b[23:]),
		Acquired: int48(b[29:]), Started: int48(b[35:]), Ended: int48(b[41:]), Changed: int48(b[47:]),
		Worker: int64(binary.LittleEndian.Uint32(b[53:])), Lease: string(b[57:RowBytes]),
	}
	if r.Index == noAttempt {
		r.Index = -1
	}
	if r.Lease == noLease {
		r.Lease = ""
	}
	copy(r.states[:], b)
	for i, field := range []*string{&r.Phase, &r.Ownership, &r.Eligibility, &r.Reason, &r.Outcome, &r.Attempt, &r.Public} {
		if n := int(b[i]); n >= 1 && n <= len(states[i]) {
			*field = states[i][n-1]
		}
	}
	return r
}

// Ordinal is the ordinal of the node whose execution has an id, and 0 for executions that are no rows.
func Ordinal(id enginecore.ExecutionID) int {
	uuid := id.UUID()
	if len(uuid) != flowUUIDBytes || uuid[14] != '8' {
		return 0
	}
	n, err := strconv.ParseUint(uuid[32:], 16, 16)
	if err != nil {
		return 0
	}
	return int(n)
}

// FlowID is the run that an execution with a row belongs to.
func FlowID(id enginecore.ExecutionID) enginecore.FlowID {
	return enginecore.FlowID(id.UUID()[:32] + "0000")
}

// AttemptOf is the id of the attempt that began with a lease.
func AttemptOf(lease string) string { return lease[:24] + "1" + lease[25:] }

// Fields returns the row's fields as records have them, without those of the graph. more are the row's further
// fields, by their names.
func (r Row) Fields(more map[string]string) map[string]string {
	out := make(map[string]string, 24+len(more))
	for name, value := range more {
		out[name] = value
	}
	set := func(name, value string) {
		if value != "" {
			out[name] = value
		}
	}
	for name, value := range map[string]string{
		"lifecycle_phase": r.Phase, "ownership_state": r.Ownership, "eligibility_state": r.Eligibility, "blocking_reason": r.Reason,
		"terminal_outcome": r.Outcome, "attempt_state": r.Attempt, "public_state": r.Public,
	} {
		set(name, value)
	}
	for name, at := range map[string]int64{
		"lease_expires_at": r.Expires, "lease_acquired_at": r.Acquired, "started_at": r.Started, "completed_at": r.Ended,
		"last_transition_at": r.Changed, "last_mutation_at": r.Changed,
	} {
		if at > 0 {
			out[name] = strconv.FormatInt(at, 10)
		}
	}
	out["total_attempt_count"], out["retry_count"] = strconv.Itoa(r.Attempts), strconv.Itoa(r.Retries)
	out["current_lease_epoch"] = strconv.FormatInt(r.Epoch, 10)
	if _, more := out["lease_reclaim_count"]; r.Reclaims < math.MaxUint8 || !more {
		out["lease_reclaim_count"] = strconv.Itoa(r.Reclaims)
	}
	out["managed"] = "1"
	if r.Index >= 0 {
		out["current_attempt_index"] = strconv.Itoa(r.Index)
	}
	other := r.Lease == otherLease
	switch {
	case r.Flags&Leased == 0:
	case other:
		set("current_lease_id", more["lease"])
	default:
		set("current_lease_id", r.Lease)
	}
	delete(out, "lease")
	if r.Flags&Ahead != 0 {
		out["admission"] = "0 0 ?"
	}
	if r.Flags&OtherAttempt == 0 && r.Lease != "" && !other && r.Attempt != "pending_retry_attempt" {
		out["current_attempt_id"] = AttemptOf(r.Lease)
	}
	return out
}

// MoreOf returns the further fields of a row, by their names, out of those of its run.
func MoreOf(more map[string]string, ordinal int) map[string]string {
	out := make(map[string]string)
	prefix := strconv.Itoa(ordinal) + " "
	for name, value := range more {
		if field, of := strings.CutPrefix(name, prefix); of {
			out[field] = value
		}
	}
	return out
}
