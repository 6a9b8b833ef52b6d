// Package keeperlag reads how far keepers are behind: for each of their tasks that works by time, for how long the
// oldest entry of its index has been due. It changes nothing.
package keeperlag

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// batchSize is how many partitions one round trip reads.
const batchSize = 64

// Lag is how far a task of keepers is behind.
type Lag struct {
	// Task is the name of the task, What is what its index holds, in words.
	Task, What string
	// Behind is for how long the oldest entry has been due; 0 when nothing is due.
	Behind time.Duration
	// Partitions is how many partitions the task has, Late in how many something has been due for longer than asked.
	Partitions, Late int
}

// index is an index that is ordered by when its entries are due.
type index struct {
	task, what string
	family     enginecore.Family
	key        func(enginecore.Partition) string
}

func indexes(keys enginerpc.Keys) []index {
	return []index{
		{"lease_expiry", "leases", enginecore.FlowFamily, keys.IndexLeaseExpiry},
		{"attempt_timeout", "attempt timeouts", enginecore.FlowFamily, keys.IndexAttemptTimeout},
		{"execution_deadline", "deadlines of executions", enginecore.FlowFamily, keys.IndexExecutionDeadline},
		{"suspension_timeout", "waits", enginecore.FlowFamily, keys.IndexSuspensionTimeout},
		{
			"pending_waitpoint_expiry", "waitpoints without a wait", enginecore.FlowFamily,
			keys.IndexPendingWaitpointExpiry,
		},
		{"start_deadline", "start deadlines", enginecore.FlowFamily, keys.FfxStartDeadlines},
		{"flow_deadline", "deadlines of runs", enginecore.FlowFamily, keys.FfxFlowDeadlines},
		{"schedule", "schedules", enginecore.FlowFamily, keys.FfxSchedulesDue},
		{"bulk_job", "bulk jobs", enginecore.FlowFamily, keys.FfxBulkJobsDue},
		{"run_key", "queues of keys", enginecore.FlowFamily, keys.FfxRunKeysDue},
		{"retention", "runs to be removed", enginecore.FlowFamily, keys.FfxPurgeDue},
		{"budget", "steps of budgets", enginecore.BudgetFamily, keys.BudgetDue},
		{"quota", "steps of limits", enginecore.QuotaFamily, keys.QuotaDue},
	}
}

// lanesRead bounds the lanes whose delayed executions are looked at.
const lanesRead = 64

// Read returns the lags of all tasks that work by time. Partitions count as late beyond the time late. The parts are
// not of one moment. The error is that of the client, or of the time of the engine.
func Read(ctx context.Context, core *enginerpc.Conn, late time.Duration) ([]Lag, error) {
	now, err := core.Now(ctx)
	if err != nil {
		return nil, err
	}
	keys, client := core.Keys(), core.Client()
	first := enginecore.Partition{Family: enginecore.FlowFamily} // which has all lanes
	lanes, err := client.Do(ctx, client.B().Smembers().Key(keys.FfxLanes(first)).Build()).AsStrSlice()
	if err != nil {
		return nil, err
	}
	all := indexes(keys)
	lags := make([]Lag, 0, len(all)+1)
	for _, x := range all {
		lag, err := x.read(ctx, core, now, late)
		if err != nil {
			return nil, err
		}
		lags = append(lags, lag)
	}
	delayed := Lag{Task: "delayed_promotion", What: "delays and retries"}
	slices.Sort(lanes)
	for _, lane := range lanes[:min(len(lanes), lanesRead)] {
		x := index{family: enginecore.FlowFamily, key: func(p enginecore.Partition) string {
			return keys.LaneDelayed(p, enginecore.LaneID(lane))
		}}
		lag, err := x.read(ctx, core, now, late)
		if err != nil {
			return nil, err
		}
		delayed.Behind, delayed.Partitions = max(delayed.Behind, lag.Behind), lag.Partitions
		delayed.Late = max(delayed.Late, lag.Late)
	}
	return append(lags, delayed), nil
}

// read reads the first entry of the index in each partition.
func (x index) read(ctx context.Context, core *enginerpc.Conn, now time.Time, late time.Duration) (Lag, error) {
	partitions := core.Partitioning().Of(x.family)
	lag := Lag{Task: x.task, What: x.what, Partitions: len(partitions)}
	client := core.Client()
	for some := range slices.Chunk(partitions, batchSize) {
		commands := make(rueidis.Commands, len(some))
		for i, p := range some {
			commands[i] = client.B().Zrange().Key(x.key(p)).Min("0").Max("0").Withscores().Build()
		}
		for _, answer := range client.DoMulti(ctx, commands...) {
			first, err := answer.AsZScores()
			if err != nil {
				return lag, err
			}
			if len(first) == 0 {
				continue
			}
			behind := max(0, now.Sub(time.UnixMilli(int64(first[0].Score))))
			lag.Behind = max(lag.Behind, behind)
			if behind > late {
				lag.Late++
			}
		}
	}
	return lag, nil
}
