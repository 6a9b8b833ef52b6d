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
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// ErrLimitNotFound is returned by Client.Limit for a limit that no node has used and that was not set.
var ErrLimitNotFound = errors.New("limit not found")

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

// Limit returns the state of one limit; the key is empty for a limit without KeyFrom. The error matches
// ErrLimitNotFound if no node has used the limit and it was not set, and ErrInvalid for a name that no limit can have.
func (c *Client) Limit(ctx context.Context, name, key string) (fabrictype.Limit, error) {
	if err := c.ready(ctx); err != nil {
		return fabrictype.Limit{}, err
	}
	if err := activityspec.CheckName(name); err != nil {
		return fabrictype.Limit{}, invalid("limit: %w", err)
	}
	id := keyspace.QuotaIDFor(c.session.Namespace, name, key)
	partition, err := c.session.Core.Partitioning().QuotaPartition(id)
	if err != nil {
		return fabrictype.Limit{}, err
	}
	reply, err := c.session.Core.QuotaState(ctx, enginerpc.QuotaStateCall{Partition: partition, QuotaPolicyID: id})
	if err == nil && len(reply.Quotas) == 0 {
		err = ErrLimitNotFound
	}
	if err != nil {
		return fabrictype.Limit{}, fmt.Errorf("limit %q of %q: %w", name, key, err)
	}
	state := limitState(reply.Quotas[0])
	state.Name, state.Key = name, key
	return state, nil
}

// SetLimit replaces the limit that flows declare, for all nodes that have it, including waiting ones. The key is empty
// for a limit without KeyFrom. Nodes that wait start at once if the new values allow it; running ones continue.
// ResetLimit undoes it.
func (c *Client) SetLimit(ctx context.Context, name, key string, opts ...activity.LimitOption) error {
	return c.changeLimit(ctx, limitChange{name: name, key: key, opts: opts})
}

// ReplaceLimit is SetLimit unless the limit has been changed since old was read: comparing AtMost, Per, AtOnce and Set
// and setting the limit are one atomic step of the engine. If they differ, the error matches
// enginecore.ErrChangedMeanwhile and nothing was changed.
func (c *Client) ReplaceLimit(ctx context.Context, old fabrictype.Limit, opts ...activity.LimitOption) error {
	return c.changeLimit(ctx, limitChange{name: old.Name, key: old.Key, opts: opts, old: &old})
}

// limitChange is a limit to be set: if old is not nil, only as long as the limit is that.
type limitChange struct {
	name, key string
	opts      []activity.LimitOption
	old       *fabrictype.Limit
}

func (c *Client) changeLimit(ctx context.Context, change limitChange) error {
	spec := activityspec.NewLimit(change.name, change.opts...)
	err := spec.Validate()
	if len(spec.KeyFrom) > 0 {
		err = errors.Join(err, fmt.Errorf("limit %q: KeyFrom(%s): must not be set here: it is set for the key %q",
			change.name, strings.Join(spec.KeyFrom, "."), change.key))
	}
	if err != nil {
		return invalid("set limit: %w", err)
	}
	call := enginerpc.SetQuotaCall{Pin: true}
	if old := change.old; old != nil {
		call.Compare, call.OldRate, call.OldWindowMs = true, int64(old.AtMost), old.Per.Milliseconds()
		call.OldCap, call.OldPinned = int64(old.AtOnce), old.Set
	}
	return c.setLimit(ctx, change.key, spec, call)
}

// ResetLimit undoes SetLimit: the limit that flows declare applies again, from the next start of a node on. Resetting a
// limit that is not set is not an error.
func (c *Client) ResetLimit(ctx context.Context, name, key string) error {
	if err := activityspec.CheckName(name); err != nil {
		return invalid("reset limit: %w", err)
	}
	return c.setLimit(ctx, key, activityspec.Limit{Name: name}, enginerpc.SetQuotaCall{})
}

// setLimit completes the call by the limit, and makes it.
func (c *Client) setLimit(
	ctx context.Context, key string, spec activityspec.Limit, call enginerpc.SetQuotaCall,
) error {
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
