package contract

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// grantBody is the reply with a grant.
func grantBody(g *enginecore.Grant) fields {
	out := fields{
		"execution_id": g.ExecutionID, "partition_key": g.ExecutionID.Tag(), "grant_key": g.Key,
		"expires_at_ms": g.ExpiresAt.UnixMilli(),
	}
	if g.Reclaim {
		out["reclaim"] = true
	}
	return out
}

func claimForWorker(c *call) error {
	var b struct {
		LaneID       lane     `json:"lane_id"`
		Instance     string   `json:"worker_instance_id"`
		Capabilities []string `json:"capabilities"`
		GrantTTL     uint64   `json:"grant_ttl_ms"`
	}
	if err := c.decode(&b, "lane_id", "worker_instance_id", "grant_ttl_ms"); err != nil {
		return err
	}
	worker, ttl, err := c.identify(c.r.PathValue("worker"), b.Instance, b.GrantTTL)
	if err != nil {
		return err
	}
	grant, err := c.config.Engine.ClaimForWorker(c.ctx, enginecore.GrantRequest{
		Lane: string(b.LaneID), WorkerID: worker, Instance: enginecore.WorkerInstanceID(b.Instance),
		Capabilities: b.Capabilities, TTL: duration(ttl),
	})
	if errors.Is(err, enginecore.ErrNoGrant) {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err == nil {
		err = c.ensureSecret(grant.ExecutionID)
	}
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, grantBody(&grant))
}

// ensureSecret lets a worker that gets a grant of an execution open waitpoints in its partition.
func (c *call) ensureSecret(id enginecore.ExecutionID) error {
	p, err := keyspace.PartitionOf(id)
	if err != nil {
		return err
	}
	s, err := engine.SessionOf(c.config.Engine.Internal())
	if err != nil {
		return err
	}
	return s.Secrets.Ensure(c.ctx, p)
}

const (
	maxGrantTTL = 60_000
	maxWorkerID = 256
)

// identify checks the ids of the worker that requests a grant, and the duration of the grant.
func (c *call) identify(worker, instance string, ttl uint64) (enginecore.WorkerID, int64, error) {
	outside := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	for _, id := range []struct{ name, text string }{{"worker_id", worker}, {"worker_instance_id", instance}} {
		if id.text == "" || len(id.text) > maxWorkerID || strings.ContainsFunc(id.text, outside) {
			return "", 0, invalid("%s: must have 1 to %d bytes, without white space and control characters", id.name,
				maxWorkerID)
		}
	}
	if ttl < 1 || ttl > maxGrantTTL {
		return "", 0, invalid("grant_ttl_ms: must be 1 to %d, got: %d", maxGrantTTL, ttl)
	}
	return enginecore.WorkerID(worker), int64(ttl), nil
}

// issueReclaimGrant grants an execution whose worker was lost to another worker.
func issueReclaimGrant(c *call) error {
	id, err := c.execution()
	if err != nil {
		return err
	}
	var b struct {
		WorkerID     string   `json:"worker_id"`
		Instance     string   `json:"worker_instance_id"`
		LaneID       lane     `json:"lane_id"`
		Capabilities []string `json:"worker_capabilities"`
		GrantTTL     uint64   `json:"grant_ttl_ms"`
	}
	if err := c.decode(&b, "worker_id", "worker_instance_id", "grant_ttl_ms"); err != nil {
		return err
	}
	worker, ttl, err := c.identify(b.WorkerID, b.Instance, b.GrantTTL)
	if err != nil {
		return err
	}
	e, err := c.operator.Execution(c.ctx, id)
	if err != nil {
		return refused(enginerpc.FunctionName(enginerpc.IssueReclaimGrantCall{}), err)
	}
	if b.LaneID != "" && enginecore.LaneID(b.LaneID) != e.Lane {
		return invalid("lane_id: the execution is in lane %s, got: %s", e.Lane, b.LaneID)
	}
	now, err := c.core.Now(c.ctx)
	if err != nil {
		return err
	}
	grant := enginerpc.Grant{
		ExecutionID: id, WorkerID: worker, WorkerInstanceID: enginecore.WorkerInstanceID(b.Instance), LaneID: e.Lane,
		GrantTTL:              duration(ttl),
		WorkerCapabilitiesCSV: strings.Join(slices.Compact(slices.Sorted(slices.Values(b.Capabilities))), ","),
	}
	if _, err := c.core.IssueReclaimGrant(c.ctx, enginerpc.IssueReclaimGrantCall{Grant: grant}); err != nil {
		return err
	}
	if err := c.ensureSecret(id); err != nil {
		return err
	}
	return c.reply(http.StatusOK, fields{
		"execution_id": id, "partition_key": id.Tag(), "grant_key": c.core.Keys().ExecClaimGrant(id),
		"expires_at_ms": now.UnixMilli() + ttl, "lane_id": e.Lane,
	})
}
