package keepertest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
)

// damagedIndex is an index with a damaged member, whose record is a key of another type, before another member that the
// task has to work on all the same.
type damagedIndex struct {
	template, task string
	key            string
	// bad is the damaged member, reported the text of the fault if the fault does not name the member itself.
	bad, reported string
	// next is a member without a record, which the task takes out of the index. Where the task leaves those, it is
	// another damaged member, which is reported as well, by nextReported.
	next, nextReported string
	isReported         bool
	// setUp enters both.
	setUp func()
}

// A damaged member of an index ends no step of a keeper, starves no member after it, and repeats no page: for each
// index that keepers read, by the table of keys, the task processes the next member and reports the fault.
func TestDamagedMembers(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		rows := d.damagedIndexes()
		requireAllIndexes(t, rows)
		for _, r := range rows {
			t.Run(r.template+" by "+r.task, func(t *testing.T) {
				r.setUp()
				_, err := b.RunKeeperTask(d.ctx, r.task)
				require.ErrorContains(t, err, r.reported, "the damaged member is not reported")
				if r.isReported {
					require.ErrorContains(t, err, r.nextReported, "the other one is not reported")
				} else {
					require.False(t, d.has(r.key, r.next), "the next member is not processed")
				}
			})
		}
	})
}

// has reports whether a set, sorted set or list has a member.
func (d *fixture) has(key, member string) bool {
	d.t.Helper()
	switch d.text("TYPE", key) {
	case "zset":
		return d.text("ZSCORE", key, member) != ""
	case "set":
		return d.count("SISMEMBER", key, member) == 1
	case "list":
		members, err := d.do("LRANGE", key, "0", "-1").AsStrSlice()
		require.NoError(d.t, err)
		return slices.Contains(members, member)
	}
	return false
}

