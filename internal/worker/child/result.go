package child

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errordetail"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
)

// skippedOutcome is the outcome of an execution that was skipped.
const skippedOutcome = string(fabrictype.OutcomeSkipped)

// zeroResult returns the result of a node whose flow returns none: the encoded zero value of its type. Codecs other
// than JSON get no bytes, which is the zero value of a message, a text and a list of bytes.
func (c *childRun) zeroResult() ([]byte, error) {
	codec := flowgraph.StoredCodec
	if c.planned == nil {
		_, node, err := c.declared()
		if err != nil {
			return nil, err
		}
		codec = node.Sub.Codec
	}
	if codec == flowgraph.StoredCodec {
		return []byte("null"), nil
	}
	return []byte{}, nil
}

// childFailure is the failure of a node whose child run did not succeed. The node lists the id of the child run, so
// the text of a failed run only names the node in it. The reason of a failed item is the reason of the node in its
// run, as the reason of a failed item of an activity is the reason of its function.
type childFailure struct {
	*submit.RunFailure
	ofItem bool
}

// Error describes the failure.
func (f *childFailure) Error() string {
	switch {
	case f.Outcome != "failed" || f.Node == "" || f.Reason == "":
		return f.RunFailure.Error()
	case f.ofItem:
		return f.Reason
	}
	return submit.NodeFailureText(f.Node, f.Reason, f.Others())
}

// Unwrap returns the failure of the run.
func (f *childFailure) Unwrap() error { return f.RunFailure }

// isItem reports whether the node is an item of a map of a flow.
func (c *childRun) isItem() bool {
	graph, node, err := c.declared()
	return err == nil && graph.Return == "" && node.Map == nil && node.Input.Kind == flowgraph.ExprConst &&
		itemName.MatchString(node.Name)
}

// itemName is the form of flowgraph.ItemName.
var itemName = regexp.MustCompile(`^item-\d+$`)

// collect joins the results of the items to a JSON list, in the order of the items.
func (c *childRun) collect(ctx context.Context) ([]byte, error) {
	list := []byte{'['}
	for next := 0; next < len(c.items); {
		ids := submit.ItemIDs(c.part, c.id, next, min(len(c.items), next+submit.ResultsPerCall))
		var reply enginerpc.ReadResultsReply
		err := c.retryUntilKnown(ctx, func() (err error) {
			reply, err = c.core.ReadResults(ctx, enginerpc.ReadResultsCall{Partition: c.part, Executions: ids})
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(reply.Executions) == 0 {
			return nil, fmt.Errorf("results of run %s of flow %s: the engine gave none of %d", c.runID, c.name,
				len(ids))
		}
		for _, ended := range reply.Executions {
			if list, err = c.appendResult(list, next, ended); err != nil {
				return nil, err
			}
			next++
		}
	}
	return append(list, ']'), nil
}

// appendResult appends the result or outcome of one item to the list. It fails if the list exceeds
// submit.MaxResult.
func (c *childRun) appendResult(list []byte, index int, ended enginerpc.ItemState) ([]byte, error) {
	switch {
	case ended.State == "", ended.Outcome == "none":
		return nil, errChildLost
	case ended.Outcome == skippedOutcome && !c.node.Spec.Outcomes:
		return list, nil // the list has the results that there are
	case c.node.Spec.Outcomes:
		item := flow.ItemOutcome[json.RawMessage]{Outcome: fabrictype.Outcome(ended.Outcome)}
		item.Reason, item.Category = engine.PlainFailure(ended.Reason, ended.Category)
		if ended.Outcome == "success" {
			item.Value = ended.Result
		} else if ended.Outcome != "cancelled" {
			item.Details = DetailsOf(engine.StoredDetails(ended.Details, ended.Reason))
		}
		data, err := activity.JSON{}.Encode(item)
		if err != nil {
			return nil, completion.Undecodable(fmt.Errorf("result of item %d: %w", index, err))
		}
		list = append(separated(list), data...)
	case ended.Outcome != "success":
		return nil, fmt.Errorf("run %s of flow %s: %s is %s", c.runID, c.name, flowgraph.ItemName(index), ended.Outcome)
	default:
		list = append(separated(list), ended.Result...)
	}
	if len(list) >= submit.MaxResult {
		return nil, completion.Final(engine.CategoryTooLarge, "%w: the results of the first %d of %d items of node %s "+
			"have %d bytes, at most %d are allowed", engine.ErrTooLarge, index+1, len(c.items), c.Claimed.Node, len(list),
			submit.MaxResult)
	}
	return list, nil
}

// separated returns a JSON list that is being written with the separator before its next element.
func separated(list []byte) []byte {
	if len(list) > 1 {
		return append(list, ',')
	}
	return list
}

// DetailsOf converts details of a failure for users' functions; nil for none.
func DetailsOf(list []errordetail.Detail) []activity.ErrorDetail {
	if len(list) == 0 {
		return nil
	}
	details := make([]activity.ErrorDetail, len(list))
	for i, d := range list {
		details[i] = activity.ErrorDetail(d)
	}
	return details
}
