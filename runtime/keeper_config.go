package runtime

import (
	"cmp"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
)

// KeeperConfig configures a keeper. The zero value is good for most programs.
type KeeperConfig struct {
	// Lanes are lanes to look after besides "default" and those that flows use, for executions that other tools create.
	// Defaults to none; a lane that only such executions use is then found by the keeper task index_reconciliation.
	Lanes []string
	// HeartbeatInterval is how often the keeper tells the other keepers of the engine that it is there, 10 ms to 1 min.
	// When one dies, the others take over its partitions three to four of its heartbeats later; when it is stopped, at
	// once. Defaults to 1 s.
	HeartbeatInterval time.Duration
	// ReconcileEvery is how often the keeper begins to go through the records and indexes of a partition, to mend what
	// does not fit together. A partition with many records takes a few of these times; admin.Client.RunKeeperTask goes
	// through all at once. At least 100 ms. Defaults to 10 min. Without effect in contract mode.
	ReconcileEvery time.Duration
	// RetainExecutions is how long executions that belong to no managed flow are kept after their end, with payload,
	// result, attempts, streams and all else that belongs to them: those that ff_create_execution or package admin has
	// created. The retention_ttl_ms of the stream_policy in an execution's policy goes before. Runs have flow.Retention
	// instead. Defaults to 24 h; a negative time keeps those for ever whose policy says nothing. Without effect in
	// contract mode.
	RetainExecutions time.Duration

	// libraryCheck is the interval of the checks that the server still has the library, for tests. Defaults to that of
	// package engine.
	libraryCheck time.Duration
}

const (
	defaultHeartbeatInterval = time.Second
	defaultReconcileEvery    = 10 * time.Minute
	defaultRetainExecutions  = 24 * time.Hour
)

// resolve returns the config of the keeper itself, with the defaults in place. The error joins all faults; in goes
// before the names of the fields.
func (c KeeperConfig) resolve(in string) (keeper.Config, error) {
	config := keeper.Config{
		Lanes:            []enginecore.LaneID{keeper.DefaultLane},
		RetainExecutions: cmp.Or(c.RetainExecutions, defaultRetainExecutions),
		LibraryCheck:     cmp.Or(c.libraryCheck, engine.LibraryCheck),
		ReconcileEvery:   cmp.Or(c.ReconcileEvery, defaultReconcileEvery),
		Heartbeat:        cmp.Or(c.HeartbeatInterval, defaultHeartbeatInterval),
	}
	for _, name := range c.Lanes {
		config.Lanes = append(config.Lanes, enginecore.LaneID(name))
	}
	return config, config.Check(in)
}
