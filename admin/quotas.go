package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// QuotaSpec describes a quota policy for CreateQuota.
type QuotaSpec struct {
	// ID is the id of the policy. Defaults to a random one.
	ID enginecore.QuotaPolicyID
	// Window is the time window, in whole seconds, within which at most MaxStarts executions start. MaxStarts 0 means
	// no limit.
	Window    time.Duration
	MaxStarts int64
	// MaxConcurrent is the number of executions that run at a time; 0 means no limit.
	MaxConcurrent int64
}

func (n *QuotaSpec) prepare() error {
	var faults []error
	if n.Window < 0 || n.Window%time.Second != 0 {
		faults = append(faults, fault("window", "%s is not a whole number of seconds", n.Window))
	}
	if n.MaxStarts < 0 || n.MaxConcurrent < 0 {
		faults = append(faults, fault("limits", "must not be negative"))
	}
	if n.MaxStarts > 0 && n.Window == 0 {
		faults = append(faults, fault("window", "must be set with a limit of starts"))
	}
	return errors.Join(faults...)
}

func (c *Client) quotaPartition(id enginecore.QuotaPolicyID) (keyspace.Partition, error) {
	p, err := c.core.Partitioning().QuotaPartition(id)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return p, nil
}

// CreateQuota creates a quota policy, in one atomic step. It returns the id and whether the policy existed; an existing
// policy is not changed. The engine creates the policies of limits that flows declare; runtime.Client.Limits lists
// those.
func (c *Client) CreateQuota(ctx context.Context, n QuotaSpec) (id enginecore.QuotaPolicyID, existed bool, err error) {
	if n.ID == "" {
		n.ID = enginecore.QuotaPolicyID(uuid.NewString())
	}
	if err := n.prepare(); err != nil {
		return "", false, err
	}
	p, err := c.quotaPartition(n.ID)
	if err != nil {
		return "", false, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return "", false, of(err, "create", "quota", string(n.ID))
	}
	var reply enginerpc.CreateQuotaPolicyReply
	err = c.audited(ctx, auditlink.CreateQuota, string(n.ID), "", func() (err error) {
		reply, err = c.core.CreateQuotaPolicy(ctx, enginerpc.CreateQuotaPolicyCall{
			Partition: p, QuotaPolicyID: n.ID, WindowSeconds: int64(n.Window / time.Second),
			MaxRequestsPerWindow: n.MaxStarts, MaxConcurrent: n.MaxConcurrent, Now: now,
		})
		return err
	})
	return reply.QuotaPolicyID, reply.Status == enginerpc.StatusAlreadySatisfied, of(err, "create", "quota",
		string(n.ID))
}

// Quota is the record of a quota policy.
type Quota struct {
	ID            enginecore.QuotaPolicyID
	Window        time.Duration
	MaxStarts     int64
	MaxConcurrent int64
	// Started counts the executions admitted within the window, Running those that hold a permit.
	Started, Running int64
	CreatedAt        time.Time
}

var quotaFields = []string{
	"requests_per_window_seconds", "max_requests_per_window", "active_concurrency_cap", "created_at",
}

// Quota returns a quota policy with its counts, by several reads. The error wraps ErrQuotaNotFound.
func (c *Client) Quota(ctx context.Context, id enginecore.QuotaPolicyID) (Quota, error) {
	q, err := c.quota(ctx, id)
	return q, of(err, "status of", "quota", string(id))
}

func (c *Client) quota(ctx context.Context, id enginecore.QuotaPolicyID) (Quota, error) {
	p, err := c.quotaPartition(id)
	if err != nil {
		return Quota{}, err
	}
	r, err := c.one(ctx, c.keys.QuotaRecord(p, id), quotaFields, ErrQuotaNotFound)
	if err != nil {
		return Quota{}, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return Quota{}, err
	}
	q := Quota{
		ID: id, Window: time.Duration(r.Int("requests_per_window_seconds")) * time.Second,
		MaxStarts:     r.Int("max_requests_per_window"),
		MaxConcurrent: r.Int("active_concurrency_cap"), CreatedAt: r.Time("created_at"),
	}
	since := fmt.Sprint(now.Add(-q.Window).UnixMilli())
	results, err := c.read(ctx, c.client.B().Zcount().Key(c.keys.QuotaWindow(p, id)).Min(since).Max("+inf").Build(),
		c.client.B().Get().Key(c.keys.QuotaConcurrency(p, id)).Build())
	if err != nil {
		return Quota{}, err
	}
	q.Started, _ = results[0].AsInt64()
	q.Running, _ = results[1].AsInt64() // 0 without one
	return q, nil
}

// Quotas yields the ids of all quota policies in no particular order; an id may be yielded twice. An error ends the
// iteration.
func (c *Client) Quotas(ctx context.Context) iter.Seq2[enginecore.QuotaPolicyID, error] {
	s := source{
		partitions: partitionsOf(keyspace.QuotaFamily, c.core.Partitioning().Quota), key: c.keys.IndexQuotaPolicies,
	}
	return all(func(cursor string) ([]enginecore.QuotaPolicyID, string, error) {
		ids, next, err := c.scan(ctx, s, cursor, 0)
		return typed[enginecore.QuotaPolicyID](ids), next, err
	})
}