// damagedIndexes has the indexes that keepers read, each with a damaged member to enter.
func (d *fixture) damagedIndexes() []damagedIndex {
	p, keys := keyspace.Partition{Family: keyspace.FlowFamily}, d.keys
	budgets := keyspace.Partition{Family: keyspace.BudgetFamily}
	quotas := keyspace.Partition{Family: keyspace.QuotaFamily}
	wrong := func(key string) { d.do("SET", key, "no hash") }
	execution := func(damaged bool) string {
		id := keyspace.NewExecutionID(p)
		if damaged {
			wrong(keys.ExecCore(id))
		}
		return string(id)
	}
	flow := func(damaged bool) string {
		id := enginecore.FlowID(uuid.NewString())
		if damaged {
			wrong(keys.FlowCore(p, id))
		}
		return string(id)
	}
	listedAt, runOf := int64(0), make(map[string]string) // runOf has the runs of entries of lists
	listed := func(bool) string {
		id := enginecore.FlowID(fmt.Sprintf("00000000-0000-8000-0000-%08d0000", listedAt))
		listedAt++
		wrong(keys.FlowCore(p, id))
		d.do("HSET", keys.FlowNodes(p, id), "no", "rows")
		entry := rowread.ListEntry(listedAt, id)
		runOf[entry] = string(id)
		return entry
	}
	other := func(record func(id string) string) func(bool) string {
		return func(damaged bool) string {
			id := uuid.NewString()
			if damaged {
				wrong(record(id))
			}
			return id
		}
	}
	waitpoint := other(func(id string) string { return keys.WaitpointRecord(p, enginecore.WaitpointID(id)) })
	schedule := other(func(id string) string { return keys.FfxSchedule(p, keyspace.ScheduleID(id)) })
	budget := other(func(id string) string { return keys.BudgetRecord(budgets, enginecore.BudgetID(id)) })
	quota := other(func(id string) string { return keys.QuotaRecord(quotas, enginecore.QuotaPolicyID(id)) })
	gate := func(damaged bool) string { return "gate " + budget(damaged) }
	group := func(damaged bool) string {
		flow, member := enginecore.FlowID(uuid.NewString()), keyspace.NewExecutionID(p)
		if damaged {
			wrong(keys.FlowEdgegroup(flow, member))
		}
		return string(flow) + "|" + string(member)
	}
	awaited := func(damaged bool) string { return "await " + uuid.NewString() + " " + execution(damaged) }

	var rows []damagedIndex
	add := func(command, template, task, key string, member func(damaged bool) string, isReported bool) *damagedIndex {
		r := damagedIndex{template: template, task: task, key: key, bad: member(true), next: member(isReported), isReported: isReported}
		r.reported, r.nextReported = r.bad, r.next
		if run, isListed := runOf[r.bad]; isListed {
			r.reported, r.nextReported = run, runOf[r.next]
		}
		r.setUp = func() {
			if command == "ZADD" {
				d.do("ZADD", key, "1", r.bad, "2", r.next)
			} else {
				d.do(command, key, r.bad, r.next)
			}
			// Entries by which keepers find the members of some indexes.
			d.do("ZADD", keys.FfxRunKeysDue(p), "1", "shared")
			d.do("ZADD", keys.FfxTurns(p, "default"), "1", "customer")
		}
		rows = append(rows, r)
		return &rows[len(rows)-1]
	}
	const served, bothReported = false, true
	for _, r := range []struct {
		command, template, task, key string
		member                       func(bool) string
		isReported                   bool
	}{
		{"SADD", "index.all_executions", "index_reconciliation", keys.IndexAllExecutions(p), execution, served},
		{"SADD", "index.all_executions", "execution_retention", keys.IndexAllExecutions(p), execution, bothReported},
		{"ZADD", "lane.delayed", "delayed_promotion", keys.LaneDelayed(p, "default"), execution, served},
		{"ZADD", "index.lease_expiry", "lease_expiry", keys.IndexLeaseExpiry(p), execution, served},
		{"ZADD", "index.attempt_timeout", "attempt_timeout", keys.IndexAttemptTimeout(p), execution, served},
		{"ZADD", "index.execution_deadline", "execution_deadline", keys.IndexExecutionDeadline(p), execution, served},
		{"ZADD", "index.suspension_timeout", "suspension_timeout", keys.IndexSuspensionTimeout(p), execution, served},
		{"ZADD", "index.pending_waitpoint_expiry", "pending_waitpoint_expiry", keys.IndexPendingWaitpointExpiry(p), waitpoint, served},
		{"ZADD", "index.cancel_backlog", "cancel_backlog", keys.IndexCancelBacklog(p), flow, served},
		{"SADD", "index.pending_cancel_groups", "sibling_cancel_dispatch", keys.IndexPendingCancelGroups(p), group, served},
		{"SADD", "index.pending_cancel_groups", "sibling_cancel_reconciliation", keys.IndexPendingCancelGroups(p), group, served},
		{"ZADD", "ffx.start_deadlines", "start_deadline", keys.FfxStartDeadlines(p), execution, served},
		{"ZADD", "ffx.flow_deadlines", "flow_deadline", keys.FfxFlowDeadlines(p), flow, served},
		{"ZADD", "ffx.held", "pause_recheck", keys.FfxHeld(p), execution, served},
		{"ZADD", "ffx.unadmitted", "admission", keys.FfxUnadmitted(p), execution, served},
		{"RPUSH", "ffx.backlog", "propagation", keys.FfxBacklog(p), execution, served},
		{"SADD", "ffx.reruns", "rerun", keys.FfxReruns(p), flow, served},
		{"ZADD", "ffx.children", "child_runs", keys.FfxChildren(p), flow, served},
		{"ZADD", "ffx.unwanted", "child_runs", keys.FfxUnwanted(p), awaited, served},
		{"ZADD", "ffx.purge_due", "retention", keys.FfxPurgeDue(p), flow, served},
		{"ZADD", "ffx.unused_graphs", "retention", keys.FfxUnusedGraphs(p),
			other(func(id string) string { return keys.FfxGraph(p, id) }), served},
		{"ZADD", "ffx.bulk_jobs_due", "bulk_job", keys.FfxBulkJobsDue(p),
			other(func(id string) string { return keys.FfxBulkJob(p, keyspace.BulkJobID(id)) }), served},
		{"ZADD", "ffx.run_keys_due", "run_key", keys.FfxRunKeysDue(p),
			other(func(id string) string { return keys.FfxRunKeyOpen(p, keyspace.RunKeyID(id)) }), served},
		{"ZADD", "ffx.run_key_open", "run_key", keys.FfxRunKeyOpen(p, "shared"), flow, served},
		{"ZADD", "ffx.run_key_queue", "run_key", keys.FfxRunKeyQueue(p, "shared"), flow, served},
		{"SADD", "index.flow_index", "flow_projection", keys.IndexFlowIndex(p), flow, served},
		{"RPUSH", "ffx.all_runs", "member_reconciliation", keys.FfxAllRuns(p), listed, bothReported},
		{"SADD", "index.flow_index", "execution_retention", keys.IndexFlowIndex(p), flow, bothReported},
		{"SADD", "index.flow_index", "index_reconciliation", keys.IndexFlowIndex(p), flow, served},
		{"RPUSH", "ffx.closed_flows", "index_reconciliation", keys.FfxClosedFlows(p), listed, bothReported},
		{"RPUSH", "ffx.all_runs", "index_reconciliation", keys.FfxAllRuns(p), listed, bothReported},
		{"ZADD", "ffx.open_waits", "index_reconciliation", keys.FfxOpenWaits(p), execution, served},
		{"SADD", "ffx.schedules", "schedule_reconciliation", keys.FfxSchedules(p), schedule, bothReported},
		{"SADD", "ffx.schedules", "index_reconciliation", keys.FfxSchedules(p), schedule, served},
		{"ZADD", "ffx.schedules_due", "index_reconciliation", keys.FfxSchedulesDue(p), schedule, served},
		{"ZADD", "lane.eligible", "index_reconciliation", keys.LaneEligible(p, "default"), execution, served},
		{"ZADD", "lane.active", "index_reconciliation", keys.LaneActive(p, "default"), execution, served},
		{"ZADD", "lane.terminal", "index_reconciliation", keys.LaneTerminal(p, "default"), execution, served},
		{"ZADD", "lane.suspended", "index_reconciliation", keys.LaneSuspended(p, "default"), execution, served},
		{"ZADD", "lane.blocked_dependencies", "dependency_reconciliation", keys.LaneBlockedDependencies(p, "default"), execution, bothReported},
		{"ZADD", "lane.blocked_dependencies", "index_reconciliation", keys.LaneBlockedDependencies(p, "default"), execution, served},
		{"ZADD", "lane.blocked_budget", "unblocking", keys.LaneBlockedBudget(p, "default"), execution, bothReported},
		{"ZADD", "lane.blocked_quota", "unblocking", keys.LaneBlockedQuota(p, "default"), execution, bothReported},
		{"ZADD", "lane.blocked_route", "unblocking", keys.LaneBlockedRoute(p, "default"), execution, bothReported},
		{"ZADD", "lane.blocked_operator", "index_reconciliation", keys.LaneBlockedOperator(p, "default"), execution, served},
		{"ZADD", "ffx.reclaimable", "index_reconciliation", keys.FfxReclaimable(p, "default"), execution, served},
		{"ZADD", "ffx.queue", "index_reconciliation", keys.FfxQueue(p, "default", "customer"), execution, served},
		{"SADD", "index.worker_leases", "key_reconciliation", keys.IndexWorkerLeases(p, "w"), execution, served},
		{"RPUSH", "ffx.runs", "key_reconciliation", keys.FfxRuns(p, "f"), listed, bothReported},
		{"ZADD", "ffx.tagged_runs", "key_reconciliation", keys.FfxTaggedRuns(p, "t", "x"), flow, served},
		{"ZADD", "index.budget_resets", "budget", keys.IndexBudgetResets(budgets), budget, served},
		{"ZADD", "budget.due", "budget", keys.BudgetDue(budgets), gate, served},
		{"SADD", "index.budget_policies", "budget_reconciliation", keys.IndexBudgetPolicies(budgets), budget, served},
		{"ZADD", "quota.due", "quota", keys.QuotaDue(quotas), quota, served},
		{"SADD", "index.quota_policies", "quota_reconciliation", keys.IndexQuotaPolicies(quotas), quota, served},
		{"SADD", "quota.admitted_set", "quota_reconciliation", keys.QuotaAdmittedSet(quotas, "of a program"), execution, served},
	} {
		add(r.command, r.template, r.task, r.key, r.member, r.isReported)
	}
	d.do("SADD", keys.FfxLanes(p), "default")
	d.do("SADD", keys.IndexQuotaPolicies(quotas), "of a program")
	d.do("HSET", keys.QuotaRecord(quotas, "of a program"), "quota_policy_id", "of a program", "active_concurrency_cap", "5")

	turn := add("ZADD", "ffx.turns", "index_reconciliation", keys.FfxTurns(p, "default"), func(damaged bool) string {
		key := uuid.NewString()
		if damaged {
			wrong(keys.FfxQueue(p, "default", key))
		}
		return key
	}, served)
	turn.reported = keys.FfxQueue(p, "default", turn.bad)
	// A lane is processed if the task processes its index in spite of the damaged index of another lane.
	for _, lane := range []enginecore.LaneID{"aa", "mm", "zz"} {
		if d.do("SADD", keys.FfxLanes(p), string(lane)); lane == "mm" {
			wrong(keys.LaneDelayed(p, lane))
			continue
		}
		gone := execution(false)
		rows = append(rows, damagedIndex{
			template: "ffx.lanes", task: "delayed_promotion", key: keys.LaneDelayed(p, lane), next: gone,
			reported: keys.LaneDelayed(p, "mm"), setUp: func() { d.do("ZADD", keys.LaneDelayed(p, lane), "1", gone) },
		})
	}
	return rows
}

