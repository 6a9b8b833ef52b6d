package service

import (
	"context"
	"slices"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// CountRuns implements httpapi.CountRuns.
func (s *Service) CountRuns(ctx context.Context, in *httpapi.CountRunsInput) (
	*fabrictype.Page[fabrictype.RunCount], error,
) {
	var q runtime.RunQuery
	err := q.ReadValues(in.Query, "by")
	if err != nil {
		return nil, err
	}
	who := login.From(ctx)
	by, byFlow := in.By, slices.Contains(in.By, "flow")
	if who.Restricted() && !byFlow {
		by = append(slices.Clone(by), "flow")
	}
	counts, err := s.client.Counts(ctx, q, by...)
	if err != nil {
		return nil, err
	}
	return sumCounts(who, counts, byFlow), nil
}

// sumCounts leaves out the flows that the caller may not see, and adds up the counts of all flows unless byFlow is
// set.
func sumCounts(who login.Principal, counts []fabrictype.RunCount, byFlow bool) *fabrictype.Page[fabrictype.RunCount] {
	out := &fabrictype.Page[fabrictype.RunCount]{Items: []fabrictype.RunCount{}}
	places := map[fabrictype.RunCount]int{}
	for _, c := range counts {
		if c.Flow != "" && !who.Sees(c.Flow) {
			continue
		}
		group := fabrictype.RunCount{State: c.State, Hour: c.Hour}
		if byFlow {
			group.Flow = c.Flow
		}
		at, ok := places[group]
		if !ok {
			at = len(out.Items)
			places[group] = at
			out.Items = append(out.Items, group)
		}
		out.Items[at].Runs += c.Runs
		out.Items[at].Ends += c.Ends
	}
	return out
}
