package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// ContractVersionNumber is the version of the FlowFabric contract that the ff_* calls follow.
const ContractVersionNumber = "15"

// Partition counts of a new deployment that other FlowFabric servers expect.
const (
	contractFlowPartitions   = 256
	contractBudgetPartitions = 32
	contractQuotaPartitions  = 32
)

// compositePrefix begins the names of the functions that only our library has, in every protocol.
const compositePrefix = "ffx"

// connected returns an error if the connection was not made by Connect, but left nil by an error that the caller
// ignored.
func (conn *Conn) connected() error {
	if conn == nil || conn.client == nil {
		return errors.New("the engine was not made by Connect")
	}
	return nil
}

// permit returns an error for a function that the connection may not call.
func (conn *Conn) permit(function string) error {
	if err := conn.OutdatedErr(); err != nil {
		return fmt.Errorf("the engine was not called: %w", err)
	}
	if conn.contractOnly && strings.HasPrefix(function, compositePrefix) {
		return fmt.Errorf("%s: %w %s, which this connection is bound to", function, enginecore.ErrContractOnly,
			ContractVersionNumber)
	}
	return nil
}

// ChannelKeepers returns the channel on which keepers announce themselves to each other. Keepers in contract mode have
// a separate channel: they do work for runs in contract mode that other keepers do not know, so both take care of all
// partitions.
func (conn *Conn) ChannelKeepers() string { return conn.channelOfKeepers(conn.keys.ChannelKeepers()) }

// ChannelStandbyKeepers returns the channel on which the keepers of workers on standby announce themselves to each
// other.
func (conn *Conn) ChannelStandbyKeepers() string {
	return conn.channelOfKeepers(conn.keys.ChannelStandbyKeepers())
}

func (conn *Conn) channelOfKeepers(channel string) string {
	if conn.contractOnly {
		channel += ":contract"
	}
	return channel
}

// checkContract checks that a server's library follows the contract. It changes nothing.
func (conn *Conn) checkContract(ctx context.Context, node rueidis.Client) error {
	probe := ContractVersionCall{}
	w := &wire{name: probe.info().name}
	reply, err := Decode(ctx, probe, node.Do(ctx, w.command(node.B())))
	if isMissing(err) {
		return fmt.Errorf("%w: %s is unknown to it, and in contract mode no library is loaded; start a FlowFabric server on it, "+
			"or load a library of version %s", enginecore.ErrNoLibrary, w.name, ContractVersionNumber)
	}
	if err != nil {
		return fmt.Errorf("version of the server's library: %w", err)
	}
	if reply.Version != ContractVersionNumber {
		return fmt.Errorf("%w: the server's library has version %s of the contract, this program speaks version %s",
			enginecore.ErrIncompatibleLibrary, reply.Version, ContractVersionNumber)
	}
	return nil
}

// isMissing reports whether the server does not know the function.
func isMissing(err error) bool {
	var server *enginecore.ServerError
	return errors.As(err, &server) && strings.HasPrefix(server.Message, "Function not found")
}

// CreateDelayedCall is CreateExecutionCall with the index of delayed executions, for libraries that leave the choice of
// the index to their caller. It belongs to calls with DelayUntil.
type CreateDelayedCall struct{ CreateExecutionCall }

// blockedBy is the index of the executions of a lane that are blocked for a reason: libraries that leave the choice to
// their caller take the key as it is. A reason without a separate index uses the index of budgets.
func (k Keys) blockedBy(tag string, lane enginecore.LaneID, reason string) string {
	switch reason {
	case "waiting_for_quota":
		return k.laneBlockedQuota(tag, lane)
	case "waiting_for_capable_worker":
		return k.laneBlockedRoute(tag, lane)
	case "paused_by_operator":
		return k.laneBlockedOperator(tag, lane)
	}
	return k.laneBlockedBudget(tag, lane)
}

// schedulingKey is the index of the scheduling index among the keys.
const schedulingKey = 4

func (c CreateDelayedCall) encode(w *wire) {
	c.CreateExecutionCall.encode(w)
	if len(w.list) > schedulingKey {
		w.list[schedulingKey] = w.keys.laneDelayed(w.tag, c.LaneID)
	}
}
