// Package runrows reads what the engine stores of the nodes of runs, under the names that the contract has for the
// fields of an execution's record.
package runrows

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Sizes of the head of a run's nodes, and of a row.
const (
	headBytes = 46
	rowBytes  = 93
)

// Values of the columns of a row that hold a state, by their number from 1 on.
var states = []struct {
	field  string
	values []string
}{
	{"lifecycle_phase", []string{"runnable", "active", "suspended", "terminal"}},
	{"ownership_state", []string{"unowned", "leased", "lease_expired_reclaimable", "lease_revoked"}},
	{"eligibility_state", []string{
		"eligible_now", "not_eligible_until_time", "blocked_by_dependencies", "blocked_by_budget", "blocked_by_quota",
		"blocked_by_route", "blocked_by_operator", "blocked_by_lane_state", "not_applicable",
	}},
	{"blocking_reason", []string{
		"none", "waiting_for_worker", "waiting_for_delay", "waiting_for_retry_backoff", "waiting_for_resume_delay",
		"waiting_for_children", "waiting_for_budget", "waiting_for_quota", "waiting_for_capable_worker", "waiting_for_signal",
		"waiting_for_approval", "waiting_for_callback", "waiting_for_tool_result", "paused_by_operator", "paused_by_policy",
		"waiting_for_locality_match", "paused_by_flow_cancel",
	}},
	{"terminal_outcome", []string{"none", "success", "failed", "cancelled", "expired", "skipped"}},
	{"attempt_state", []string{
		"none", "pending_first_attempt", "running_attempt", "attempt_interrupted", "pending_retry_attempt",
		"pending_replay_attempt", "attempt_terminal",
	}},
	{"public_state", []string{
		"waiting", "delayed", "rate_limited", "waiting_children", "active", "suspended", "completed", "failed", "cancelled",
		"expired", "skipped",
	}},
}

// Flags of a row.
const (
	hasMore      = 1 << 0
	isLeased     = 1 << 2
	otherAttempt = 1 << 3
)

const (
	noAttempt = 65535
	noLease   = "------------------------------------"
)

