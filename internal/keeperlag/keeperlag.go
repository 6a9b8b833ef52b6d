// Package keeperlag reads how late keepers are: for each of their tasks that works by time, for how long the oldest
// entry of its index has been due. It changes nothing.
package keeperlag

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// batchSize is how many entries one round trip reads.
const batchSize = 512

// Lag is how late a task of keepers is.
type Lag struct {
	// Task is the name of the task, Entries describes the entries of its index, in words.
	Task, Entries string
	// Overdue is for how long the oldest entry has been due; 0 when nothing is due.
	Overdue time.Duration
	// Partitions is how many partitions the task has, Late in how many something has been due for longer than the limit
	// of Read.
	Partitions, Late int
}

// index is an index that is ordered by when its entries are due.
type index struct {
	task, what string
	family     keyspace.Family
	key        func(keyspace.Partition) string
}

func indexes(keys enginerpc.Keys) []index {
	return []index{
		{"lease_expiry", "leases", keyspace.FlowFamily, keys.IndexLeaseExpiry},
		{"attempt_timeout", "attempt timeouts", keyspace.FlowFamily, keys.IndexAttemptTimeout},
		{"execution_deadline", "deadlines of executions", keyspace.FlowFamily, keys.IndexExecutionDeadline},
		{"suspension_timeout", "waits", keyspace.FlowFamily, keys.IndexSuspensionTimeout},
		{
			"pending_waitpoint_expiry", "waitpoints without a wait", keyspace.FlowFamily,
			keys.IndexPendingWaitpointExpiry,
		},
		{"start_deadline", "start deadlines", keyspace.FlowFamily, keys.FfxStartDeadlines},
		{"flow_deadline", "deadlines of runs", keyspace.FlowFamily, keys.FfxFlowDeadlines},
		{"schedule", "schedules", keyspace.FlowFamily, keys.FfxSchedulesDue},
		{"bulk_job", "bulk jobs", keyspace.FlowFamily, keys.FfxBulkJobsDue},
		{"run_key", "queues of keys", keyspace.FlowFamily, keys.FfxRunKeysDue},
		{"retention", "runs to be removed", keyspace.FlowFamily, keys.FfxPurgeDue},
		{"budget", "steps of budgets", keyspace.BudgetFamily, keys.BudgetDue},
		{"quota", "steps of limits", keyspace.QuotaFamily, keys.QuotaDue},
	}
}

// lanesRead bounds the lanes whose delayed executions are read.
const lanesRead = 64

// place names an index of a task in a partition.
type place struct {
	task int // the position of its lag
	at   keyspace.Partition
	key  string
}

// Read returns the lags of all tasks that work by time. Partitions count as late beyond the time late. The parts are
// not of one moment. The error comes from the client, or from reading the time of the engine.
func Read(ctx context.Context, core *enginerpc.Conn, late time.Duration) ([]Lag, error) {
	now, err := core.Now(ctx)
	if err != nil {
		return nil, err
	}
	keys, client := core.Keys(), core.Client()
	first := keyspace.Partition{Family: keyspace.FlowFamily} // which has all lanes
	lanes, err := client.Do(ctx, client.B().Smembers().Key(keys.FfxLanes(first)).Build()).AsStrSlice()
	if err != nil {
		return nil, err
	}
	lags, places := placesOf(core, lanes)
	behind := make([]map[keyspace.Partition]time.Duration, len(lags))
	for i := range behind {
		behind[i] = make(map[keyspace.Partition]time.Duration)
	}
	for some := range slices.Chunk(places, batchSize) {
		commands := make(rueidis.Commands, len(some))
		for i, x := range some {
			commands[i] = client.B().Zrange().Key(x.key).Min("0").Max("0").Withscores().Build()
		}
		for i, answer := range client.DoMulti(ctx, commands...) {
			oldest, err := answer.AsZScores()
			if err != nil {
				return nil, err
			}
			if x := some[i]; len(oldest) > 0 {
				behind[x.task][x.at] = max(behind[x.task][x.at], now.Sub(time.UnixMilli(int64(oldest[0].Score))))
			}
		}
	}
	for i := range lags {
		for _, lag := range behind[i] {
			lags[i].Overdue = max(lags[i].Overdue, lag)
			if lag > late {
				lags[i].Late++
			}
		}
	}
	return lags, nil
}

// placesOf returns the lags that are to be read, and where. Delays have an index in each lane.
func placesOf(core *enginerpc.Conn, lanes []string) ([]Lag, []place) {
	keys := core.Keys()
	var lags []Lag
	var places []place
	for i, x := range indexes(keys) {
		partitions := core.Partitioning().Of(x.family)
		lags = append(lags, Lag{Task: x.task, Entries: x.what, Partitions: len(partitions)})
		for _, p := range partitions {
			places = append(places, place{i, p, x.key(p)})
		}
	}
	partitions := core.Partitioning().FlowPartitions()
	slices.Sort(lanes)
	for _, lane := range lanes[:min(len(lanes), lanesRead)] {
		for _, p := range partitions {
			places = append(places, place{len(lags), p, keys.LaneDelayed(p, enginecore.LaneID(lane))})
		}
	}
	delayed := Lag{Task: "delayed_promotion", Entries: "delays and retries", Partitions: len(partitions)}
	return append(lags, delayed), places
}

// DelayedSince returns since when the first delayed execution of a lane has been due, for each lane in which it
// has been due for longer than late. It reads at most the first lanes, as Read does.
func DelayedSince(
	ctx context.Context, core *enginerpc.Conn, lanes []string, late time.Duration,
) (map[string]time.Time, error) {
	if len(lanes) == 0 {
		return nil, nil
	}
	now, err := core.Now(ctx)
	if err != nil {
		return nil, err
	}
	keys, client := core.Keys(), core.Client()
	since := make(map[string]time.Time)
	for _, lane := range lanes[:min(len(lanes), lanesRead)] {
		for some := range slices.Chunk(core.Partitioning().FlowPartitions(), batchSize) {
			commands := make(rueidis.Commands, len(some))
			for i, p := range some {
				key := keys.LaneDelayed(p, enginecore.LaneID(lane))
				commands[i] = client.B().Zrange().Key(key).Min("0").Max("0").Withscores().Build()
			}
			for _, answer := range client.DoMulti(ctx, commands...) {
				first, err := answer.AsZScores()
				if err != nil {
					return nil, err
				}
				if len(first) == 0 {
					continue
				}
				due := time.UnixMilli(int64(first[0].Score))
				if now.Sub(due) > late && (since[lane].IsZero() || due.Before(since[lane])) {
					since[lane] = due
				}
			}
		}
	}
	return since, nil
}
