package keeper

import (
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// Config is the configuration of a keeper. The public options of keepers set its fields; Check validates them.
// It has no usable zero value: the public package fills in the defaults.
type Config struct {
	// Lanes names lanes to maintain in addition to those that flows use.
	Lanes []enginecore.LaneID
	// CompactAfter is the time from the end of a run to the compaction of its records; negative disables compaction.
	CompactAfter time.Duration
	// RetainExecutions is how long executions outside managed flows are kept after their end; negative keeps them for
	// ever.
	RetainExecutions time.Duration
	// LibraryCheck is the interval of the checks that the server still has the library.
	LibraryCheck time.Duration
	// ReconcileEvery is the interval at which the keeper begins to reconcile the indexes of a partition.
	ReconcileEvery time.Duration
	// Heartbeat is the interval of the messages by which the keeper announces itself to the other keepers.
	Heartbeat time.Duration
}

// DefaultLane is the lane of executions that were created without one.
const DefaultLane enginecore.LaneID = "default"

// SweepEvery is the longest time between two ticks of an owned partition. The engine publishes messages only about
// what is due earlier than the next sweep.
const SweepEvery = 9 * time.Second

// Check validates the config. Its errors wrap engine.ErrWorkerConfig.
func (c *Config) Check() error {
	for _, lane := range c.Lanes {
		if _, err := enginecore.ParseLaneID(string(lane)); err != nil {
			return fmt.Errorf("keeper: %w: %w", engine.ErrWorkerConfig, err)
		}
	}
	if c.Heartbeat < minHeartbeat || c.Heartbeat > maxHeartbeat {
		return fmt.Errorf("keeper: %w: heartbeat %s: must be between %s and %s", engine.ErrWorkerConfig, c.Heartbeat,
			minHeartbeat, maxHeartbeat)
	}
	return nil
}
