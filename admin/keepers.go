package admin

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/keepertask"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// ErrUnknownKeeperTask is returned for a keeper task that does not exist, or that this engine does not have because it
// is in contract mode. Its text lists the names.
var ErrUnknownKeeperTask = keepertask.ErrUnknown

// KeeperTask describes one kind of a keeper's work.
type KeeperTask struct {
	// Name is how RunKeeperTask, runtime.KeeperStats, metrics and logs call the task, for example "lease_expiry".
	Name string
	// Summary says in a sentence what the task does.
	Summary string
	// ContractName is what the FlowFabric contract calls the scanner that does the same; RunKeeperTask takes that name,
	// too. Empty for tasks that only this library has.
	ContractName string
	// Every is the longest time between two looks at a partition, by a keeper with the default configuration. What is
	// due earlier is done when it is due, as long as messages arrive.
	Every time.Duration
	// InContractMode reports whether keepers in contract mode have the task; they leave the others to the server's
	// scanners.
	InContractMode bool
}

// KeeperTasks describes all tasks of keepers, sorted by name.
func (c *Client) KeeperTasks() []KeeperTask {
	keeper, err := runtime.NewKeeper(c.engine, runtime.KeeperConfig{})
	if err != nil {
		return nil // a client has an engine, so this does not happen
	}
	described := keepertask.TasksOf(keeper)
	tasks := make([]KeeperTask, len(described))
	for i, t := range described {
		tasks[i] = KeeperTask(t)
	}
	return tasks
}

// KeeperTaskReport is what RunKeeperTask has done.
type KeeperTaskReport struct {
	// Task is the name of the task.
	Task string
	// Partitions counts the partitions that were looked at, Steps the looks.
	Partitions, Steps int
	// Done counts what was worked on: executions, runs, edges, waitpoints.
	Done int64
	// Lag is how late the latest item was, by the engine's clock.
	Lag time.Duration
	// Remaining counts partitions in which work is left, or may be left because a step failed or the context ended.
	Remaining int
	// Repaired counts, by index, the entries that did not match the records; nil for tasks that repair no index.
	Repaired map[string]int64
	// Took is how long it took.
	Took time.Duration
}

// RunKeeperTask carries out one task of keepers in all partitions, in all namespaces, until none of it is due, whether
// or not keepers run. It skips partitions in which a step fails and continues with the others. The config is that of
// the deployment's keepers: retention and compaction go by it.
//
// The report is valid also with an error, which joins the errors of the partitions. The error is ErrUnknownKeeperTask,
// and nothing is done, for a task that does not exist or that contract mode lacks; it matches runtime.ErrInvalid for a
// bad config.
func (c *Client) RunKeeperTask(
	ctx context.Context, name string, config runtime.KeeperConfig,
) (KeeperTaskReport, error) {
	keeper, err := runtime.NewKeeper(c.engine, config)
	if err != nil {
		return KeeperTaskReport{Task: name}, err
	}
	report, err := keepertask.RunTask(ctx, keeper, name)
	return KeeperTaskReport(report), err
}
