package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/errordetail"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// addFailures adds the failures that an input takes to results. Inputs without failures cost no call.
func (t *Task) addFailures(ctx context.Context, input flowgraph.Expr, results map[string][]byte) error {
	for _, e := range input.Failures() {
		var first *submit.NodeFailure
		err := t.retryUntilKnown(ctx, func() (err error) {
			first, err = submit.ReadFailureOf(ctx, t.run.session, t.shard.Partition, t.claimed.FlowID, e.Nodes)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the failure that node %s takes: %w", t.claimed.Node, err)
		}
		if first == nil {
			continue
		}
		value, err := json.Marshal(flow.Failure{
			Node: first.Node, Outcome: flow.Outcome(first.Outcome), Category: first.Category, Reason: first.Reason,
			Details: detailsOf(first.Details), MayStillRun: first.Unreleased,
		})
		if err != nil {
			return fmt.Errorf("the failure that node %s takes: %w", t.claimed.Node, err)
		}
		results[e.FailureKey()] = value
	}
	return nil
}

// detailsOf converts details of a failure for users' functions; nil for none.
func detailsOf(list []errordetail.Detail) []activity.ErrorDetail {
	if len(list) == 0 {
		return nil
	}
	details := make([]activity.ErrorDetail, len(list))
	for i, d := range list {
		details[i] = activity.ErrorDetail(d)
	}
	return details
}
