package invariant

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// Layout of the nodes of a run: a header and one row for each node (see lua/composite/rows/row.lua).
const (
	rowForm    = 1
	headBytes  = 46
	rowBytes   = 93
	noAttempt  = 65535
	noLease    = "------------------------------------"
	otherLease = "++++++++++++++++++++++++++++++++++++" // it is in more, as lease
	elseNumber = 255                                    // the value of a state field is in more
	smallRun   = 10                                     // nodes of a run up to which its rows can say how many are open
)

// Flags of a row and of a run.
const (
	flagMore = 1 << iota
	flagRecorded
	flagLeased
	flagOtherAttempt
	_ // the nodes behind it were not told
	flagAhead
)

const (
	flagExtended = 1 << iota
	flagReplayed
	flagPurging
	flagPlain
	_ // it has a key by which it shares lanes
	flagSpecial
	flagInput

	// Flags of a run by which calls know that nothing has happened in it but successes.
	flagsStanding = flagExtended | flagReplayed | flagPurging | flagPlain
)

// Values of state fields by their number, from 1 on.
var (
	phases      = []string{"runnable", "active", "suspended", "terminal"}
	ownerships  = []string{"unowned", "leased", "lease_expired_reclaimable", "lease_revoked"}
	eligibility = []string{
		"eligible_now", "not_eligible_until_time", "blocked_by_dependencies", "blocked_by_budget", "blocked_by_quota",
		"blocked_by_route", "blocked_by_operator", "blocked_by_lane_state", "not_applicable",
	}
	reasons = []string{
		"none", "waiting_for_worker", "waiting_for_delay", "waiting_for_retry_backoff", "waiting_for_resume_delay",
		"waiting_for_children", "waiting_for_budget", "waiting_for_quota", "waiting_for_capable_worker", "waiting_for_signal",
		"waiting_for_approval", "waiting_for_callback", "waiting_for_tool_result", "paused_by_operator", "paused_by_policy",
		"waiting_for_locality_match", "paused_by_flow_cancel",
	}
	outcomes      = []string{"none", "success", "failed", "cancelled", "expired", "skipped"}
	attemptStates = []string{
		"none", "pending_first_attempt", "running_attempt", "attempt_interrupted", "pending_retry_attempt",
		"pending_replay_attempt", "attempt_terminal",
	}
	publicStates = []string{
		"waiting", "delayed", "rate_limited", "waiting_children", "active", "suspended", "completed", "failed", "cancelled",
		"expired", "skipped",
	}
)

// stateFields are the state fields of a row in the order of their columns.
var stateFields = []struct {
	name   string
	values []string
}{
	{"lifecycle_phase", phases}, {"ownership_state", ownerships}, {"eligibility_state", eligibility}, {"blocking_reason", reasons},
	{"terminal_outcome", outcomes}, {"attempt_state", attemptStates}, {"public_state", publicStates},
}

// runHead is the header of the nodes of a run.
type runHead struct {
	key        string
	count      int
	flags      int
	open       int // what the header says, or else the rows
	created    int64
	graph      string
	rows       []row
	input      string // when it is stored with the rows
	result     string // of the only node, when it is stored with the rows
	definition *graph // nil when the graph is missing
	extended   bool   // members or edges have been added to those of the graph
	replayed   bool   // an edge may be resolved again
}

// row is one node of a run.
type row struct {
	run                                      *flowRecord
	ordinal                                  int
	states                                   [7]int
	flags, index, total, retries, reclaims   int
	epoch                                    uint32
	open, told                               int
	expires, acquired, began, ended, changed int64
	worker                                   uint32
	lease                                    string
}

func (r *row) flag(mask int) bool { return r.flags&mask != 0 }

// uint48 reads 6 bytes.
func uint48(b []byte) int64 {
	return int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16 | int64(b[3])<<24 | int64(b[4])<<32 | int64(b[5])<<40
}

