package runsearch

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// askedAtOnce bounds how many partitions Latest queries at a time.
const askedAtOnce = 16

// Latest returns the latest runs of a flow, at most limit, if the engine has no lists of runs: it reads all flows of
// all partitions. The error joins the errors of partitions, whose runs are missing then.
func Latest(ctx context.Context, s *engine.Session, flowName string, limit int) ([]fabrictype.Run, error) {
	partitions := s.Partitions()
	pages := make([][]enginerpc.Run, len(partitions))
	faults := make([]error, len(partitions))
	var asking errgroup.Group
	asking.SetLimit(askedAtOnce)
	for i, p := range partitions {
		asking.Go(func() error {
			reply, err := s.Backend.ListRuns(ctx, enginerpc.ListRunsCall{
				Partition: p, FlowName: flowName, Children: true, Limit: int64(limit), Namespace: string(s.Namespace),
			})
			pages[i], faults[i] = reply.Runs, err
			return nil
		})
	}
	_ = asking.Wait() // the faults are gathered one by one
	runs := slices.Concat(pages...)
	slices.SortFunc(runs, func(a, b enginerpc.Run) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.FlowID, b.FlowID))
	})
	return summarizeAll(runs[:min(limit, len(runs))]), enginerpc.JoinSame("partitions", faults)
}