// ofNoMember names the indexes of which keepers read no record of a member, with the reason.
var ofNoMember = map[string]string{
	"ffx.workers":              "the numbers of workers have no records",
	"ffx.feed":                 "events have no records, and keepers read none",
	"ffx.suspect_turn":         "a number",
	"ffx.order":                "a counter",
	"ffx.lane_partitions":      "partitions, which have no records",
	"ffx.unresolved_edges":     "a part of the backlog, and edges have the record of the member",
	"ffx.pauses":               "the pauses themselves",
	"ffx.run_feed":             "keepers read none",
	"ffx.open_feeds":           "keepers read none",
	"ffx.run_counts":           "counters",
	"ffx.run_counts_of_hour":   "counters",
	"ffx.lane_counts":          "counters",
	"ffx.run_recount":          "the progress of a count",
	"ffx.run_lists":            "counters",
	"ffx.hollow_lists":         "names of lists",
	"ffx.compacted_list":       "a part of a list, in which rows are looked for",
	"ffx.audit_log":            "keepers read none",
	"ffx.budget_gates":         "the gates themselves",
	"ffx.budget_waiting":       "calls of workers read it",
	"ffx.published_flows":      "keepers read none",
	"ffx.published":            "a record",
	"ffx.published_history":    "keepers read none",
	"ffx.api_tokens":           "servers read it",
	"ffx.api_requests":         "servers read it",
	"ffx.api_request_ends":     "servers read it",
	"ffx.failure_hook":         "a record",
	"ffx.worker_record":        "a record",
	"ffx.worker_reports":       "calls of workers read it",
	"ffx.worker_builds":        "calls of workers read it",
	"ffx.worker_builds_by_use": "calls of workers read it",
	"ffx.api_sessions":         "calls of servers read it",
	"ffx.api_session_ends":     "calls of servers read it",
	"ffx.schedules_taken":      "names of keepers, which have no records",
	"ffx.schedule":             "a record",
	"ffx.schedule_plan":        "a record",
	"ffx.schedule_history":     "keepers read none",
	"ffx.schedule_fired":       "a record",
	"ffx.run_key_first":        "a record",
	"ffx.run_key_starts":       "calls of clients read it",
	"ffx.run_key_pending":      "a record",
	"ffx.run_key_calls":        "calls of clients read it",
	"ffx.bulk_jobs":            "a list for clients",
	"ffx.bulk_job":             "a record",
	"ffx.graph":                "a record",
	"ffx.graph_rows":           "a record",
	"ffx.run_class":            "a record",
	"ffx.protocol":             "a record",
	"ffx.sent":                 "a value, which expires by itself",
	"ffx.partition":            "the beginning of other keys",
	"ffx.search_secret":        "a value",
}

