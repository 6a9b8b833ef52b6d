package invariant

import (
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/runrecord"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
)

const (
	noAttempt  = 65535
	noLease    = "------------------------------------"
	otherLease = "++++++++++++++++++++++++++++++++++++" // it is in more, as lease
	elseNumber = 255                                    // the value of a state field is in more
	smallRun   = 10                                     // the largest run whose rows are counted for its open nodes

	// Flags of a run by which calls know that nothing has happened in it but successes.
	flagsStanding = rowread.RunHeadExtended | rowread.RunHeadReplayed | rowread.RunHeadPurging | rowread.RunHeadPlain
)

// stateFields are the state fields of a row in the order of their columns.
var stateFields = []struct {
	name   string
	values []string
}{
	{"lifecycle_phase", rowread.NodeRowPhase}, {"ownership_state", rowread.NodeRowOwner}, {"eligibility_state", rowread.NodeRowElig},
	{"blocking_reason", rowread.NodeRowWhy}, {"terminal_outcome", rowread.NodeRowOutcome}, {"attempt_state", rowread.NodeRowAttempt},
	{"public_state", rowread.NodeRowPublic},
}

// runHead is the header of the nodes of a run.
type runHead struct {
	key        string
	count      int
	flags      int
	marks      int
	events     []rowread.Event // that follow from the rows
	isLogged   bool            // the events are in the event log
	open       int             // from the header, or else counted in the rows
	created    int64
	listed     int64  // place in the lists of runs (Unix µs)
	closed     int64  // place in the list of runs that are over
	class      string // id, in hexadecimal digits
	graph      string // hash
	data       rowread.Data
	rows       []row
	input      string // when it is stored with the record
	definition *graph // nil when the graph is missing
	extended   bool   // members or edges were added after the submission
	replayed   bool   // an edge may be resolved again
	watched    bool   // other processes have waited for its end
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

// readRows reads the nodes of a run. It returns the fault of their form.
func readRows(key, text, data string) (*runHead, string) {
	b := []byte(text)
	if len(b) < rowread.RunHeadBytes || b[0] != rowread.RunHeadForm {
		return nil, fmt.Sprintf("has no header of form %d", rowread.RunHeadForm)
	}
	stored := rowread.ReadRunHead(b)
	h := &runHead{
		key: key, count: stored.Count, flags: stored.Flags, marks: stored.Marks, open: int(stored.Open), created: stored.Created,
		listed: stored.Listed, closed: stored.Closed,
		class: hex.EncodeToString([]byte(stored.Class)), watched: stored.Watched != 0,
	}
	h.extended, h.replayed = h.flags&rowread.RunHeadExtended != 0, h.flags&rowread.RunHeadReplayed != 0
	h.isLogged = stored.Events == rowread.Logged
	want := rowread.Place(h.count, h.count+1)
	h.data = rowread.DataOf(text, data)
	h.input = h.data.Input
	if h.data.Record == "" {
		return h, "has no record"
	} else if h.flags&rowread.RunHeadInput != 0 && h.input == "" {
		return h, "is marked as having its input with its record, but has none there"
	} else if h.count > 1 && h.data.Rest != "" {
		return h, fmt.Sprintf("has %d bytes too many in its data", len(h.data.Rest))
	} else if h.count == 1 {
		b = b[:min(want, len(b))]
	}
	if len(b) != want {
		fault := fmt.Sprintf("has %d bytes, %d nodes take %d", len(b), h.count, want)
		h.count = 0
		return h, fault
	}
	h.rows = make([]row, h.count)
	for i := range h.rows {
		h.rows[i] = readRow(b[rowread.Place(h.count, i+1):][:rowread.NodeRowBytes])
		h.rows[i].ordinal = i + 1
		if h.rows[i].changed == 0 {
			h.rows[i].changed = h.created
		}
	}
	if h.flags&flagsStanding == rowread.RunHeadPlain && h.count <= smallRun {
		h.open = h.openRows()
	}
	if head, rows, err := rowread.Parse(text); err == nil {
		h.events = rowread.Events(text, head, rows)
	}
	return h, ""
}

// openRows counts the rows of nodes that have not ended.
func (h *runHead) openRows() int {
	open := 0
	for i := range h.rows {
		if h.rows[i].states[0] != len(rowread.NodeRowPhase) {
			open++
		}
	}
	return open
}

func readRow(b []byte) row {
	r := rowread.ReadNodeRow(b)
	return row{
		states: [7]int{r.Phase, r.Owner, r.Elig, r.Why, r.Outcome, r.Attempt, r.Public},
		flags:  r.Flags, index: r.Index, total: r.Total, retries: r.Retries, reclaims: r.Reclaims, epoch: uint32(r.Epoch),
		open: r.Open, told: r.Told, expires: r.Expires, acquired: r.Acquired, began: r.Started, ended: r.Ended, changed: r.Changed,
		worker: uint32(r.Worker), lease: r.Lease,
	}
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
		run, fault := readRows(key, v.text, f.parts["data"].text)
		if fault != "" {
			s.faults = append(s.faults, Violation{RuleRows, key, fault})
		}
		if run == nil {
			continue
		}
		f.run = run
		if fault := s.fillRun(p, f, v.text); fault != "" {
			s.faults = append(s.faults, Violation{RuleRows, key, fault})
		}
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
			if result, has := run.data.Results[i+1]; has {
				e.parts["result"] = value{kind: "string", text: result}
			}
		}
	}
}

