package keeper

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	// UnblockEvery is the interval at which blocked executions outside managed flows are checked.
	UnblockEvery = 30 * time.Second
	// contractUnblockEvery is that interval in contract mode, where schedulers of other programs block executions.
	contractUnblockEvery = 5 * time.Second
	// unblockPage bounds the executions of each set of a lane that one step reads.
	unblockPage = 100
)

// unblockLoop unblocks executions that another program of the contract has blocked for a budget, a quota or
// capabilities, once these are available. Members of managed flows are unblocked by the calls that hold them.
func (m *maintainer) unblockLoop() *MaintenanceLoop {
	at, every := newCursors(), m.unblockEvery()
	r := &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskUnblocking}, family: keyspace.FlowFamily, Every: every,
	}
	r.Step = func(ctx context.Context, partitions []keyspace.Partition, only engine.TaskID) []StepResult {
		results := make([]StepResult, len(partitions))
		u := &unblocker{maintainer: m, breached: make(map[string]bool)}
		lanes, errs := m.unblockLanes(ctx, partitions)
		keys := make([][]string, len(partitions))
		for i, p := range partitions {
			keys[i] = m.blockedKeys(p, lanes[i])
		}
		filled := m.Session.Filled(ctx, keys)
		for i, p := range partitions {
			if results[i].Err = errs[i]; errs[i] != nil || !filled[i] {
				continue
			}
			u.faults = nil
			count, cursor, err := u.visit(ctx, p, lanes[i], at.get(p))
			results[i].Err, results[i].faults = err, u.faults
			if err == nil {
				results[i].more, results[i].Next = at.moved(p, cursor, every, only != "")
				results[i].done = []taskDone{{task: engine.TaskUnblocking, count: count}}
			}
		}
		return results
	}
	return r
}

// unblockEvery returns the interval at which blocked executions are checked.
func (m *maintainer) unblockEvery() time.Duration {
	if engine.Has[engine.LaneDirectory](m.Session.Backend) {
		return contractUnblockEvery
	}
	return UnblockEvery
}

// knownLanes returns the configured lanes and the lanes of the backend's directory, if it has one.
func (m *maintainer) knownLanes(ctx context.Context) []enginecore.LaneID {
	if directory, err := engine.Capability[engine.LaneDirectory](m.Session.Backend); err == nil {
		return directory.KnownLanes(ctx, m.Lanes)
	}
	return m.Lanes
}

// unblockLanes returns the lanes of executions outside managed flows in each of the partitions: the known ones, and
// those that the library has noted there; and the error of each partition whose lanes cannot be read.
func (m *maintainer) unblockLanes(
	ctx context.Context, partitions []keyspace.Partition,
) ([][]enginecore.LaneID, []error) {
	lanes, errs := make([][]enginecore.LaneID, len(partitions)), make([]error, len(partitions))
	known := m.knownLanes(ctx)
	if engine.Has[engine.LaneDirectory](m.Session.Backend) {
		for i := range lanes {
			lanes[i] = known
		}
		return lanes, errs
	}
	client := m.Session.Client
	commands := make(rueidis.Commands, len(partitions))
	for i, p := range partitions {
		commands[i] = client.B().Smembers().Key(m.Session.Core.Keys().FfxLanes(p)).Build()
	}
	for i, result := range client.DoMulti(ctx, commands...) {
		noted, err := result.AsStrSlice()
		if err != nil {
			errs[i] = engine.ReadError(ctx, "SMEMBERS", err)
			continue
		}
		lanes[i] = slices.Clone(known)
		for _, lane := range noted {
			lanes[i] = append(lanes[i], enginecore.LaneID(lane))
		}
		slices.Sort(lanes[i])
		lanes[i] = slices.Compact(lanes[i])
	}
	return lanes, errs
}

// blockedKeys returns the keys of the sets of blocked executions of some lanes.
func (m *maintainer) blockedKeys(p keyspace.Partition, lanes []enginecore.LaneID) []string {
	var keys []string
	for _, lane := range lanes {
		for _, set := range m.blockedSets(p, lane) {
			keys = append(keys, set.key)
		}
	}
	return keys
}

// blockedSet is the key of a set of blocked executions of a lane, with the reason that they have.
type blockedSet struct {
	key, reason string
	lane        enginecore.LaneID
}

// blockedSets returns the sets of blocked executions of a lane.
func (m *maintainer) blockedSets(p keyspace.Partition, lane enginecore.LaneID) []blockedSet {
	keys := m.Session.Core.Keys()
	return []blockedSet{
		{keys.LaneBlockedBudget(p, lane), "waiting_for_budget", lane},
		{keys.LaneBlockedQuota(p, lane), "waiting_for_quota", lane},
		{keys.LaneBlockedRoute(p, lane), "waiting_for_capable_worker", lane},
	}
}

// unblocker is one step. It caches the answers about budgets and quotas.
type unblocker struct {
	*maintainer
	breached     map[string]bool
	capabilities func() (map[string]bool, error)
	faults       []enginerpc.ItemFault // of the partition that is visited
}