// Ordinal returns the ordinal of the node of a run whose execution id is given; 0 for other executions.
func Ordinal(id enginecore.ExecutionID) int {
	text := string(id)
	if len(text) < 36 || text[len(text)-22] != '8' {
		return 0
	}
	n, err := strconv.ParseInt(text[len(text)-4:], 16, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// Core returns the fields of an execution's record: of the node of a run from its row, of another execution from its
// hash. It is empty for an execution that does not exist.
func Core(ctx context.Context, conn *enginerpc.Conn, id enginecore.ExecutionID) (map[string]string, error) {
	client, keys := conn.Client(), conn.Keys()
	core := keys.ExecCore(id)
	ordinal := Ordinal(id)
	if ordinal == 0 {
		return client.Do(ctx, client.B().Hgetall().Key(core).Build()).AsStrMap()
	}
	prefix, tag := runOf(core, id)
	from := int64(headBytes + (ordinal-1)*rowBytes)
	bytes, err := client.Do(ctx, client.B().Getrange().Key(prefix+":nodes").Start(from).End(from+rowBytes-1).Build()).ToString()
	if err != nil || len(bytes) < rowBytes {
		return map[string]string{}, err
	}
	r := decode([]byte(bytes))
	fields := r.fields()
	if r.worker > 0 {
		text, err := client.Do(ctx, client.B().Hget().Key(tag+":workers").Field(strconv.Itoa(int(r.worker))).Build()).ToString()
		if err != nil {
			return nil, fmt.Errorf("worker %d: %w", r.worker, err)
		}
		fields["current_worker_instance_id"], fields["current_worker_id"], _ = strings.Cut(text, " ")
	}
	if r.flags&hasMore == 0 {
		return fields, nil
	}
	more, err := client.Do(ctx, client.B().Hgetall().Key(prefix+":more").Build()).AsStrMap()
	for field, value := range more {
		if name, mine := strings.CutPrefix(field, strconv.Itoa(ordinal)+" "); mine {
			fields[name] = value
		}
	}
	return fields, err
}

// Open returns how many nodes of a run are open.
func Open(ctx context.Context, conn *enginerpc.Conn, p enginecore.Partition, id enginecore.FlowID) (int, error) {
	client := conn.Client()
	head, err := client.Do(ctx, client.B().Getrange().Key(conn.Keys().FlowNodes(p, id)).Start(0).End(headBytes-1).Build()).ToString()
	if err != nil || len(head) < headBytes {
		return 0, err
	}
	return int(binary.LittleEndian.Uint32([]byte(head[4:8]))), nil
}

// runOf returns the beginning of the keys of a node's run, and of those of its partition.
func runOf(core string, id enginecore.ExecutionID) (run, partition string) {
	prefix, _, _ := strings.Cut(core, ":exec:")
	tag, execution, _ := strings.Cut(string(id), "}:")
	tag += "}"
	return prefix + ":flow:" + tag + ":" + execution[:32] + "0000", prefix + ":ffx:" + tag
}

// Result returns the result of an execution, "" without one.
func Result(ctx context.Context, conn *enginerpc.Conn, id enginecore.ExecutionID) (string, error) {
	client, keys := conn.Client(), conn.Keys()
	read := client.B().Get().Key(keys.ExecResult(id)).Build()
	if ordinal := Ordinal(id); ordinal > 0 {
		run, _ := runOf(keys.ExecCore(id), id)
		read = client.B().Hget().Key(run + ":results").Field(strconv.Itoa(ordinal)).Build()
	}
	text, err := client.Do(ctx, read).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return text, err
}

// row is a row as it is stored.
type row struct {
	states                                     [7]byte
	flags                                      byte
	index, total, retries, reclaims            int64
	epoch, open, told                          int64
	expires, acquired, started, ended, changed int64
	worker                                     int64
	lease                                      string
}

func decode(b []byte) row {
	var r row
	copy(r.states[:], b)
	r.flags = b[7]
	at := 8
	number := func(size int) int64 {
		var wide [8]byte
		copy(wide[:], b[at:at+size])
		at += size
		return int64(binary.LittleEndian.Uint64(wide[:]))
	}
	r.index, r.total, r.retries, r.reclaims = number(2), number(2), number(2), number(1)
	r.epoch, r.open, r.told = number(4), number(2), number(2)
	r.expires, r.acquired, r.started, r.ended, r.changed = number(6), number(6), number(6), number(6), number(6)
	r.worker = number(4)
	r.lease = string(b[at : at+len(noLease)])
	return r
}

func (r row) fields() map[string]string {
	fields := map[string]string{
		"total_attempt_count": strconv.FormatInt(r.total, 10), "retry_count": strconv.FormatInt(r.retries, 10),
		"lease_reclaim_count": strconv.FormatInt(r.reclaims, 10), "current_lease_epoch": strconv.FormatInt(r.epoch, 10),
		"unsatisfied_required_count": strconv.FormatInt(r.open, 10),
	}
	for i, column := range states {
		if n := int(r.states[i]); n > 0 && n <= len(column.values) {
			fields[column.field] = column.values[n-1]
		}
	}
	for field, at := range map[string]int64{
		"lease_expires_at": r.expires, "lease_acquired_at": r.acquired, "started_at": r.started, "completed_at": r.ended,
		"last_transition_at": r.changed,
	} {
		if at > 0 {
			fields[field] = strconv.FormatInt(at, 10)
		}
	}
	if r.index != noAttempt {
		fields["current_attempt_index"] = strconv.FormatInt(r.index, 10)
	}
	if r.flags&isLeased != 0 {
		fields["current_lease_id"] = r.lease
	}
	if r.flags&otherAttempt == 0 && r.lease != noLease {
		fields["current_attempt_id"] = r.lease[:24] + "1" + r.lease[25:]
	}
	return fields
}