// fillRun gives a run the record that a hash would have. It returns the fault of the stored data.
func (s *Snapshot) fillRun(p *partition, f *flowRecord, nodes string) string {
	if f.core != nil && f.run.flags&rowread.RunHeadOverlay == 0 {
		return "is not marked as having an overlay, but has one"
	}
	class, found := p.classes[f.run.class]
	if !found {
		return "its class " + f.run.class + " does not exist"
	}
	decoded, err := runrecord.DecodeClass(class["text"])
	if err != nil {
		return err.Error()
	}
	f.run.graph, f.run.definition = decoded.Graph, p.graphs[decoded.Graph]
	stored := rowread.Stored{Nodes: nodes, Data: f.parts["data"].text, Class: class["text"], Overlay: f.core}
	if f.run.definition != nil {
		stored.Graph = f.run.definition.hash
	}
	fields, err := stored.Fields()
	if err != nil {
		return err.Error()
	}
	f.core = fields
	return ""
}

// record returns the fields that a row, its graph and its run contain, by the names of the fields of a hash.
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
		if !r.flag(rowread.NodeRowRecorded) {
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
		if n.get("wait") != "" {
			core["wait"] = "1"
		} else {
			set("fair_key", f.core["fair_key"])
		}
	}
	maps.Copy(core, f.more()[r.ordinal])
	rowread.SpreadFailure(core)
	rowread.SpreadWait(core, enginecore.FlowID(f.id))
	if n := f.run.definition.node(r.ordinal); n != nil && core["eligibility_state"] == "not_eligible_until_time" {
		rowread.SpreadDelay(core, n.get("delay"), f.core["start_at"], f.run.created)
	}
	if r.flag(rowread.NodeRowAhead) {
		core["admission"] = "0 0 ?"
	}
	p.leaseFields(r, core)
	return core
}

// leaseFields adds a row's fields about its lease and its attempt.
func (p *partition) leaseFields(r *row, core map[string]string) {
	if r.lease != noLease && r.lease != otherLease && core["attempt_state"] != "pending_retry_attempt" && !r.flag(rowread.NodeRowOtherAttempt) {
		core["current_attempt_id"] = attemptOf(r.lease)
	}
	switch {
	case r.flag(rowread.NodeRowLeased) && r.lease == otherLease:
		core["current_lease_id"] = core["lease"]
	case r.flag(rowread.NodeRowLeased):
		core["current_lease_id"] = r.lease
	}
	if r.worker > 0 && core["ownership_state"] != "unowned" {
		text := p.indexes["workers"].hash[strconv.Itoa(int(r.worker))]
		core["current_worker_instance_id"], core["current_worker_id"], _ = splitWorker(text)
	}
}

// splitWorker splits an entry of the registry of workers: the length of the instance, the instance and the worker.
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

// rowEdge is an edge of a graph to a node, with its state: unsatisfied, satisfied or impossible.
type rowEdge struct {
	up          *execution
	kind, state string
	late        bool // it was satisfied when its join had been decided
}
