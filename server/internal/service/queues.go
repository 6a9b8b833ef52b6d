package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/queueread"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// GetLaneQueue implements httpapi.GetLaneQueue.
func (s *Service) GetLaneQueue(ctx context.Context, in *httpapi.LaneQueueInput) (*api.LaneQueue, error) {
	queues, err := s.queues.LaneQueues(ctx, enginecore.LaneID(in.Lane), in.Places)
	if err != nil {
		return nil, err
	}
	out := &api.LaneQueue{Lane: in.Lane, Partitions: []api.PartitionQueue{}}
	keys := login.From(ctx).May(api.ReadPayloads) // they are values of inputs
	for i := range queues {
		q := &queues[i]
		part := api.PartitionQueue{
			Partition: q.Partition, Waiting: q.Waiting, Paused: q.Paused, Next: make([]api.QueuedPlace, len(q.Next)),
		}
		for _, t := range q.Turns {
			if !keys {
				break
			}
			part.Turns = append(part.Turns, api.LaneTurn{Key: t.Key, Waiting: t.Waiting})
		}
		for k, n := range q.Next {
			part.Next[k] = api.QueuedPlace{
				NodeOfRun: s.nodeOfRun(n.ID, n.RunOf), Rule: string(n.Rule), Priority: n.Priority, Since: n.Since,
			}
			if keys {
				part.Next[k].Key = n.Key
			}
		}
		out.Waiting += q.Waiting
		out.Partitions = append(out.Partitions, part)
	}
	return out, nil
}

// nodeOfRun names an execution. Runs of other namespaces are not to be seen here.
func (s *Service) nodeOfRun(id enginecore.ExecutionID, of queueread.RunOf) api.NodeOfRun {
	out := api.NodeOfRun{Execution: string(id)}
	if of.Namespace != s.info.Namespace {
		return out
	}
	out.Flow, out.Run, out.Node, out.Activity = of.Flow, of.Run, of.Node, of.Activity
	return out
}

// GetLimitUse implements httpapi.GetLimitUse.
func (s *Service) GetLimitUse(ctx context.Context, in *httpapi.LimitUseInput) (*api.LimitUse, error) {
	if _, err := s.client.Limit(in.Limit, in.Key).Describe(ctx); err != nil {
		return nil, err
	}
	id := keyspace.QuotaIDFor(keyspace.Namespace(s.info.Namespace), in.Limit, in.Key)
	use, err := s.queues.LimitUse(ctx, id, in.Most)
	if err != nil {
		return nil, err
	}
	out := &api.LimitUse{
		Holding: use.Holding, Waiting: use.Waiting, Holders: s.placesOf(use.Holders), Queue: s.placesOf(use.Queue),
	}
	for _, p := range use.Pools {
		out.Pools = append(out.Pools, api.PlacePool{Worker: string(p.Worker), Places: p.Places, Since: p.Since})
	}
	return out, nil
}

// GetBudgetUse implements httpapi.GetBudgetUse.
func (s *Service) GetBudgetUse(ctx context.Context, in *httpapi.BudgetUseInput) (*api.BudgetUse, error) {
	ref := budgetRef(&in.BudgetInput)
	if _, err := s.client.Budget(ref).Describe(ctx); err != nil {
		return nil, err
	}
	use, err := s.queues.BudgetUse(ctx, submit.BudgetID(keyspace.Namespace(s.info.Namespace), ref), in.Most)
	if err != nil {
		return nil, err
	}
	out := &api.BudgetUse{
		Reserving: use.Reserving, Waiting: use.Waiting, Queue: s.placesOf(use.Queue),
		Reserved: make([]api.Reservation, len(use.Reserved)),
	}
	for i, r := range use.Reserved {
		out.Reserved[i] = api.Reservation{
			NodeOfRun: s.nodeOfRun(r.ID, r.RunOf), Dimension: r.Dimension, Amount: r.Amount,
		}
	}
	return out, nil
}

func (s *Service) placesOf(list []queueread.PlaceHolder) []api.PlaceUse {
	out := make([]api.PlaceUse, len(list))
	for i, p := range list {
		out[i] = api.PlaceUse{NodeOfRun: s.nodeOfRun(p.ID, p.RunOf), Since: p.Since, Priority: p.Priority}
	}
	return out
}
