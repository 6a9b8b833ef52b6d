package contracttest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
)

// twinFields are the fields of executions that must be the same; twinTimes those that both must have, or neither.
var twinFields = []string{
	"lifecycle_phase", "ownership_state", "eligibility_state", "blocking_reason", "blocking_detail", "terminal_outcome",
	"attempt_state", "public_state", "current_attempt_index", "total_attempt_count", "retry_count", "replay_count",
	"lease_reclaim_count", "current_lease_epoch", "current_attempt_id", "current_lease_id", "current_worker_id",
	"current_worker_instance_id", "priority", "failure_reason", "failure_category", "cancellation_reason", "cancelled_by",
	"progress_pct", "progress_message", "lease_reclaim_reason", "current_suspension_id",
	"current_waitpoint_id", "lane_id", "current_lane",
}

var twinTimes = []string{
	"completed_at", "lease_expires_at", "lease_acquired_at", "started_at", "last_transition_at",
}

// twinWaiting are fields that records keep until the execution has ended, but rows do not.
var twinWaiting = []string{
	"pending_replay_attempt", "pending_previous_attempt_index", "prior_eligibility_state", "prior_blocking_reason",
	"prior_blocking_detail",
}

// fieldsOf returns the fields and times to compare for an execution. Fields of other states are left out: a record may
// still contain values of an earlier state.
func fieldsOf(core map[string]string) (fields, times []string) {
	fields, times = slices.Clone(twinFields), slices.Clone(twinTimes)
	if core["lifecycle_phase"] != "terminal" {
		fields = append(fields, twinWaiting...)
	}
	if core["attempt_state"] == "pending_retry_attempt" {
		fields = append(fields, "pending_retry_reason")
	}
	if core["eligibility_state"] == "not_eligible_until_time" {
		times = append(times, "delay_until")
	}
	switch core["ownership_state"] {
	case "lease_expired_reclaimable":
		times = append(times, "lease_expired_at")
	case "lease_revoked":
		fields, times = append(fields, "lease_revoke_reason"), append(times, "lease_revoked_at")
	}
	return fields, times
}

// twinRunFields are the fields of runs that must be the same.
var twinRunFields = []string{
	"public_flow_state", "outcome", "nodes_failed", "nodes_cancelled", "nodes_expired", "nodes_skipped", "failed_node",
	"failure_reason", "failure_category", "absorbed_failures", "absorbed_node", "absorbed_cancels", "cancelled_siblings",
	"joins_impossible", "cancel_reason",
}

// compare compares all that is stored of both runs.
func (x *twins) compare() {
	x.t.Helper()
	open := x.openEdges()
	for i, n := range x.graph {
		rows, records := x.node(x.rows, i, open[0][i]), x.node(x.records, i, open[1][i])
		if slices.Equal(rows, records) {
			continue
		}
		for k := range min(len(rows), len(records)) {
			if rows[k] != records[k] {
				x.t.Errorf("%s: row %q, record %q", n.name, rows[k], records[k])
			}
		}
	}
	if rows, records := x.run(x.rows), x.run(x.records); rows != records {
		x.t.Errorf("runs: %s of rows, %s of records", rows, records)
	}
}

// node describes an execution, with one text for each field.
func (x *twins) node(s *twinSide, i, open int) []string {
	x.t.Helper()
	core := x.record(s.ids[i])
	var out []string
	fields, times := fieldsOf(core)
	for _, name := range fields {
		value := core[name]
		// A row has no text for its count of open edges.
		if value == "0" || strings.Contains(value, " dep(s) unresolved incl ") {
			value = ""
		}
		out = append(out, name+" "+x.plain(s, value))
	}
	for _, name := range times {
		out = append(out, fmt.Sprint(name, " ", core[name] != ""))
	}
	if core["lifecycle_phase"] != "terminal" {
		out = append(out, fmt.Sprint("open edges ", open))
	} else {
		out = append(out, "result "+x.result(s, i))
	}
	if x.graph[i].join.variant != "" {
		group := x.hash(x.keys.FlowEdgegroup(s.flow, s.ids[i]))
		for _, name := range []string{"group_state", "succeeded", "failed", "skipped", "n", "k", "cancel_siblings_reason"} {
			out = append(out, "group's "+name+" "+group[name])
		}
	}
	return out
}

func (x *twins) hash(key string) map[string]string {
	x.t.Helper()
	fields, err := x.do("HGETALL", key).AsStrMap()
	if err != nil {
		x.t.Fatal(err)
	}
	return fields
}

// openEdges are how many edges to each node are open, of rows and of records.
func (x *twins) openEdges() (open [2][]int) {
	x.t.Helper()
	text, err := x.do("GET", x.keys.FlowNodes(partition, x.rows.flow)).ToString()
	if err != nil {
		x.t.Fatal(err)
	}
	_, rows, err := rowread.Parse(text)
	if err != nil {
		x.t.Fatal(err)
	}
	for i, id := range x.records.ids {
		open[0] = append(open[0], rows[i].Open)
		open[1] = append(open[1], int(atoi(x.field(x.keys.ExecDepsMeta(id), "unsatisfied_required_count"))))
	}
	return open
}

// result returns the result of a node.
func (x *twins) result(s *twinSide, i int) string {
	if s == x.rows {
		result, err := rowread.ResultOf(x.t.Context(), x.bench.client, x.keys, partition, s.flow, i+1)
		if err != nil {
			x.t.Fatal(err)
		}
		return result
	}
	text, _ := x.do("GET", x.keys.ExecResult(s.ids[i])).ToString()
	return text
}

// flow returns the fields of the record of a flow.
func (x *twins) flow(s *twinSide) map[string]string {
	x.t.Helper()
	fields, err := rowread.Flow(x.t.Context(), x.bench.client, x.keys, partition, s.flow)
	if err != nil {
		x.t.Fatal(err)
	}
	return fields
}

// run describes a run.
func (x *twins) run(s *twinSide) string {
	x.t.Helper()
	out := []string{fmt.Sprint("open ", x.bench.rows(s.flow).Open)}
	core := x.flow(s)
	for _, name := range twinRunFields {
		if core[name] != "" {
			out = append(out, name+" "+x.plain(s, core[name]))
		}
	}
	return strings.Join(out, ", ")
}
