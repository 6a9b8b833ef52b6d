package rowread

import (
	"crypto/sha1" //nolint:gosec // ids derive from it
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	noAttempt = 65535
	noLease   = "------------------------------------"
	// otherLease marks a lease whose id is among the further fields.
	otherLease = "++++++++++++++++++++++++++++++++++++"

	flowUUIDBytes = 36

	smallRun = 10 // the largest plain run whose rows, and not its header, hold the number of open nodes

	// Flags that record changes of a run since its submission.
	standing = RunHeadExtended | RunHeadReplayed | RunHeadPurging | RunHeadPlain
)

// Logged is the number of events of a run whose events are in the event log.
const Logged = 65535

// Place returns how many bytes come before the row of a node of a run with count nodes. Before the first row are the
// header and the course.
func Place(count, ordinal int) int {
	course := 4 * count
	if count == 1 {
		course = 0
	}
	return RunHeadBytes + course + (ordinal-1)*NodeRowBytes
}

// Head is the header of a run's rows.
type Head struct {
	Nodes   int
	Flags   int // of RunHead
	Open    int // nodes that have not ended
	Created int64
	Listed  int64  // place in the lists of runs (Unix µs)
	Closed  int64  // place in the list of runs that are over; 0 while it is open
	Class   string // id of the class
	Events  int    // number of events that follow from the rows; -1 when they are in the event log
}

// Row is one node. State fields have the texts that records have, "" for a value that is in the hash of further fields.
type Row struct {
	Phase, Ownership, Eligibility, Reason, Outcome, Attempt, Public string

	Flags                           int // of NodeRow
	Index                           int // of the current attempt; -1 before the first
	Attempts, Retries, Reclaims     int
	Epoch                           int64
	Open, Told                      int
	Expires, Acquired               int64
	Started, Ended, Changed, Worker int64
	Lease                           string // "" before the first
}

// Data has the values that are stored with a run in addition to its rows.
type Data struct {
	Record string // as internal/runrecord encodes it
	Input  string // "" without one, or where it has its own key
	// Results are by the ordinals of their nodes, without those in the hash with results.
	Results map[int]string
	Rest    string // bytes without a meaning
}

// DataOf reads the data of a run: nodes is the string with its rows, and data the other one, which runs of more than
// one node have.
func DataOf(nodes, data string) Data {
	head := ReadRunHead([]byte(nodes))
	rest := data
	if head.Count == 1 {
		rest = nodes[min(len(nodes), Place(1, 2)):]
	}
	var d Data
	d.Record, rest = textAt(rest)
	if head.Flags&RunHeadInput != 0 {
		d.Input, rest = textAt(rest)
	}
	d.Results = make(map[int]string)
	if head.Count == 1 {
		var result string
		if result, rest = textAt(rest); result != "" {
			d.Results[1] = result
		}
	}
	for head.Count > 1 && len(rest) >= 2 {
		result, after := textAt(rest[2:])
		if len(after) == len(rest)-2 {
			break
		}
		d.Results[int(binary.LittleEndian.Uint16([]byte(rest)))], rest = result, after
	}
	d.Rest = rest
	return d
}

// textAt returns the text at the beginning of stored bytes, with its length before it, and the bytes that follow.
func textAt(stored string) (text, rest string) {
	if len(stored) < 4 {
		return "", stored
	}
	length := int(binary.LittleEndian.Uint32([]byte(stored)))
	if length > len(stored)-4 {
		return "", stored
	}
	return stored[4:][:length], stored[4+length:]
}

// Parse reads the rows of a run: nodes is the whole string.
func Parse(nodes string) (Head, []Row, error) {
	if len(nodes) < RunHeadBytes || nodes[0] != RunHeadForm {
		return Head{}, nil, fmt.Errorf("no rows: %d bytes", len(nodes))
	}
	b := []byte(nodes)
	stored := ReadRunHead(b)
	h := Head{
		Nodes: stored.Count, Flags: stored.Flags, Open: int(stored.Open), Created: stored.Created, Class: stored.Class,
		Events: stored.Events, Listed: stored.Listed, Closed: stored.Closed,
	}
	if h.Events == Logged {
		h.Events = -1
	}
	want := Place(h.Nodes, h.Nodes+1)
	if len(b) != want && (h.Nodes != 1 || len(b) < want) {
		return h, nil, fmt.Errorf("rows of %d nodes have %d bytes, want %d", h.Nodes, len(b), want)
	}
	rows := make([]Row, h.Nodes)
	for i := range rows {
		rows[i] = rowOf(ReadNodeRow(b[Place(h.Nodes, i+1):]))
		if rows[i].Changed == 0 {
			rows[i].Changed = h.Created
		}
	}
	if h.Flags&standing == RunHeadPlain && h.Nodes <= smallRun {
		h.Open = 0
		for i := range rows {
			if rows[i].Phase != "terminal" {
				h.Open++
			}
		}
	}
	return h, rows, nil
}

// Event is an event that follows from the rows of a run.
type Event struct {
	Kind    string
	Ordinal int // of the node; 0 for events of the run
	At      int64
	Worker  int64 // of a start
}

// Events returns the events that follow from the rows of a run, in order, which Parse has read of nodes; none when they
// are in the event log.
func Events(nodes string, h Head, rows []Row) (events []Event) {
	for position := range h.Events {
		switch {
		case position == 0:
			events = append(events, Event{Kind: "flow_submitted", At: h.Created})
		case position == 2*h.Nodes+1:
			events = append(events, Event{Kind: "flow_success", At: events[position-1].At})
		default:
			entry := position + 1 // of a run of one node
			if h.Nodes > 1 {
				entry = int(binary.LittleEndian.Uint16([]byte(nodes[RunHeadBytes+2*(position-1):])))
			}
			e := Event{Kind: "started", Ordinal: entry / 2}
			if e.Ordinal < 1 || e.Ordinal > len(rows) {
				return append(events, Event{Kind: "malformed"})
			}
			if e.At, e.Worker = rows[e.Ordinal-1].Started, rows[e.Ordinal-1].Worker; entry%2 == 1 {
				e.Kind, e.At, e.Worker = "success", rows[e.Ordinal-1].Ended, 0
			}
			events = append(events, e)
		}
	}
	return events
}