// failed notes an item that could not be worked on, and returns the error if the engine could not be reached.
func (u *unblocker) failed(item string, err error) error {
	if err == nil || retry.IsUnavailable(err) {
		return err
	}
	u.faults = append(u.faults,
		enginerpc.ItemFault{Task: string(engine.TaskUnblocking), Item: item, Error: err.Error()})
	return nil
}

var unblockFields = []string{"managed", "blocking_reason", "budget_ids", "quota_policy_id", "required_capabilities"}

// visit checks a page of each blocked set of a partition from an offset. It returns the number of unblocked
// executions and the next offset, empty at the end.
func (u *unblocker) visit(
	ctx context.Context, p keyspace.Partition, lanes []enginecore.LaneID, cursor string,
) (count int64, next string, err error) {
	offset, _ := strconv.Atoi(cursor)
	client := u.Session.Client
	var sets []blockedSet
	var commands rueidis.Commands
	for _, lane := range lanes {
		for _, set := range u.blockedSets(p, lane) {
			sets = append(sets, set)
			commands = append(commands, client.B().Zrange().Key(set.key).Min(strconv.Itoa(offset)).
				Max(strconv.Itoa(offset+unblockPage-1)).Build())
		}
	}
	full, most := false, int64(0)
	for i, result := range client.DoMulti(ctx, commands...) {
		ids, err := result.AsStrSlice()
		if err != nil {
			err = u.failed(sets[i].key, engine.ReadError(ctx, "ZRANGE", err))
		}
		if err != nil {
			return count, cursor, err
		}
		full = full || len(ids) == unblockPage
		released, err := u.release(ctx, p, sets[i], ids)
		count, most = count+released, max(most, released)
		if err != nil {
			return count, cursor, err
		}
	}
	if !full {
		return count, "", nil
	}
	// Unblocked executions have left the sets.
	return count, strconv.Itoa(offset + max(1, unblockPage-int(most))), nil
}

// release unblocks those executions whose reason no longer holds. Executions for which that is unknown remain
// blocked.
func (u *unblocker) release(
	ctx context.Context, p keyspace.Partition, set blockedSet, texts []string,
) (int64, error) {
	calls, err := u.free(ctx, p, set, texts)
	if err != nil || len(calls) == 0 {
		return 0, err
	}
	now, err := u.Session.Core.Now(ctx)
	if err != nil {
		return 0, engine.ReadError(ctx, "TIME", err)
	}
	for i := range calls {
		calls[i].Now = now
	}
	answers, _ := batching.SendAll(ctx, u.Session.Core, calls) // each answer has its error
	count := int64(0)
	for i, a := range answers {
		var refusal *enginecore.Error
		switch {
		case a.Err == nil:
			count++
		case !errors.As(a.Err, &refusal):
			if err := u.failed(string(calls[i].ExecutionID), a.Err); err != nil {
				return count, err
			}
		}
	}
	return count, nil
}

// free returns the calls for those executions whose reason no longer holds.
func (u *unblocker) free(
	ctx context.Context, p keyspace.Partition, set blockedSet, texts []string,
) ([]enginerpc.UnblockExecutionCall, error) {
	var ids []enginecore.ExecutionID
	var commands rueidis.Commands
	client := u.Session.Client
	for _, id := range engine.ExecutionIDs(texts) {
		if at, err := keyspace.PartitionOf(id); err == nil && at == p {
			ids = append(ids, id)
			commands = append(commands,
				client.B().Hmget().Key(u.Session.Core.Keys().ExecCore(id)).Field(unblockFields...).Build())
		}
	}
	var calls []enginerpc.UnblockExecutionCall
	for i, result := range client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			if err := u.failed(string(ids[i]), engine.ReadError(ctx, "HMGET", err)); err != nil {
				return nil, err
			}
			continue
		}
		core := hashrecord.Read(result, unblockFields)
		if core["managed"] != "" || core["blocking_reason"] != set.reason {
			continue
		}
		free, err := u.isFree(ctx, set.reason, core)
		if err := u.failed(string(ids[i]), err); err != nil {
			return nil, err
		}
		if free && err == nil {
			calls = append(calls, enginerpc.UnblockExecutionCall{
				LaneID: set.lane, ExecutionID: ids[i], ExpectedBlockingReason: set.reason,
			})
		}
	}
	return calls, nil
}

// isFree reports whether the resource that an execution was blocked for is available.
func (u *unblocker) isFree(ctx context.Context, reason string, core engine.Record) (bool, error) {
	switch reason {
	case "waiting_for_budget":
		for _, id := range strings.Split(core["budget_ids"], ",") {
			breached, err := u.remembered("budget "+id, func() (bool, error) {
				return u.isBreached(ctx, enginecore.BudgetID(id))
			})
			if breached || err != nil {
				return false, err
			}
		}
		return true, nil
	case "waiting_for_quota":
		id := core["quota_policy_id"]
		full, err := u.remembered("quota "+id, func() (bool, error) {
			return u.isFull(ctx, enginecore.QuotaPolicyID(id))
		})
		return !full, err
	}
	if core["required_capabilities"] == "" {
		return true, nil
	}
	if u.capabilities == nil {
		u.capabilities = sync.OnceValues(func() (map[string]bool, error) { return u.advertised(ctx) })
	}
	all, err := u.capabilities()
	if err != nil {
		return false, err
	}
	for _, token := range strings.Split(core["required_capabilities"], ",") {
		if !all[token] {
			return false, nil
		}
	}
	return true, nil
}

