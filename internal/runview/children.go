package runview

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// listConcurrency bounds how many partitions are queried at a time.
const listConcurrency = 16

// nameChildren adds the states of child runs, and the activities of the items of maps.
func (r *Reader) nameChildren(ctx context.Context, d *Description) error {
	var asking errgroup.Group
	asking.SetLimit(listConcurrency)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		switch n.Activity {
		case submit.MapKind, submit.SubKind:
			n.Activity = ""
			if spec := d.Node(n.Name); spec != nil {
				n.Activity = spec.Activity
			}
		}
		if n.Child != nil {
			asking.Go(func() error { return r.describeChild(ctx, n.Child) })
		}
	}
	return asking.Wait()
}

// firstCursor reads a page of a run from the first node on, without its definition.
const firstCursor = "0"

func (r *Reader) describeChild(ctx context.Context, child *fabrictype.ChildRun) error {
	p, err := r.Session.Core.FlowPartition(enginecore.FlowID(child.FlowID))
	if err != nil {
		return err
	}
	reply, err := r.Session.Backend.DescribeFlow(ctx,
		enginerpc.DescribeFlowCall{
			Partition: p, FlowID: enginecore.FlowID(child.FlowID), Cursor: firstCursor, Limit: 1,
		})
	if errors.Is(err, enginecore.ErrFlowNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	child.Flow, child.Run, child.State = reply.FlowName, reply.RunID, recordstate.RunState(reply.State, reply.Outcome)
	child.Total, child.Open = int(reply.NodeCount), int(reply.OpenNodes)
	child.Failed, child.Expired = int(reply.NodesFailed), int(reply.NodesExpired)
	child.Cancelled, child.Skipped = int(reply.NodesCancelled), int(reply.NodesSkipped)
	child.Succeeded = child.Total - child.Open - child.Failed - child.Expired - child.Cancelled - child.Skipped
	return nil
}
