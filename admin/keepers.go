package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/keeper"
	"github.com/flowfabric/flowfabric-go/internal/keeperlag"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// ErrUnknownKeeperTask is returned for a keeper task that does not exist, or that the engine lacks in contract mode.
// Its text lists the names.
var ErrUnknownKeeperTask = keeper.ErrUnknownTask

// KeeperTask describes one kind of a keeper's work.
type KeeperTask struct {
	// Name is the name of the task in RunKeeperTask, fabrictype.KeeperStats, metrics and logs, for example
	// "lease_expiry".
	Name string
	// Summary describes the task in a sentence.
	Summary string
	// ContractName is the name of the corresponding scanner of the FlowFabric contract, which RunKeeperTask accepts as
	// well. Empty for tasks that only this library has.
	ContractName string
	// Every is the longest time between two steps in a partition, by a keeper with the default configuration. Items
	// that are due earlier are processed when they are due, as long as messages arrive.
	Every time.Duration
}

// KeeperTasks returns the tasks that the engine's keepers run, sorted by name. Keepers in contract mode leave the
// others to the scanners of the server.
func (c *Client) KeeperTasks() []KeeperTask {
	k, err := runtime.NewKeeper(c.engine, runtime.KeeperConfig{})
	if err != nil {
		return nil // a client has an engine, so this does not happen
	}
	described := keeper.Of(k.Internal()).Tasks()
	tasks := make([]KeeperTask, len(described))
	for i, t := range described {
		tasks[i] = KeeperTask(t)
	}
	return tasks
}

// KeeperLag returns how late keepers are, by the name of each task that works by time: for how long its oldest work has
// been due, by the engine's clock; zero when nothing is due. A keeper does most work when it is due, and finds the rest
// within about half a minute. KeeperLag reads the oldest entry of each index in all partitions, at different moments.
//
// The error is the cause of ctx, or matches enginecore.ErrUnavailable or enginecore.ErrUnauthorized.
func (c *Client) KeeperLag(ctx context.Context) (map[string]time.Duration, error) {
	read, err := keeperlag.Read(ctx, c.core, 0)
	if err != nil {
		return nil, fmt.Errorf("lag of keepers: %w", readError(ctx, err))
	}
	lags := make(map[string]time.Duration, len(read))
	for _, lag := range read {
		lags[lag.Task] = lag.Overdue
	}
	return lags, nil
}

// KeeperTaskReport is the result of RunKeeperTask.
type KeeperTaskReport struct {
	// Task is the name of the task.
	Task string
	// Partitions is the number of partitions, Steps the number of calls for them.
	Partitions, Steps int
	// Done counts the items that were processed: executions, runs, edges or waitpoints.
	Done int64
	// Lag is how late the latest item was, by the engine's clock.
	Lag time.Duration
	// Remaining counts partitions with work left, including those where work may be left because a step failed or ctx
	// ended.
	Remaining int
	// Repaired counts, by index, the entries that did not match the records; nil for tasks that repair no index.
	Repaired map[string]int64
	// Took is how long the call took.
	Took time.Duration
}

// RunKeeperTask runs one keeper task in all partitions and all namespaces until nothing is due, whether or not keepers
// run. A partition in which a step fails is skipped; the others continue. The config should equal the config of the
// deployment's keepers, because it determines retention.
//
// The report is valid also with an error, which joins the errors of the partitions. The error is ErrUnknownKeeperTask
// for a task that does not exist or that contract mode lacks, and matches runtime.ErrInvalid for an invalid config;
// nothing was done then.
func (c *Client) RunKeeperTask(
	ctx context.Context, name string, config runtime.KeeperConfig,
) (KeeperTaskReport, error) {
	k, err := runtime.NewKeeper(c.engine, config)
	if err != nil {
		return KeeperTaskReport{Task: name}, err
	}
	report := keeper.TaskReport{Task: name}
	err = c.audited(ctx, auditlink.RunKeeperTask, name, "", func() (err error) {
		report, err = keeper.Of(k.Internal()).RunTask(ctx, name)
		return err
	})
	return KeeperTaskReport(report), err
}
