package execution

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	// minCandidates and maxCandidates bound the executions of one list that a claim reads at a time. It skips those
	// that the worker cannot run.
	minCandidates = 16
	maxCandidates = 128
	// searchPages bounds the further pages of a claim whose first page had too little for the worker. The next claim
	// continues after them.
	searchPages = 8
)

// A claim searches three lists: the eligible executions, the executions whose lease has expired, and the active ones,
// some of which have a revoked lease.
const claimLists = 3

// searchPlace is how far claims have searched the lists of a lane.
type searchPlace struct {
	list   int
	offset int64
}

// searchCursors records how far claims have searched which lanes, so that executions that a worker cannot run do not
// hide others for good. The zero value is empty; it is safe for concurrent use.
type searchCursors struct {
	mu sync.Mutex
	at map[laneOfPartition]searchPlace
}

type laneOfPartition struct {
	partition keyspace.Partition
	lane      enginecore.LaneID
}

func (s *searchCursors) get(l laneOfPartition) searchPlace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[l]
}

func (s *searchCursors) set(l laneOfPartition, at searchPlace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = make(map[laneOfPartition]searchPlace)
	}
	if s.at[l] = at; at == (searchPlace{}) {
		delete(s.at, l)
	}
}

// candidateSearch is the search of one claim.
type candidateSearch struct {
	*Steps
	request *enginerpc.ClaimRequest
	at      laneOfPartition
	size    int64 // of a page
	seen    map[enginecore.ExecutionID]bool
	found   []Candidate
	// unroutable are executions that need capabilities that the worker does not have.
	unroutable []Candidate
}

// candidates returns executions of a lane that the requesting worker can claim: the first ones that are eligible, then
// executions whose worker was lost. If executions that the worker cannot run hide others, it searches further, and
// blocks executions that no worker can run.
func (c *Steps) candidates(
	ctx context.Context, p keyspace.Partition, r *enginerpc.ClaimRequest,
) ([]Candidate, error) {
	s := &candidateSearch{
		Steps: c, request: r, at: laneOfPartition{p, r.LaneID},
		size: min(max(2*r.Count, minCandidates), maxCandidates), seen: make(map[enginecore.ExecutionID]bool),
	}
	lists, err := c.ReadEach(ctx, s.page(0, 0), s.page(1, 0), s.page(2, 0))
	if err != nil {
		return nil, err
	}
	var full [claimLists]bool
	for list := range claimLists {
		texts := link.IDsOf[string](lists[list])
		full[list] = int64(len(texts)) == s.size
		if list == 2 && s.isEnough() {
			break // executions whose lease was revoked wait until there are fewer others
		}
		if err := s.add(ctx, texts); err != nil {
			return nil, err
		}
	}
	if !s.isEnough() && (full[0] || full[1] || full[2]) {
		if err := s.further(ctx); err != nil {
			return nil, err
		}
		s.setAside(ctx)
	}
	return s.found, nil
}

func (s *candidateSearch) isEnough() bool { return int64(len(s.found)) >= s.request.Count }

// page returns the command that reads a page of a list.
func (s *candidateSearch) page(list int, offset int64) rueidis.Completed {
	p, b := s.at.partition, s.Client.B()
	first, last := engine.Decimal(offset), engine.Decimal(offset+s.size-1)
	switch list {
	case 0:
		return b.Zrange().Key(s.Keys.LaneEligible(p, s.at.lane)).Min(first).Max(last).Build()
	case 1:
		return b.Zrangebyscore().Key(s.Keys.IndexLeaseExpiry(p)).Min("-inf").
			Max(engine.Decimal(s.Now().UnixMilli())).Limit(offset, s.size).Build()
	}
	return b.Zrange().Key(s.Keys.LaneActive(p, s.at.lane)).Min(first).Max(last).Build()
}

// further continues where the last claim ended, until it has enough, has read searchPages pages or has reached the end
// of all lists.
func (s *candidateSearch) further(ctx context.Context) error {
	s.size = maxCandidates
	place := s.searched.get(s.at)
	for range searchPages {
		results, err := s.ReadEach(ctx, s.page(place.list, place.offset))
		if err != nil {
			return err
		}
		texts := link.IDsOf[string](results[0])
		if err := s.add(ctx, texts); err != nil {
			return err
		}
		place.offset += s.size
		if int64(len(texts)) < s.size {
			place = searchPlace{list: (place.list + 1) % claimLists}
		}
		if s.isEnough() || place == (searchPlace{}) {
			break
		}
	}
	s.searched.set(s.at, place)
	return nil
}

// add reads executions and adds those that the worker can claim.
func (s *candidateSearch) add(ctx context.Context, texts []string) error {
	var ids []enginecore.ExecutionID
	for _, id := range engine.ExecutionIDs(texts) {
		if p, err := keyspace.PartitionOf(id); err == nil && p == s.at.partition && !s.seen[id] {
			s.seen[id] = true
			ids = append(ids, id)
		}
	}
	ids, cores, err := s.Readable(ctx, ids, engine.ClaimFields)
	if retry.IsUnavailable(err) {
		return err
	}
	for i, id := range ids {
		x := Candidate{id: id, core: cores[i]}
		switch {
		case x.suits(s.request):
			s.found = append(s.found, x)
		case x.isEligible() && x.core.Lane() == s.request.LaneID && !x.isRoutable(s.request.Capabilities):
			s.unroutable = append(s.unroutable, x)
		}
	}
	return nil
}

// setAside blocks the executions that need capabilities that no worker offers, until one does. An execution that could
// not be blocked remains eligible: another claim reads it again.
func (s *candidateSearch) setAside(ctx context.Context) {
	if len(s.unroutable) == 0 {
		return
	}
	offered, err := s.advertised(ctx)
	if err != nil {
		return
	}
	var calls []enginerpc.BlockExecutionForAdmissionCall
	for _, x := range s.unroutable {
		if !x.isRoutable(offered) {
			calls = append(calls, enginerpc.BlockExecutionForAdmissionCall{
				LaneID: s.request.LaneID, ExecutionID: x.id, BlockingReason: ReasonRoute,
				BlockingDetail: "no connected worker satisfies required_capabilities", Now: s.Now(),
			})
		}
	}
	link.Send[enginerpc.BlockExecutionForAdmissionReply](ctx, s.Link, calls)
}

// advertised returns the capabilities of all workers of the contract, separated by commas.
func (c *Steps) advertised(ctx context.Context) (string, error) {
	results, err := c.Read(ctx, c.Client.B().Smembers().Key(c.Keys.Workers()).Build())
	if err != nil {
		return "", err
	}
	workers := link.IDsOf[enginecore.WorkerInstanceID](results[0])
	var all []string
	for page := range slices.Chunk(workers, link.Page) {
		commands := make(rueidis.Commands, len(page))
		for i, worker := range page {
			commands[i] = c.Client.B().Get().Key(c.Keys.WorkerCapabilities(worker)).Build()
		}
		if results, err = c.Read(ctx, commands...); err != nil {
			return "", err
		}
		for _, result := range results {
			if text, err := result.ToString(); err == nil && text != "" {
				all = append(all, text)
			}
		}
	}
	return strings.Join(all, ","), nil
}

// Claimable returns the key of the lane's index of eligible executions.
func (c *Steps) Claimable(p keyspace.Partition, lane enginecore.LaneID) []string {
	return []string{c.Keys.LaneEligible(p, lane)}
}