// readRows reads the nodes of a run. It returns the fault of their form.
func readRows(key, text string) (*runHead, string) {
	b := []byte(text)
	if len(b) < headBytes || b[0] != rowForm {
		return nil, "has no header of form 1"
	}
	h := &runHead{
		key: key, count: int(binary.LittleEndian.Uint16(b[1:])), flags: int(b[3]), open: int(binary.LittleEndian.Uint32(b[4:])),
		created: uint48(b[8:]), graph: text[14:headBytes],
	}
	h.extended, h.replayed = h.flags&flagExtended != 0, h.flags&flagReplayed != 0
	want := headBytes + h.count*rowBytes
	if behind := b[min(want, len(b)):]; h.flags&flagInput != 0 {
		h.input, behind = textBehind(behind)
		if h.input == "" {
			return h, "is marked as having its input behind the rows, but has none there"
		}
		b = append(b[:want:want], behind...)
	}
	if h.count == 1 && len(b) >= want {
		h.result, _ = textBehind(b[want:]) // what a longer one has left behind it means nothing
		b = b[:want]
	}
	if len(b) != want {
		fault := fmt.Sprintf("has %d bytes, those of %d nodes are %d", len(b), h.count, want)
		h.count = 0
		return h, fault
	}
	h.rows = make([]row, h.count)
	for i := range h.rows {
		h.rows[i] = readRow(b[headBytes+i*rowBytes:][:rowBytes])
		h.rows[i].ordinal = i + 1
		if h.rows[i].changed == 0 {
			h.rows[i].changed = h.created
		}
	}
	if h.flags&flagsStanding == flagPlain && h.count <= smallRun {
		h.open = h.openRows()
	}
	return h, ""
}

// textBehind returns the text at the beginning of what is behind rows, with its length before it, and what follows it;
// "" and all of it where there is none.
func textBehind(b []byte) (text string, rest []byte) {
	if len(b) < 4 {
		return "", b
	}
	length := binary.LittleEndian.Uint32(b)
	if int64(length) > int64(len(b)-4) {
		return "", b
	}
	return string(b[4:][:length]), b[4+length:]
}

// openRows is how many rows are those of nodes that have not ended.
func (h *runHead) openRows() int {
	open := 0
	for i := range h.rows {
		if h.rows[i].states[0] != len(phases) {
			open++
		}
	}
	return open
}

func readRow(b []byte) row {
	r := row{
		flags: int(b[7]), index: int(binary.LittleEndian.Uint16(b[8:])), total: int(binary.LittleEndian.Uint16(b[10:])),
		retries: int(binary.LittleEndian.Uint16(b[12:])), reclaims: int(b[14]), epoch: binary.LittleEndian.Uint32(b[15:]),
		open: int(binary.LittleEndian.Uint16(b[19:])), told: int(binary.LittleEndian.Uint16(b[21:])),
		expires: uint48(b[23:]), acquired: uint48(b[29:]), began: uint48(b[35:]), ended: uint48(b[41:]), changed: uint48(b[47:]),
		worker: binary.LittleEndian.Uint32(b[53:]), lease: string(b[57:rowBytes]),
	}
	for i := range r.states {
		r.states[i] = int(b[i])
	}
	return r
}

// nodeID is the execution id of a node of a run.
func nodeID(tag, flowID string, ordinal int) string {
	return fmt.Sprintf("%s:%s%04x", tag, flowID[:32], ordinal)
}

// attemptOf is the id of the attempt that a lease begins.
func attemptOf(lease string) string { return lease[:24] + "1" + lease[25:] }

// fillRows gives every row the record that a hash would have, so that the rules for hashes hold for it as well.
func (s *Snapshot) fillRows(p *partition) {
	for _, f := range p.flows {
		v, found := f.parts["nodes"]
		if !found {
			continue
		}
		key := p.key("flow:" + p.tag + ":" + f.id + ":nodes")
		run, fault := readRows(key, v.text)
		if fault != "" {
			s.faults = append(s.faults, Violation{RuleRows, key, fault})
		}
		if run == nil {
			continue
		}
		f.run, run.definition = run, p.graphs[run.graph]
		for i := range run.rows {
			run.rows[i].run = f
			e := p.execution(nodeID(p.tag, f.id, i+1))
			if e.core != nil {
				s.faults = append(s.faults, Violation{RuleRows, e.key, "has both a row and a record"})
			}
			e.row = &run.rows[i]
			e.core = p.record(f, e.row)
			if result, has := f.parts["results"].hash[strconv.Itoa(i+1)]; has {
				e.parts["result"] = value{kind: "string", text: result}
			}
			if run.result != "" {
				e.parts["result"] = value{kind: "string", text: run.result}
			}
		}
		p.fillEdges(f)
	}
}

