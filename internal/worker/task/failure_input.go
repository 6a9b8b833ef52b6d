package task

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/child"
)

// addFailures adds the failures that an input takes to results. Inputs without failures cost no call.
func (t *Task) addFailures(ctx context.Context, input flowgraph.Expr, results map[string][]byte) error {
	for _, e := range input.Failures() {
		var first *submit.NodeFailure
		err := t.RetryUntilKnown(ctx, func() (err error) {
			first, err = submit.ReadFailureOf(ctx, t.Run.Session, t.Shard.Partition, t.Claimed.FlowID, e.Nodes)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the failure that node %s takes: %w", t.Claimed.Node, err)
		}
		if first == nil {
			continue
		}
		value, err := json.Marshal(flow.Failure{
			Node: first.Node, Outcome: fabrictype.Outcome(first.Outcome),
			Category: first.Category, Reason: first.Reason,
			Details: child.DetailsOf(first.Details), MayStillRun: first.Unreleased,
		})
		if err != nil {
			return fmt.Errorf("the failure that node %s takes: %w", t.Claimed.Node, err)
		}
		results[e.FailureKey()] = value
	}
	return nil
}
