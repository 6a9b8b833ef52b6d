package contract

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

const maxDimensions = 64

func parseCount(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

func createBudget(c *call) error {
	var b struct {
		BudgetID        uuidText `json:"budget_id"`
		ScopeType       string   `json:"scope_type"`
		ScopeID         string   `json:"scope_id"`
		EnforcementMode string   `json:"enforcement_mode"`
		OnHardLimit     string   `json:"on_hard_limit"`
		OnSoftLimit     string   `json:"on_soft_limit"`
		ResetInterval   uint64   `json:"reset_interval_ms"`
		Dimensions      []string `json:"dimensions"`
		HardLimits      []uint64 `json:"hard_limits"`
		SoftLimits      []uint64 `json:"soft_limits"`
	}
	if err := c.decode(&b, "budget_id", "dimensions", "hard_limits", "soft_limits"); err != nil {
		return err
	}
	n := len(b.Dimensions)
	switch {
	case n > maxDimensions:
		return invalid("too_many_dimensions: limit=%d, got=%d", maxDimensions, n)
	case len(b.HardLimits) != n || len(b.SoftLimits) != n:
		return invalid("dimension_limit_array_mismatch: dimensions=%d, hard_limits=%d, soft_limits=%d", n,
			len(b.HardLimits), len(b.SoftLimits))
	}
	spec := admin.BudgetSpec{
		ID: enginecore.BudgetID(b.BudgetID), ScopeType: b.ScopeType, ScopeID: b.ScopeID,
		EnforcementMode: b.EnforcementMode, OnHardLimit: b.OnHardLimit, OnSoftLimit: b.OnSoftLimit,
		Dimensions: map[string]admin.Limits{},
	}
	interval, err := within("reset_interval_ms", b.ResetInterval, maxSpan)
	if err != nil {
		return err
	}
	spec.ResetInterval = duration(interval)
	for i, name := range b.Dimensions {
		if _, twice := spec.Dimensions[name]; twice {
			return invalid("dimensions: %.80q is given twice", name)
		}
		var limits admin.Limits
		if err := readNumbers(
			bounded{fmt.Sprintf("hard_limits[%d]", i), &b.HardLimits[i], maxExact, &limits.Hard},
			bounded{fmt.Sprintf("soft_limits[%d]", i), &b.SoftLimits[i], maxExact, &limits.Soft},
		); err != nil {
			return err
		}
		spec.Dimensions[name] = limits
	}
	id, existed, err := c.operator.CreateBudget(c.ctx, spec)
	if err != nil {
		return err
	}
	return c.created(existed, "budget_id", string(id))
}

func getBudget(c *call) error {
	id, err := c.budget()
	if err != nil {
		return err
	}
	b, err := c.operator.Budget(c.ctx, id)
	if err != nil {
		return err
	}
	hard, soft := map[string]int64{}, map[string]int64{}
	for name, limits := range b.Limits {
		hard[name], soft[name] = limits.Hard, limits.Soft
	}
	out := fields{
		"budget_id": id, "scope_type": b.ScopeType, "scope_id": b.ScopeID, "enforcement_mode": b.EnforcementMode,
		"usage": b.Usage, "hard_limits": hard, "soft_limits": soft, "breach_count": b.HardBreaches,
		"soft_breach_count": b.SoftBreaches, "last_breach_at": orNull(text(b.LastBreachAt)),
		"last_breach_dim": orNull(b.LastBreach), "next_reset_at": orNull(text(b.NextResetAt)),
		"created_at": orNull(text(b.CreatedAt)),
	}
	return c.reply(http.StatusOK, out)
}

func reportUsage(c *call) error {
	id, err := c.budget()
	if err != nil {
		return err
	}
	var b struct {
		Dimensions map[string]uint64 `json:"dimensions"`
		Now        *millis           `json:"now"`
		DedupKey   string            `json:"dedup_key"`
	}
	if err := c.decode(&b, "dimensions", "now"); err != nil {
		return err
	}
	if len(b.Dimensions) > maxDimensions {
		return invalid("too_many_dimensions: limit=%d, got=%d", maxDimensions, len(b.Dimensions))
	}
	p, err := c.core.Partitioning().BudgetPartition(id)
	if err != nil {
		return err
	}
	report := enginerpc.ReportUsageAndCheckCall{Partition: p, BudgetID: id, Now: b.Now.time()}
	for _, name := range slices.Sorted(maps.Keys(b.Dimensions)) {
		delta, err := within(fmt.Sprintf("dimensions[%.80q]", name), b.Dimensions[name], maxExact)
		if err != nil {
			return err
		}
		report.Dims = append(report.Dims, enginerpc.ReportUsageAndCheckDim{Name: name, Delta: delta})
	}
	if b.DedupKey != "" {
		report.DedupKey = c.core.Keys().BudgetDedup(p, b.DedupKey)
	}
	reply, err := c.core.ReportUsageAndCheck(c.ctx, report)
	if err != nil {
		return err
	}
	limit, _ := parseCount(reply.Limit)
	breach := fields{"dimension": reply.Dimension, "current_usage": reply.Current}
	switch reply.Status {
	case enginerpc.StatusAlreadyApplied:
		return c.reply(http.StatusOK, "AlreadyApplied")
	case enginerpc.StatusSoftBreach:
		breach["soft_limit"] = limit
		return c.reply(http.StatusOK, result("SoftBreach", breach))
	case enginerpc.StatusHardBreach:
		breach["hard_limit"] = limit
		return c.reply(http.StatusOK, result("HardBreach", breach))
	}
	return c.reply(http.StatusOK, "Ok")
}

func resetBudget(c *call) error {
	id, err := c.budget()
	if err != nil {
		return err
	}
	next, err := c.operator.ResetBudget(c.ctx, id)
	if err != nil {
		return err
	}
	at := int64(0)
	if !next.IsZero() {
		at = next.UnixMilli()
	}
	return c.reply(http.StatusOK, result("Reset", fields{"next_reset_at": at}))
}

func createQuota(c *call) error {
	var b struct {
		ID            uuidText `json:"quota_policy_id"`
		Window        uint32   `json:"window_seconds"`
		MaxRequests   uint32   `json:"max_requests_per_window"`
		MaxConcurrent uint32   `json:"max_concurrent"`
	}
	if err := c.decode(&b, "quota_policy_id", "window_seconds", "max_requests_per_window",
		"max_concurrent"); err != nil {
		return err
	}
	id, existed, err := c.operator.CreateQuota(c.ctx, admin.QuotaSpec{
		ID: enginecore.QuotaPolicyID(b.ID), Window: time.Duration(b.Window) * time.Second,
		MaxStarts: int64(b.MaxRequests), MaxConcurrent: int64(b.MaxConcurrent),
	})
	if err != nil {
		return err
	}
	return c.created(existed, "quota_policy_id", string(id))
}

// rotateTimeout bounds a rotation of secrets.
const rotateTimeout = 120 * time.Second

func rotateSecret(c *call) error {
	var b struct {
		KID    string `json:"new_kid"`
		Secret string `json:"new_secret_hex"`
	}
	if err := c.decode(&b, "new_kid", "new_secret_hex"); err != nil {
		return err
	}
	select {
	case c.rotating <- struct{}{}:
		defer func() { <-c.rotating }()
	default:
		return full("admin_rotate", 1)
	}
	ctx, cancel := context.WithTimeout(c.ctx, rotateTimeout)
	defer cancel()
	r, err := c.operator.RotateSecret(ctx, enginecore.WaitpointSecret{KID: b.KID, Hex: b.Secret}, c.config.SecretGrace)
	rotated, failed := r.Rotated+r.Unchanged, []int{}
	for _, p := range c.core.Partitioning().FlowPartitions() {
		if r.Failed[p.Tag()] != nil {
			failed = append(failed, int(p.Index))
		}
	}
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return state(http.StatusGatewayTimeout, "the rotation exceeded %s; repeat it", rotateTimeout)
	case err != nil && rotated == 0:
		return err
	}
	return c.reply(http.StatusOK, fields{"rotated": rotated, "failed": failed, "new_kid": b.KID})
}
