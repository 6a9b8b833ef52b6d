package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Limits returns the state of the limits of the client's namespace that are in use or were set, sorted by name and key.
func (c *Client) Limits(ctx context.Context) ([]fabrictype.Limit, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	var list []fabrictype.Limit
	for i := range c.session.Core.Partitioning().Quota {
		call := enginerpc.QuotasCall{Partition: keyspace.Partition{Family: keyspace.QuotaFamily, Index: uint16(i)}}
		for {
			reply, err := c.session.Core.Quotas(ctx, call)
			if err != nil {
				return nil, fmt.Errorf("list limits: %w", err)
			}
			for _, q := range reply.Quotas {
				if q.Name != "" && q.QuotaPolicyID != keyspace.QuotaIDFor(c.session.Namespace, q.Name, q.Key) {
					continue
				}
				list = append(list, limitState(q))
			}
			if call.Cursor = reply.NextCursor; call.Cursor == "" {
				break
			}
		}
	}
	slices.SortFunc(list, func(a, b fabrictype.Limit) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	// A listing in pages may show one twice.
	return slices.CompactFunc(list, func(a, b fabrictype.Limit) bool { return a.Name == b.Name && a.Key == b.Key }), nil
}

func limitState(q enginerpc.QuotaState) fabrictype.Limit {
	return fabrictype.Limit{
		Name: q.Name, Key: q.Key, AtMost: int(q.Rate),
		Per:    fabrictype.Duration{Duration: time.Duration(q.WindowMs) * time.Millisecond},
		AtOnce: int(q.Cap), Set: q.Pinned, Running: int(q.Running), Started: int(q.InWindow), Waiting: int(q.Waiting),
	}
}

// LimitRef refers to one limit by its name and key. Client.Limit returns one. It holds no state of the limit: each call
// queries the engine, in the namespace of the client. It is safe for concurrent use, as long as its client is open.
//
// The error of every call wraps ErrInvalid for a name that no limit can have.
type LimitRef struct {
	client    *Client
	name, key string
}

// Limit returns a reference to a limit; the key is empty for a limit without KeyFrom. It sends nothing, and the limit
// need not be in use.
func (c *Client) Limit(name, key string) *LimitRef { return &LimitRef{client: c, name: name, key: key} }

// Describe returns the state of the limit. The error matches ErrNotFound if no node has used the limit and it was
// not set.
func (l *LimitRef) Describe(ctx context.Context) (fabrictype.Limit, error) {
	if err := l.client.ready(ctx); err != nil {
		return fabrictype.Limit{}, err
	}
	if err := activityspec.CheckName(l.name); err != nil {
		return fabrictype.Limit{}, invalid("limit: %w", err)
	}
	id := keyspace.QuotaIDFor(l.client.session.Namespace, l.name, l.key)
	partition, err := l.client.session.Core.Partitioning().QuotaPartition(id)
	if err != nil {
		return fabrictype.Limit{}, err
	}
	call := enginerpc.QuotaStateCall{Partition: partition, QuotaPolicyID: id}
	reply, err := l.client.session.Core.QuotaState(ctx, call)
	if err == nil && len(reply.Quotas) == 0 {
		err = engine.ErrLimitNotFound
	}
	if err != nil {
		return fabrictype.Limit{}, fmt.Errorf("limit %q of %q: %w", l.name, l.key, err)
	}
	state := limitState(reply.Quotas[0])
	state.Name, state.Key = l.name, l.key
	return state, nil
}

// Set replaces the limit that flows declare, for all nodes that have it, including waiting ones. Nodes that wait start
// at once if the new values allow it; running ones continue. Reset undoes it.
func (l *LimitRef) Set(ctx context.Context, config activity.LimitConfig) error {
	return l.change(ctx, nil, config)
}

// Replace is Set unless the limit has been changed since Describe returned old: comparing AtMost, Per, AtOnce and Set
// and setting the limit are one atomic step of the engine. If they differ, the error matches
// enginecore.ErrChangedMeanwhile and nothing was changed.
func (l *LimitRef) Replace(ctx context.Context, old fabrictype.Limit, config activity.LimitConfig) error {
	return l.change(ctx, &old, config)
}

// change sets the limit: if old is not nil, only as long as the limit is as old.
func (l *LimitRef) change(ctx context.Context, old *fabrictype.Limit, config activity.LimitConfig) error {
	spec := activityspec.NewLimit(l.name, activityspec.LimitConfig(config))
	err := spec.Validate()
	if len(spec.KeyFrom) > 0 {
		err = errors.Join(err, fmt.Errorf("limit %q: KeyFrom(%s): must not be set here: it is set for the key %q",
			l.name, strings.Join(spec.KeyFrom, "."), l.key))
	}
	if err != nil {
		return invalid("set limit: %w", err)
	}
	call := enginerpc.SetQuotaCall{Pin: true}
	if old != nil {
		call.Compare, call.OldRate, call.OldWindowMs = true, int64(old.AtMost), old.Per.Milliseconds()
		call.OldCap, call.OldPinned = int64(old.AtOnce), old.Set
	}
	return l.set(ctx, spec, call)
}

// Reset undoes Set: the limit that flows declare applies again, from the next start of a node on. Resetting a limit
// that is not set is not an error.
func (l *LimitRef) Reset(ctx context.Context) error {
	if err := activityspec.CheckName(l.name); err != nil {
		return invalid("reset limit: %w", err)
	}
	return l.set(ctx, activityspec.Limit{Name: l.name}, enginerpc.SetQuotaCall{})
}

// set completes the call by the limit, and makes it.
func (l *LimitRef) set(ctx context.Context, spec activityspec.Limit, call enginerpc.SetQuotaCall) error {
	c, key := l.client, l.key
	if err := c.ready(ctx); err != nil {
		return err
	}
	id := keyspace.QuotaIDFor(c.session.Namespace, spec.Name, key)
	partition, err := c.session.Core.Partitioning().QuotaPartition(id)
	if err != nil {
		return err
	}
	call.Partition, call.QuotaPolicyID, call.Name, call.Key = partition, id, spec.Name, key
	call.Rate, call.WindowMs, call.Cap = int64(spec.AtMost), spec.Per.Milliseconds(), int64(spec.AtOnce)
	entry := fabrictype.AuditEntry{
		Actor: c.actorName(), Action: auditlink.SetLimit, Name: limitName(spec.Name, key),
		Detail: fmt.Sprintf("at most %d per %s, %d at once; 0 is no bound", spec.AtMost, spec.Per, spec.AtOnce),
	}
	if !call.Pin {
		entry.Action, entry.Detail = auditlink.ResetLimit, ""
	}
	err = c.audited(ctx, entry, func(ctx context.Context) error {
		_, err := c.session.Core.SetQuota(ctx, call)
		return err
	})
	if err != nil {
		return fmt.Errorf("set limit %q of %q: %w", spec.Name, key, err)
	}
	return nil
}

// limitName names a limit in the audit log.
func limitName(name, key string) string {
	if key == "" {
		return name
	}
	return name + "/" + key
}