// requireAllIndexes requires a row, or a reason for none, for each index of the table of keys.
func requireAllIndexes(t *testing.T, rows []damagedIndex) {
	t.Helper()
	source, err := os.ReadFile("../../../lua/frame/key.lua")
	require.NoError(t, err)
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^-- @template (\S+)`).FindAllStringSubmatch(string(source), -1) {
		name := m[1]
		isIndex := strings.HasPrefix(name, "index.") || strings.HasPrefix(name, "lane.") || strings.HasPrefix(name, "ffx.") ||
			name == "quota.due" || name == "budget.due"
		if !isIndex {
			continue
		}
		named[name] = true
		has := slices.ContainsFunc(rows, func(r damagedIndex) bool { return r.template == name })
		_, isExcused := ofNoMember[name]
		require.True(t, has != isExcused, "%s has a row of damagedIndexes: %v, and a reason for none: %v", name, has, isExcused)
	}
	require.NotEmpty(t, named)
	for name := range ofNoMember {
		require.True(t, named[name], "%s is not an index", name)
	}
}

// A member of a cancelled flow whose record is damaged keeps no other one from its end, and a worker whose capabilities
// cannot be read hides none of the others.
func TestDamagedMembersOfLists(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		p := keyspace.Partition{Family: keyspace.FlowFamily}
		bad := keyspace.NewExecutionID(p)
		d.do("SET", d.keys.ExecCore(bad), "no hash")
		flow := enginecore.FlowID(uuid.NewString())
		d.do("HSET", d.keys.FlowCore(p, flow), "public_flow_state", "cancelled", "cancel_reason", "enough")
		member := d.create(admin.ExecutionSpec{ID: keyspace.NewExecutionID(p)})
		d.do("SADD", d.keys.FlowPendingCancels(p, flow), string(bad), string(member))
		d.do("ZADD", d.keys.IndexCancelBacklog(p), "1", string(flow))
		_, err := b.RunKeeperTask(d.ctx, "cancel_backlog")
		require.ErrorContains(t, err, string(bad))
		x, err := d.Execution(d.ctx, member)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeCancelled, x.State)

		blocked := d.create(admin.ExecutionSpec{ID: keyspace.NewExecutionID(p)})
		d.do("ZREM", d.keys.LaneEligible(p, "default"), string(blocked))
		d.do("ZADD", d.keys.LaneBlockedRoute(p, "default"), "1", string(blocked))
		d.do("HSET", d.keys.ExecCore(blocked), "eligibility_state", "blocked_by_route", "blocking_reason",
			"waiting_for_capable_worker", "required_capabilities", "gpu", "public_state", "waiting")
		d.do("SADD", d.keys.Workers(), "broken", "capable")
		d.do("HSET", d.keys.WorkerCapabilities("broken"), "no", "text")
		d.do("SET", d.keys.WorkerCapabilities("capable"), "gpu")
		_, err = b.RunKeeperTask(d.ctx, "unblocking")
		require.ErrorContains(t, err, "capabilities of broken")
		require.True(t, d.has(d.keys.LaneEligible(p, "default"), string(blocked)))
	})
}
