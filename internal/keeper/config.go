package keeper

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Config is the configuration of a keeper. The public config of keepers sets its fields; Check validates them.
// It has no usable zero value: the public package fills in the defaults.
type Config struct {
	// Lanes names lanes to maintain in addition to those that flows use.
	Lanes []enginecore.LaneID
	// RetainExecutions is how long executions outside managed flows are kept after their end; negative keeps them for
	// ever.
	RetainExecutions time.Duration
	// ReconcileEvery is the interval at which the keeper begins to reconcile the indexes of a partition.
	ReconcileEvery time.Duration
	// SiblingNamespace, SiblingTag and SiblingTagValue select the joins of other programs' flows whose upstreams the
	// keeper cancels. Empty ones select all.
	SiblingNamespace, SiblingTag, SiblingTagValue string
	// Heartbeat is the interval of the messages by which the keeper announces itself to the other keepers.
	Heartbeat time.Duration
}

// DefaultLane is the lane of executions that were created without one.
const DefaultLane enginecore.LaneID = "default"

const (
	// SweepEvery is the longest time between two ticks of an owned partition. The engine publishes a message about
	// everything that becomes due earlier than the times that keepers know, so a sweep only makes up for lost messages.
	SweepEvery = time.Minute
	// ShortSweep is that time in a cluster, whose servers forward messages over links that can fail without notice.
	ShortSweep = 9 * time.Second
	// foreignSweep is the time between two ticks of a partition that another keeper owns.
	foreignSweep = 5 * time.Minute
	// quietSweep is the time between two visits of a partition for every loop of a quiet session.
	quietSweep = 365 * 24 * time.Hour
)

// sweepEvery returns the longest time between two ticks of an owned partition.
func (m *maintainer) sweepEvery() time.Duration {
	switch {
	case m.intervals.KeeperSweep > 0:
		return m.intervals.KeeperSweep
	case m.Session.Quiet:
		return quietSweep
	case m.Session.Backend.PollEvery() > 0: // other programs publish no messages
		return m.Session.Backend.PollEvery()
	case m.inCluster():
		return ShortSweep
	}
	return SweepEvery
}

func (m *maintainer) inCluster() bool { return m.Session.InCluster() }

// minReconcileEvery is the lower bound of Config.ReconcileEvery.
const minReconcileEvery = 100 * time.Millisecond

// Check returns all faults of the config, joined, by the names of the fields of the public config, after in. Each wraps
// engine.ErrInvalid.
func (c *Config) Check(in string) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s"+format, append([]any{engine.ErrInvalid, in}, args...)...))
	}
	for _, lane := range c.Lanes {
		if _, err := keyspace.ParseLaneID(string(lane)); err != nil {
			fault("Lanes: %w", err)
		}
	}
	if c.Heartbeat < minHeartbeat || c.Heartbeat > maxHeartbeat {
		fault("HeartbeatInterval %s: must be %s to %s", c.Heartbeat, minHeartbeat, maxHeartbeat)
	}
	if c.SiblingTag == "" && c.SiblingTagValue != "" {
		fault("SiblingTagValue %q: needs SiblingTag", c.SiblingTagValue)
	}
	if c.ReconcileEvery < minReconcileEvery {
		fault("ReconcileEvery %s: must be at least %s", c.ReconcileEvery, minReconcileEvery)
	}
	return errors.Join(faults...)
}