func littleEndian(b []byte) int64 {
	var eight [8]byte
	copy(eight[:], b)
	return int64(binary.LittleEndian.Uint64(eight[:]))
}

func appendLittleEndian(b []byte, n int64, size int) []byte {
	return append(b, binary.LittleEndian.AppendUint64(nil, uint64(n))[:size]...)
}

func rowOf(stored NodeRow) Row {
	r := Row{
		Phase: valueOf(NodeRowPhase, stored.Phase), Ownership: valueOf(NodeRowOwner, stored.Owner),
		Eligibility: valueOf(NodeRowElig, stored.Elig), Reason: valueOf(NodeRowWhy, stored.Why),
		Outcome: valueOf(NodeRowOutcome, stored.Outcome), Attempt: valueOf(NodeRowAttempt, stored.Attempt),
		Public: valueOf(NodeRowPublic, stored.Public),
		Flags:  stored.Flags, Index: stored.Index, Attempts: stored.Total, Retries: stored.Retries, Reclaims: stored.Reclaims,
		Epoch: stored.Epoch, Open: stored.Open, Told: stored.Told, Expires: stored.Expires, Acquired: stored.Acquired,
		Started: stored.Started, Ended: stored.Ended, Changed: stored.Changed, Worker: stored.Worker, Lease: stored.Lease,
	}
	if r.Index == noAttempt {
		r.Index = -1
	}
	if r.Lease == noLease {
		r.Lease = ""
	}
	return r
}

// valueOf returns the value of a state with a number, "" for one that is among the further fields.
func valueOf(values []string, number int) string {
	if number < 1 || number > len(values) {
		return ""
	}
	return values[number-1]
}

// Ordinal returns the ordinal of the node whose execution has an id, and 0 for executions that are not rows.
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

// Fields returns the row's fields as records have them, without the fields of the graph. more are the row's further
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
	case r.Flags&NodeRowLeased == 0:
	case other:
		set("current_lease_id", more["lease"])
	default:
		set("current_lease_id", r.Lease)
	}
	delete(out, "lease")
	if r.Flags&NodeRowAhead != 0 {
		out["admission"] = "0 0 ?"
	}
	if r.Flags&NodeRowOtherAttempt == 0 && r.Lease != "" && !other && r.Attempt != "pending_retry_attempt" {
		out["current_attempt_id"] = AttemptOf(r.Lease)
	}
	SpreadFailure(out)
	return out
}

// SpreadFailure replaces the last failure of a node that is tried again, as its row stores it, by the fields that follow
// from it.
func SpreadFailure(core map[string]string) {
	text, found := core["failure"]
	if !found {
		return
	}
	delete(core, "failure")
	due, rest, _ := strings.Cut(text, " ")
	length, rest, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(length)
	category, reason := rest[:min(n, len(rest))], rest[min(n, len(rest)):]
	core["failure_reason"] = reason
	if category != "" {
		core["failure_category"] = category
	}
	if core["attempt_state"] == "pending_retry_attempt" {
		core["pending_retry_reason"], core["pending_previous_attempt_index"] = reason, core["current_attempt_index"]
	}
	if core["blocking_reason"] == "waiting_for_retry_backoff" {
		core["delay_until"] = due
		core["blocking_detail"] = "retry backoff until " + due + " (attempt " + core["current_attempt_index"] + " failed: " + reason + ")"
	}
}

// SpreadDelay adds the fields that follow from the delay of a node, "" for none, in a run that was created and started at
// these times (Unix ms), the latter "" if it has no start of its own.
func SpreadDelay(core map[string]string, delay, startAt string, created int64) {
	waits := core["eligibility_state"] == "not_eligible_until_time" && core["blocking_reason"] == "waiting_for_delay"
	if core["delay_until"] != "" || !waits && (delay == "" || core["total_attempt_count"] != "0") || delay == "" && startAt == "" {
		return
	}
	at := created
	if startAt != "" {
		at, _ = strconv.ParseInt(startAt, 10, 64)
	}
	ms, _ := strconv.ParseInt(delay, 10, 64)
	core["delay_until"] = strconv.FormatInt(at+ms, 10)
	if waits && core["blocking_detail"] == "" {
		core["blocking_detail"] = "delayed until " + core["delay_until"]
	}
}

// SpreadWait adds the fields that follow from the first wait of an open waitpoint node.
func SpreadWait(core map[string]string, flow enginecore.FlowID) {
	if core["lifecycle_phase"] != "suspended" || core["wait"] == "" {
		return
	}
	id := string(keyspace.WaitpointIDFor(flow, core["node"]))
	if core["current_waitpoint_id"] == "" {
		core["current_waitpoint_id"] = id
	}
	if core["current_suspension_id"] == "" {
		sum := fmt.Sprintf("%x", sha1.Sum([]byte(id)))
		core["current_suspension_id"] = sum[:8] + "-" + sum[8:12] + "-5" + sum[13:16] + "-8" + sum[17:20] + "-" + sum[20:32]
	}
	if core["blocking_detail"] == "" {
		core["blocking_detail"] = "suspended: waitpoint " + id
	}
}

// MoreOf returns the further fields of a row, by their names, from the further fields of its run.
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
