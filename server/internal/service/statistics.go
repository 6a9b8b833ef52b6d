package service

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// statisticsNodes is about how many nodes of runs are read for one request.
const statisticsNodes = 10_000

// GetFlowStatistics implements httpapi.GetFlowStatistics.
func (s *Service) GetFlowStatistics(ctx context.Context, in *httpapi.FlowStatisticsInput) (*api.FlowStatistics, error) {
	t := tally{nodes: map[string]*nodeTally{}, versions: map[string]*versionTally{}}
	values := url.Values{"flow": {in.Flow}}
	for name, value := range map[string]string{"search": in.Search, "search_at": in.SearchAt} {
		if value != "" {
			values.Set(name, value)
		}
	}
	var q runtime.RunQuery
	if err := q.ReadValues(values); err != nil {
		return nil, err
	}
	page, err := s.client.ListRuns(ctx, q, "", in.Runs)
	if err != nil {
		return nil, err
	}
	out := &api.FlowStatistics{Nodes: []api.NodeStatistics{}, Versions: []api.VersionRuns{}, More: page.Next != ""}
	for _, r := range page.Items {
		if t.read >= statisticsNodes {
			out.More = true
			break
		}
		err := s.addRun(ctx, &t, r)
		if errors.Is(err, engine.ErrRunNotFound) || errors.Is(err, enginecore.ErrFlowNotFound) {
			continue // it was purged in the meantime
		} else if err != nil {
			return nil, err
		}
		out.Runs, out.Since = out.Runs+1, r.CreatedAt
	}
	for _, name := range t.order {
		out.Nodes = append(out.Nodes, t.nodes[name].statistics(name))
	}
	sortNodes(out.Nodes, in.Sort)
	for _, hash := range t.hashes {
		out.Versions = append(out.Versions, t.versions[hash].counts())
	}
	return out, nil
}

// sortNodes orders nodes by a measure, the greatest first; nodes with the same are as the flow has them.
func sortNodes(nodes []api.NodeStatistics, by string) {
	measure := func(n api.NodeStatistics) int64 { return int64(n.Failed) }
	switch by {
	case "failures":
	case "median":
		measure = func(n api.NodeStatistics) int64 { return int64(n.Median.Duration) }
	case "p95":
		measure = func(n api.NodeStatistics) int64 { return int64(n.P95.Duration) }
	default:
		return
	}
	slices.SortStableFunc(nodes, func(a, b api.NodeStatistics) int { return cmp.Compare(measure(b), measure(a)) })
}

// tally adds up the data of runs about the nodes and versions of their flow.
type tally struct {
	read     int
	order    []string
	nodes    map[string]*nodeTally
	hashes   []string
	versions map[string]*versionTally
}

// versionTally are the runs of a version, the newest first.
type versionTally struct {
	hash         string
	open, closed []fabrictype.Run
}

type nodeTally struct {
	api.NodeStatistics
	took []time.Duration
}

func (s *Service) addRun(ctx context.Context, t *tally, r fabrictype.Run) error {
	d, err := s.describe(ctx, s.client.Run(r.Flow, r.Run), runtime.DescribeOptions{Nodes: describe.MaxPage})
	if err != nil {
		return err
	}
	info, err := s.admin.Flow(ctx, enginecore.FlowID(d.FlowID))
	if err != nil {
		return err
	}
	v := t.versions[info.GraphHash]
	if v == nil {
		v = &versionTally{hash: info.GraphHash}
		t.versions[info.GraphHash] = v
		t.hashes = append(t.hashes, info.GraphHash)
	}
	if d.ClosedAt.IsZero() {
		v.open = append(v.open, r)
	} else {
		v.closed = append(v.closed, r)
	}
	t.read += len(d.Nodes)
	for i := range d.Nodes {
		t.add(&d.Nodes[i])
	}
	return nil
}

func (t *tally) add(n *fabrictype.Node) {
	of := t.nodes[n.Name]
	if of == nil {
		of = &nodeTally{}
		t.nodes[n.Name] = of
		t.order = append(t.order, n.Name)
	}
	switch n.State {
	case fabrictype.NodeSkipped:
		of.Skipped++
		return
	case fabrictype.NodeFailed, fabrictype.NodeExpired:
		of.Failed++
	case fabrictype.NodeSucceeded:
	default:
		return
	}
	of.Ended++
	if n.Retries > 0 || n.Reclaims > 0 {
		of.Retried++
	}
	if !n.StartedAt.IsZero() && n.CompletedAt.After(n.StartedAt) {
		of.took = append(of.took, n.CompletedAt.Sub(n.StartedAt))
	}
}

// versionLatest is how many runs of a version are named.
const versionLatest = 10

func (v *versionTally) counts() api.VersionRuns {
	all := slices.Concat(v.open, v.closed)
	out := api.VersionRuns{
		Hash: v.hash, Runs: len(all), Open: len(v.open), Latest: all[:min(len(all), versionLatest)],
	}
	for _, r := range all {
		if r.CreatedAt.After(out.Last) {
			out.Last = r.CreatedAt
		}
	}
	return out
}

func (n *nodeTally) statistics(name string) api.NodeStatistics {
	out := n.NodeStatistics
	out.Node = name
	if len(n.took) > 0 {
		slices.Sort(n.took)
		out.Median.Duration, out.Slowest.Duration = n.took[len(n.took)/2], n.took[len(n.took)-1]
		out.P95.Duration = n.took[(len(n.took)*95+99)/100-1]
	}
	return out
}
