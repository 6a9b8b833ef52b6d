package limits

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/catalogue"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// List returns the limits of the session's namespace that were used or set, or that published flows declare, sorted by
// name and key.
func List(ctx context.Context, s *engine.Session) ([]fabrictype.Limit, error) {
	var list []fabrictype.Limit
	for i := range s.Core.Partitioning().Quota {
		call := enginerpc.QuotasCall{Partition: keyspace.Partition{Family: keyspace.QuotaFamily, Index: uint16(i)}}
		for {
			reply, err := s.Core.Quotas(ctx, call)
			if err != nil {
				return nil, err
			}
			for _, q := range reply.Quotas {
				if q.Name != "" && q.QuotaPolicyID != keyspace.QuotaIDFor(s.Namespace, q.Name, q.Key) {
					continue
				}
				list = append(list, read(q))
			}
			if call.Cursor = reply.NextCursor; call.Cursor == "" {
				break
			}
		}
	}
	declared, err := catalogue.Limits(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		if l.Key == "" {
			delete(declared, l.Name)
		}
	}
	list = slices.AppendSeq(list, maps.Values(declared))
	slices.SortFunc(list, func(a, b fabrictype.Limit) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	// A listing in pages may show one twice.
	return slices.CompactFunc(list, func(a, b fabrictype.Limit) bool { return a.Name == b.Name && a.Key == b.Key }), nil
}

func read(q enginerpc.QuotaState) fabrictype.Limit {
	return fabrictype.Limit{
		Name: q.Name, Key: q.Key, AtMost: int(q.Rate),
		Per:    fabrictype.Duration{Duration: time.Duration(q.WindowMs) * time.Millisecond},
		AtOnce: int(q.Cap), Set: q.Pinned, Running: int(q.Running), Started: int(q.InWindow), Waiting: int(q.Waiting),
	}
}

// Limit identifies a limit of a namespace, and knows where the engine keeps it.
type Limit struct {
	session   *engine.Session
	name, key string
	id        enginecore.QuotaPolicyID
	partition keyspace.Partition
}

// Find returns a limit of the session's namespace. It sends nothing, and the limit need not be in use.
func Find(s *engine.Session, name, key string) (Limit, error) {
	id := keyspace.QuotaIDFor(s.Namespace, name, key)
	partition, err := s.Core.Partitioning().QuotaPartition(id)
	return Limit{session: s, name: name, key: key, id: id, partition: partition}, err
}

// Describe returns the state of the limit. One that was neither used nor set has the numbers that published flows
// declare. The error wraps [engine.ErrLimitNotFound].
func (l Limit) Describe(ctx context.Context) (fabrictype.Limit, error) {
	reply, err := l.session.Core.QuotaState(ctx,
		enginerpc.QuotaStateCall{Partition: l.partition, QuotaPolicyID: l.id})
	if err != nil {
		return fabrictype.Limit{}, err
	}
	if len(reply.Quotas) == 0 {
		return l.declared(ctx)
	}
	state := read(reply.Quotas[0])
	state.Name, state.Key = l.name, l.key
	return state, nil
}

func (l Limit) declared(ctx context.Context) (fabrictype.Limit, error) {
	all, err := catalogue.Limits(ctx, l.session)
	if err != nil {
		return fabrictype.Limit{}, err
	}
	if state, found := all[l.name]; found && l.key == "" {
		return state, nil
	}
	return fabrictype.Limit{}, engine.ErrLimitNotFound
}

// Set replaces the limit that flows declare. Unless old is nil, it refuses a limit with other settings than these, with
// an error that wraps [enginecore.ErrChangedMeanwhile].
func (l Limit) Set(ctx context.Context, spec activityspec.Limit, old *fabrictype.Limit) error {
	call := l.call()
	call.Pin, call.Rate, call.WindowMs = true, int64(spec.AtMost), spec.Per.Milliseconds()
	call.Cap = int64(spec.AtOnce)
	if old != nil {
		call.Compare, call.OldRate, call.OldWindowMs = true, int64(old.AtMost), old.Per.Milliseconds()
		call.OldCap, call.OldPinned = int64(old.AtOnce), old.Set
	}
	_, err := l.session.Core.SetQuota(ctx, call)
	return err
}

// Reset undoes Set: the limit that flows declare applies again.
func (l Limit) Reset(ctx context.Context) error {
	_, err := l.session.Core.SetQuota(ctx, l.call())
	return err
}

func (l Limit) call() enginerpc.SetQuotaCall {
	return enginerpc.SetQuotaCall{Partition: l.partition, QuotaPolicyID: l.id, Name: l.name, Key: l.key}
}

// EntryOfSet is the entry of the audit log for the call of Set.
func (l Limit) EntryOfSet(actor string, spec activityspec.Limit) fabrictype.AuditEntry {
	e := l.entry(actor, auditlink.SetLimit)
	e.Detail = fmt.Sprintf("at most %d per %s, %d at once; 0 is no bound", spec.AtMost, spec.Per, spec.AtOnce)
	return e
}

// EntryOfReset is the entry of the audit log for the call of Reset.
func (l Limit) EntryOfReset(actor string) fabrictype.AuditEntry {
	return l.entry(actor, auditlink.ResetLimit)
}

func (l Limit) entry(actor string, action string) fabrictype.AuditEntry {
	name := l.name
	if l.key != "" {
		name += "/" + l.key
	}
	return fabrictype.AuditEntry{Actor: actor, Action: action, Name: name}
}