// remembered returns the cached answer, or calls the function for it.
func (u *unblocker) remembered(what string, ask func() (bool, error)) (bool, error) {
	if answer, known := u.breached[what]; known {
		return answer, nil
	}
	answer, err := ask()
	if err == nil {
		u.breached[what] = answer
	}
	return answer, err
}

// isBreached reports whether a budget has reached a hard limit. An invalid id has no limits.
func (u *unblocker) isBreached(ctx context.Context, id enginecore.BudgetID) (bool, error) {
	p, err := u.Session.Core.Partitioning().BudgetPartition(id)
	if err != nil {
		return false, nil
	}
	keys, b := u.Session.Core.Keys(), u.Session.Client.B()
	results := u.Session.Client.DoMulti(ctx, b.Hgetall().Key(keys.BudgetLimits(p, id)).Build(),
		u.Session.Client.B().Hgetall().Key(keys.BudgetUsage(p, id)).Build())
	limits, err := results[0].AsStrMap()
	usage, err2 := results[1].AsStrMap()
	if err := errors.Join(err, err2); err != nil {
		return false, engine.ReadError(ctx, "HGETALL", err)
	}
	for field, text := range limits {
		dimension, hard := strings.CutPrefix(field, "hard:")
		limit, _ := strconv.ParseFloat(text, 64)
		used, _ := strconv.ParseFloat(usage[dimension], 64)
		if hard && limit > 0 && used >= limit {
			return true, nil
		}
	}
	return false, nil
}

var quotaFields = []string{"max_requests_per_window", "requests_per_window_seconds", "active_concurrency_cap"}

// defaultQuotaWindow is the window of a quota that specifies none, in seconds.
const defaultQuotaWindow = 60

// isFull reports whether a quota admits nothing at present. An invalid id limits nothing.
func (u *unblocker) isFull(ctx context.Context, id enginecore.QuotaPolicyID) (bool, error) {
	p, err := u.Session.Core.Partitioning().QuotaPartition(id)
	if err != nil {
		return false, nil
	}
	now, err := u.Session.Core.Now(ctx)
	if err != nil {
		return false, engine.ReadError(ctx, "TIME", err)
	}
	keys, client := u.Session.Core.Keys(), u.Session.Client
	result := client.Do(ctx, client.B().Hmget().Key(keys.QuotaRecord(p, id)).Field(quotaFields...).Build())
	if err := result.Error(); err != nil {
		return false, engine.ReadError(ctx, "HMGET", err)
	}
	quota := hashrecord.Read(result, quotaFields)
	window := quota.Int("requests_per_window_seconds")
	if window <= 0 {
		window = defaultQuotaWindow
	}
	from := "(" + strconv.FormatInt(now.Add(-time.Duration(window)*time.Second).UnixMilli(), 10)
	results := client.DoMulti(ctx, client.B().Zcount().Key(keys.QuotaWindow(p, id)).Min(from).Max("+inf").Build(),
		client.B().Get().Key(keys.QuotaConcurrency(p, id)).Build())
	admitted, err := results[0].AsInt64()
	if err != nil {
		return false, engine.ReadError(ctx, "ZCOUNT", err)
	}
	running, err := results[1].AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return false, engine.ReadError(ctx, "GET", err)
	}
	rate, most := quota.Int("max_requests_per_window"), quota.Int("active_concurrency_cap")
	return rate > 0 && admitted >= rate || most > 0 && running >= most, nil
}

// advertised returns the capabilities of all registered workers.
func (u *unblocker) advertised(ctx context.Context) (map[string]bool, error) {
	keys, client := u.Session.Core.Keys(), u.Session.Client
	all := make(map[string]bool)
	for cursor := uint64(0); ; {
		page, err := client.Do(ctx,
			client.B().Sscan().Key(keys.Workers()).Cursor(cursor).Count(unblockPage).Build()).AsScanEntry()
		if err != nil {
			return nil, engine.ReadError(ctx, "SSCAN", err)
		}
		commands := make(rueidis.Commands, len(page.Elements))
		for i, worker := range page.Elements {
			commands[i] = client.B().Get().Key(keys.WorkerCapabilities(enginecore.WorkerInstanceID(worker))).Build()
		}
		for i, result := range client.DoMulti(ctx, commands...) {
			text, err := result.ToString()
			if err != nil && !rueidis.IsRedisNil(err) {
				if err := u.failed("capabilities of "+page.Elements[i], engine.ReadError(ctx, "GET", err)); err != nil {
					return nil, err
				}
				continue
			}
			for _, token := range strings.Split(text, ",") {
				all[token] = true
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return all, nil
		}
	}
}
