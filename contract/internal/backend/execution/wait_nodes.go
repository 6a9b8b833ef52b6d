package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

const (
	// waitLease is the lease of a waitpoint node, from its claim to the call that suspends or completes it.
	waitLease = 10 * time.Second
	// WaitsAtOnce bounds the waitpoint nodes of a partition that one call works on.
	WaitsAtOnce = 64
)

// storedWait is the wait of a waitpoint node, as package submit encodes it.
type storedWait struct {
	Condition json.RawMessage `json:"condition"`
	TimeoutMS int64           `json:"timeout"`
	OnTimeout string          `json:"timeout_behavior"`
	Collect   bool            `json:"collect"`
	Approval  bool            `json:"approval"`
}

// ServeWaits claims the waitpoint nodes of a partition that can continue: it suspends nodes whose wait has not begun,
// and completes nodes whose wait has ended. It returns the number of claimed nodes.
func (c *Steps) ServeWaits(ctx context.Context, p keyspace.Partition) (int64, error) {
	reply, err := c.Claim(ctx, enginerpc.ClaimCall{Partition: p, ClaimRequest: enginerpc.ClaimRequest{
		LaneID: link.WaitLane, WorkerID: "flowfabric-waits", WorkerInstanceID: c.waitWorker,
		ClaimID: uuid.NewString(), Count: WaitsAtOnce, LeaseTTL: waitLease,
		Kinds: enginerpc.KindSet([]string{link.WaitKind}),
	}})
	for i := range reply.Executions {
		if fault := c.serveWait(ctx, p, &reply.Executions[i]); fault != nil {
			err = errors.Join(err, &engine.ItemError{Item: string(reply.Executions[i].ExecutionID), Err: fault})
		}
	}
	return int64(len(reply.Executions)), err
}

// serveWait completes a claimed waitpoint node with the result of its wait, or else suspends it.
func (c *Steps) serveWait(ctx context.Context, p keyspace.Partition, x *enginerpc.ClaimedExecution) error {
	spec, err := c.waitSpec(ctx, x.ExecutionID)
	if err != nil {
		return err
	}
	result, err := c.WaitResult(ctx, x.ExecutionID, x.AttemptIndex, "", spec.Collect)
	if err != nil {
		return err
	}
	rejection, err := spec.rejection(result)
	if err != nil {
		return err
	}
	if rejection != "" {
		_, err = c.Fail(ctx, enginerpc.FailCall{
			Partition: p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch,
			AttemptID: x.AttemptID, AttemptIndex: x.AttemptIndex, Reason: rejection,
			Category: activityspec.CategoryRejected,
		})
		return err
	}
	if result != nil {
		_, err = c.Complete(ctx, enginerpc.CompleteCall{
			Partition: p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch,
			AttemptID: x.AttemptID, Result: nodeResult(result, spec.Collect),
			ClaimRequest: enginerpc.ClaimRequest{LaneID: link.WaitLane},
		})
		return err
	}
	call := enginerpc.SuspendCall{
		Partition: p, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch, AttemptID: x.AttemptID,
		SuspensionID: keyspace.SuspensionID(uuid.NewString()), Condition: spec.Condition,
		Timeout:         time.Duration(spec.TimeoutMS) * time.Millisecond,
		TimeoutBehavior: spec.OnTimeout, Collect: spec.Collect,
	}
	return c.Session.Secrets.With(ctx, p, func() error {
		_, err := c.suspend(ctx, call)
		return err
	})
}

// maxComment bounds the comment in the failure of a rejected approval, in bytes.
const maxComment = 1024

// rejection returns the failure of an approval that was rejected, by the journal entry of its wait; "" otherwise.
func (s *storedWait) rejection(entry []byte) (string, error) {
	if !s.Approval || len(entry) == 0 || entry[0] != markList {
		return "", nil
	}
	var signals []struct {
		Name    string          `json:"name"`
		Source  string          `json:"source"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(entry[1:], &signals); err != nil {
		return "", fmt.Errorf("signals of an approval: %w", err)
	}
	if len(signals) == 0 || signals[len(signals)-1].Name != activityspec.Reject {
		return "", nil
	}
	last := signals[len(signals)-1]
	text := "rejected by " + last.Source
	var decision struct {
		Comment string `json:"comment"`
	}
	if json.Unmarshal(last.Payload, &decision) == nil && decision.Comment != "" {
		text += ": " + recordtext.Text(decision.Comment, maxComment)
	}
	return text, nil
}

// nodeResult returns the result of a waitpoint node for the journal entry of its wait.
func nodeResult(entry []byte, collect bool) []byte {
	switch {
	case entry[0] != markTimedOut:
		return entry[1:]
	case collect:
		return []byte("[]")
	}
	return []byte("null")
}

// waitSpec reads the wait of a waitpoint node.
func (c *Steps) waitSpec(ctx context.Context, id enginecore.ExecutionID) (spec storedWait, err error) {
	results, err := c.Read(ctx, c.Client.B().Hget().Key(c.Keys.ExecTags(id)).Field(contractnode.TagWait).Build())
	if err != nil {
		return spec, err
	}
	text, err := results[0].AsBytes()
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	if err != nil {
		return spec, fmt.Errorf("wait of node %s: %w", id, err)
	}
	return spec, nil
}

// ServeSoon processes the waitpoint nodes of a partition after a step that may have made some of them eligible. Nodes
// for which that fails are left to keepers.
func (c *Steps) ServeSoon(ctx context.Context, p keyspace.Partition, lanes ...enginecore.LaneID) {
	for _, lane := range lanes {
		if lane != link.WaitLane {
			continue
		}
		if _, err := c.ServeWaits(context.WithoutCancel(ctx), p); err != nil {
			c.Logger.Debug("flowfabric: waitpoint nodes are left to keepers",
				observe.EventAttendFailed.Attr(), "error", err)
		}
		return
	}
}
