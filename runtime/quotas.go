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
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/auditlog"
)

// Limits returns the state of the limits of the client's namespace that are in use or were set, sorted by name and key.
func (c *Client) Limits(ctx context.Context) ([]LimitState, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	var list []LimitState
	for i := range c.session.Core.Partitioning().Quota {
		call := enginerpc.QuotasCall{Partition: enginecore.Partition{Family: enginecore.QuotaFamily, Index: uint16(i)}}
		for {
			reply, err := c.session.Core.Quotas(ctx, call)
			if err != nil {
				return nil, fmt.Errorf("list limits: %w", err)
			}
			for _, q := range reply.Quotas {
				if q.Name != "" && q.QuotaPolicyID != enginecore.QuotaIDFor(c.session.Namespace, q.Name, q.Key) {
					continue
				}
				list = append(list, LimitState{
					Name: q.Name, Key: q.Key, AtMost: int(q.Rate), Per: time.Duration(q.WindowMs) * time.Millisecond,
					AtOnce: int(q.Cap),
					Set:    q.Pinned, Running: int(q.Running), Started: int(q.InWindow), Waiting: int(q.Waiting),
				})
			}
			if call.Cursor = reply.NextCursor; call.Cursor == "" {
				break
			}
		}
	}
	slices.SortFunc(list, func(a, b LimitState) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key)) })
	// A listing in pages may show one twice.
	return slices.CompactFunc(list, func(a, b LimitState) bool { return a.Name == b.Name && a.Key == b.Key }), nil
}

// SetLimit replaces what flows declare for a limit, for all nodes that have it, including those that wait already. The
// key is empty for a limit without KeyFrom. Nodes that wait start at once if the new values allow it; running ones
// continue. ResetLimit undoes it.
func (c *Client) SetLimit(ctx context.Context, name, key string, opts ...activity.LimitOption) error {
	spec := activityspec.NewLimit(name, opts...)
	err := spec.Validate()
	if len(spec.KeyFrom) > 0 {
		err = errors.Join(err, fmt.Errorf("limit %q: KeyFrom(%s): must not be set here: the limit is set for the key %q", name,
			strings.Join(spec.KeyFrom, "."), key))
	}
	if err != nil {
		return invalid("set limit: %w", err)
	}
	return c.setLimit(ctx, key, spec, true)
}

// ResetLimit undoes SetLimit: what flows declare for the limit applies again, from the next start of a node on.
// Resetting a limit that is not set is not an error.
func (c *Client) ResetLimit(ctx context.Context, name, key string) error {
	if err := activityspec.CheckName(name); err != nil {
		return invalid("reset limit: %w", err)
	}
	return c.setLimit(ctx, key, activityspec.Limit{Name: name}, false)
}

func (c *Client) setLimit(ctx context.Context, key string, spec activityspec.Limit, pin bool) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	id := enginecore.QuotaIDFor(c.session.Namespace, spec.Name, key)
	partition, err := c.session.Core.Partitioning().QuotaPartition(id)
	if err != nil {
		return err
	}
	entry := auditlog.Entry{
		Actor: c.actorName(), Action: auditlog.SetLimit, Name: limitName(spec.Name, key),
		Detail: fmt.Sprintf("at most %d per %s, %d at once; 0 is no bound", spec.AtMost, spec.Per, spec.AtOnce),
	}
	if !pin {
		entry.Action, entry.Detail = auditlog.ResetLimit, ""
	}
	err = c.audited(ctx, entry, func() error {
		_, err := c.session.Core.SetQuota(ctx, enginerpc.SetQuotaCall{
			Partition: partition, QuotaPolicyID: id, Name: spec.Name, Key: key, Rate: int64(spec.AtMost),
			WindowMs: spec.Per.Milliseconds(),
			Cap:      int64(spec.AtOnce), Pin: pin,
		})
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

// LimitState is the state of a limit.
type LimitState struct {
	// Name and Key identify the limit; Key is empty for a limit without keys.
	Name, Key string
	// AtMost, Per and AtOnce are the values that apply at present.
	AtMost int
	Per    time.Duration
	AtOnce int
	// Set reports whether SetLimit replaced what flows declare.
	Set bool
	// Running is the number of executions that hold a permit, Started the number that started within the last Per, and
	// Waiting the number that wait for a permit.
	Running, Started, Waiting int
}