// record is what the fields of a row, its graph and its run say, by the names of the fields of a hash.
func (p *partition) record(f *flowRecord, r *row) map[string]string {
	core := make(map[string]string)
	set := func(field, text string) {
		if text != "" {
			core[field] = text
		}
	}
	for i, field := range stateFields {
		if n := r.states[i]; n > 0 && n <= len(field.values) {
			core[field.name] = field.values[n-1]
		}
	}
	for field, n := range map[string]int{
		"total_attempt_count": r.total, "retry_count": r.retries, "lease_reclaim_count": r.reclaims,
		"current_lease_epoch": int(r.epoch), "replay_count": 0,
	} {
		core[field] = strconv.Itoa(n)
	}
	for field, at := range map[string]int64{
		"lease_expires_at": r.expires, "lease_acquired_at": r.acquired, "started_at": r.began, "completed_at": r.ended,
		"last_transition_at": r.changed, "last_mutation_at": r.changed, "created_at": f.run.created,
	} {
		if at > 0 {
			core[field] = strconv.FormatInt(at, 10)
		}
	}
	core["execution_id"], core["flow_id"], core["managed"] = nodeID(p.tag, f.id, r.ordinal), f.id, "1"
	set("namespace", f.core["namespace"])
	set("creator_identity", f.core["creator_identity"])
	set("budget_ids", f.core["budget_ids"])
	if r.index != noAttempt {
		core["current_attempt_index"] = strconv.Itoa(r.index)
		if !r.flag(flagRecorded) {
			core["in_row"] = "1"
		}
	}
	if n := f.run.definition.node(r.ordinal); n != nil {
		for field, text := range map[string]string{
			"node": n.get("name"), "execution_kind": n.get("kind"), "required_capabilities": n.get("capabilities"),
			"attempt_timeout": n.get("attempt_timeout"), "start_timeout": n.get("start_timeout"),
			"wait_spec": n.get("wait"), "lane_id": n.get("lane_id"), "current_lane": n.get("lane_id"), "priority": n.get("priority"),
			"uses_flow_input": n.get("uses_flow_input"), "limits": n.get("limits"),
		} {
			set(field, text)
		}
		if core["input_count"] = n.get("input_count"); core["input_count"] == "" {
			core["input_count"] = "0"
		}
		if n.get("attempt_timeout") != "" {
			core["attached"] = "timeout"
		}
		if n.get("delay") != "" && core["eligibility_state"] == "not_eligible_until_time" {
			core["delay_until"] = strconv.FormatInt(f.run.created+int64(number(n.get("delay"))), 10)
		}
		if n.get("wait") != "" {
			core["wait"] = "1"
		} else {
			set("fair_key", f.core["fair_key"])
		}
	}
	maps.Copy(core, f.more()[r.ordinal])
	if r.flag(flagAhead) {
		core["admission"] = "0 0 ?"
	}
	p.leaseFields(r, core)
	return core
}

// leaseFields adds what a row says of its lease and its attempt.
func (p *partition) leaseFields(r *row, core map[string]string) {
	if r.lease != noLease && r.lease != otherLease && core["attempt_state"] != "pending_retry_attempt" && !r.flag(flagOtherAttempt) {
		core["current_attempt_id"] = attemptOf(r.lease)
	}
	switch {
	case r.flag(flagLeased) && r.lease == otherLease:
		core["current_lease_id"] = core["lease"]
	case r.flag(flagLeased):
		core["current_lease_id"] = r.lease
	}
	if r.worker > 0 {
		text := p.indexes["workers"].hash[strconv.Itoa(int(r.worker))]
		core["current_worker_instance_id"], core["current_worker_id"], _ = splitWorker(text)
	}
}

// splitWorker splits what the registry of workers says of a number: the length of the instance, the instance and the
// worker.
func splitWorker(text string) (instance, worker string, ok bool) {
	length, both, found := strings.Cut(text, " ")
	n, err := strconv.Atoi(length)
	if !found || err != nil || n < 0 || n > len(both) {
		return "", "", false
	}
	return both[:n], both[n:], true
}

// more has the fields of nodes that have no column, by the ordinal of the node.
func (f *flowRecord) more() map[int]map[string]string {
	if f.moreFields == nil {
		f.moreFields = make(map[int]map[string]string)
		for name, text := range f.parts["more"].hash {
			ordinal, field, _ := strings.Cut(name, " ")
			n, _ := strconv.Atoi(ordinal)
			if f.moreFields[n] == nil {
				f.moreFields[n] = make(map[string]string)
			}
			f.moreFields[n][field] = text
		}
	}
	return f.moreFields
}
