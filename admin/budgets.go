package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// maxAmount is the largest amount that the engine counts exactly.
const maxAmount = 1<<53 - 1

// maxDimensions is the most dimensions that a budget has and a report names.
const maxDimensions = 64

// BudgetSpec describes a budget for CreateBudget.
type BudgetSpec struct {
	// ID is the id of the budget. Defaults to a random one.
	ID enginecore.BudgetID
	// ScopeType and ScopeID name the subject of the budget; the engine only stores them.
	ScopeType, ScopeID string
	// EnforcementMode, OnHardLimit and OnSoftLimit are stored for other tools. They default to "strict", "fail" and
	// "warn".
	EnforcementMode, OnHardLimit, OnSoftLimit string
	// ResetInterval is the interval at which the usage is reset to zero; 0 means never.
	ResetInterval time.Duration
	// Dimensions are the dimensions with their limits, 1 to 64.
	Dimensions map[string]Limits
}

// Limits are the limits of one dimension. A report that would exceed Hard is refused; one that exceeds Soft is applied
// and reported. 0 means no limit. Both are at most 2^53 - 1.
type Limits struct{ Hard, Soft int64 }

func (n *BudgetSpec) prepare() error {
	var faults []error
	if len(n.Dimensions) == 0 || len(n.Dimensions) > maxDimensions {
		faults = append(faults, fault("dimensions", "%d, must be 1 to %d", len(n.Dimensions), maxDimensions))
	}
	for name, limits := range n.Dimensions {
		if err := checkDimension(name); err != nil {
			faults = append(faults, err)
		}
		if min(limits.Hard, limits.Soft) < 0 || max(limits.Hard, limits.Soft) > maxAmount {
			faults = append(faults, fault("limits of "+name, "%d and %d must be 0 to %d", limits.Hard, limits.Soft,
				int64(maxAmount)))
		}
	}
	if n.ResetInterval < 0 {
		faults = append(faults, fault("reset interval", "%s is negative", n.ResetInterval))
	}
	for field, fallback := range map[*string]string{&n.EnforcementMode: "strict", &n.OnHardLimit: "fail",
		&n.OnSoftLimit: "warn"} {
		if *field == "" {
			*field = fallback
		}
	}
	return errors.Join(faults...)
}

func checkDimension(name string) error {
	if name == "" || len(name) > maxName {
		return fault("dimension", "%.40q must have 1 to %d bytes", name, maxName)
	}
	if name == "_init" || name == "breached_at" {
		return fault("dimension", "%q is reserved", name)
	}
	return nil
}

func (c *Client) budgetPartition(id enginecore.BudgetID) (keyspace.Partition, error) {
	p, err := c.core.Partitioning().BudgetPartition(id)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return p, nil
}

// CreateBudget creates a budget, in one atomic step. It returns the id and whether the budget existed; an existing
// budget is not changed.
func (c *Client) CreateBudget(ctx context.Context, n BudgetSpec) (id enginecore.BudgetID, existed bool, err error) {
	if n.ID == "" {
		n.ID = enginecore.BudgetID(uuid.NewString())
	}
	if err := n.prepare(); err != nil {
		return "", false, err
	}
	p, err := c.budgetPartition(n.ID)
	if err != nil {
		return "", false, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return "", false, of(err, "create", "budget", string(n.ID))
	}
	call := enginerpc.CreateBudgetCall{
		Partition: p, BudgetID: n.ID, ScopeType: n.ScopeType, ScopeID: n.ScopeID, EnforcementMode: n.EnforcementMode,
		OnHardLimit: n.OnHardLimit, OnSoftLimit: n.OnSoftLimit, ResetInterval: n.ResetInterval, Now: now,
	}
	for _, name := range slices.Sorted(maps.Keys(n.Dimensions)) {
		limits := n.Dimensions[name]
		call.Dims = append(call.Dims, enginerpc.CreateBudgetDim{
			Name: name, Hard: strconv.FormatInt(limits.Hard, 10), Soft: strconv.FormatInt(limits.Soft, 10),
		})
	}
	var reply enginerpc.CreateBudgetReply
	err = c.audited(ctx, auditlink.CreateBudget, string(n.ID), "", func() (err error) {
		reply, err = c.core.CreateBudget(ctx, call)
		return err
	})
	return reply.BudgetID, reply.Status == enginerpc.StatusAlreadySatisfied, of(err, "create", "budget", string(n.ID))
}

// UsageReport is the result of ReportUsage.
type UsageReport struct {
	// Applied reports whether this call added the usage. It did not if the report was applied before (Repeated) or
	// would have exceeded a hard limit (Hard).
	Applied, Repeated, Hard bool
	// Dimension, Usage and Limit describe the limit that was reached, hard or soft; Dimension is empty if none was.
	Dimension    string
	Usage, Limit int64
}

// ReportUsage adds to the usage of a budget in all given dimensions, in one atomic step. A report that would exceed a
// hard limit changes no dimension. Reports with the same dedup key, of at most 256 bytes, count once within 24 hours,
// so such a report can be repeated when the error wraps enginecore.ErrOutcomeUnknown. The error also wraps
// enginecore.ErrBudgetNotFound, or ErrInvalid for usage that is negative, is above 2^53 - 1, is empty
// or has more than 64 dimensions.
func (c *Client) ReportUsage(
	ctx context.Context, id enginecore.BudgetID, usage map[string]int64, dedupKey string,
) (UsageReport, error) {
	if len(usage) == 0 || len(usage) > maxDimensions {
		return UsageReport{}, fault("usage", "%d dimensions, must be 1 to %d", len(usage), maxDimensions)
	}
	p, err := c.budgetPartition(id)
	if err != nil {
		return UsageReport{}, err
	}
	call := enginerpc.ReportUsageAndCheckCall{Partition: p, BudgetID: id}
	for _, name := range slices.Sorted(maps.Keys(usage)) {
		if err := checkDimension(name); err != nil {
			return UsageReport{}, err
		}
		if usage[name] < 0 || usage[name] > maxAmount {
			return UsageReport{}, fault("usage", "%d of %q must be 0 to %d", usage[name], name, int64(maxAmount))
		}
		call.Dims = append(call.Dims, enginerpc.ReportUsageAndCheckDim{Name: name, Delta: usage[name]})
	}
	if dedupKey != "" {
		if err := checkName("dedup key", dedupKey); err != nil {
			return UsageReport{}, err
		}
		call.DedupKey = c.keys.BudgetDedup(p, dedupKey)
	}
	// The library counts reports to budgets that do not exist, for those who create them later.
	results, err := c.read(ctx, c.client.B().Hexists().Key(c.keys.BudgetRecord(p, id)).Field("budget_id").Build())
	if err == nil {
		var exists bool
		if exists, err = results[0].AsBool(); err == nil && !exists {
			err = enginecore.ErrBudgetNotFound
		}
	}
	if err != nil {
		return UsageReport{}, of(err, "report usage of", "budget", string(id))
	}
	if call.Now, err = c.now(ctx); err != nil {
		return UsageReport{}, of(err, "report usage of", "budget", string(id))
	}
	reply, err := c.core.ReportUsageAndCheck(ctx, call)
	if err != nil {
		return UsageReport{}, of(err, "report usage of", "budget", string(id))
	}
	hard := reply.Status == enginerpc.StatusHardBreach
	repeated := reply.Status == enginerpc.StatusAlreadyApplied
	return UsageReport{
		Applied: !hard && !repeated, Repeated: repeated, Hard: hard, Dimension: reply.Dimension, Usage: reply.Current,
		Limit: hashrecord.Int(reply.Limit),
	}, nil
}

// ResetBudget sets the usage of a budget to zero, in one atomic step. It returns the time of the next automatic reset;
// zero means never. The error wraps enginecore.ErrBudgetNotFound.
func (c *Client) ResetBudget(ctx context.Context, id enginecore.BudgetID) (next time.Time, err error) {
	p, err := c.budgetPartition(id)
	if err != nil {
		return time.Time{}, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return time.Time{}, of(err, "reset", "budget", string(id))
	}
	var reply enginerpc.ResetBudgetReply
	err = c.audited(ctx, auditlink.ResetBudget, string(id), "", func() (err error) {
		reply, err = c.core.ResetBudget(ctx, enginerpc.ResetBudgetCall{Partition: p, BudgetID: id, Now: now})
		return err
	})
	return reply.NextResetAt, of(err, "reset", "budget", string(id))
}

// Budget is the record of a budget.
type Budget struct {
	ID                                        enginecore.BudgetID
	ScopeType, ScopeID                        string
	EnforcementMode, OnHardLimit, OnSoftLimit string
	ResetInterval                             time.Duration
	// Usage is the amount reported since the last reset, by dimension.
	Usage map[string]int64
	// Limits are the limits by dimension.
	Limits map[string]Limits
	// HardBreaches and SoftBreaches count the reports that were the first to reach a limit; LastBreachAt and LastBreach
	// are the time and the dimension of the last one.
	HardBreaches, SoftBreaches int
	LastBreachAt               time.Time
	LastBreach                 string
	// BreachedAt is when a keeper saw that a hard limit was reached; zero when none is.
	BreachedAt time.Time
	// NextResetAt and CreatedAt are zero when unset.
	NextResetAt, CreatedAt time.Time
}

// Budget returns a budget. It reads definition, limits and usage one after another. The error wraps
// enginecore.ErrBudgetNotFound.
func (c *Client) Budget(ctx context.Context, id enginecore.BudgetID) (Budget, error) {
	p, err := c.budgetPartition(id)
	if err != nil {
		return Budget{}, err
	}
	hgetall := c.client.B().Hgetall
	results, err := c.read(ctx, hgetall().Key(c.keys.BudgetRecord(p, id)).Build(),
		hgetall().Key(c.keys.BudgetLimits(p, id)).Build(),
		hgetall().Key(c.keys.BudgetUsage(p, id)).Build())
	if err != nil {
		return Budget{}, of(err, "status of", "budget", string(id))
	}
	r := hashrecord.Record(tagsOf(results[0]))
	if r["budget_id"] == "" {
		return Budget{}, of(enginecore.ErrBudgetNotFound, "status of", "budget", string(id))
	}
	b := Budget{
		ID: id, ScopeType: r["scope_type"], ScopeID: r["scope_id"], EnforcementMode: r["enforcement_mode"],
		OnHardLimit: r["on_hard_limit"], OnSoftLimit: r["on_soft_limit"],
		ResetInterval: time.Duration(r.Int("reset_interval_ms")) * time.Millisecond,
		HardBreaches:  int(r.Int("breach_count")),
		SoftBreaches:  int(r.Int("soft_breach_count")), LastBreachAt: r.Time("last_breach_at"),
		LastBreach:  r["last_breach_dim"],
		NextResetAt: r.Time("next_reset_at"), CreatedAt: r.Time("created_at"), Usage: make(map[string]int64),
		Limits: make(map[string]Limits),
	}
	limits := hashrecord.Record(tagsOf(results[1]))
	for field := range limits {
		kind, name, _ := strings.Cut(field, ":")
		of := b.Limits[name]
		switch kind {
		case "hard":
			of.Hard = limits.Int(field)
		case "soft":
			of.Soft = limits.Int(field)
		default:
			continue
		}
		b.Limits[name] = of
	}
	usage := hashrecord.Record(tagsOf(results[2]))
	b.BreachedAt = usage.Time("breached_at")
	for name := range usage {
		if checkDimension(name) == nil {
			b.Usage[name] = usage.Int(name)
		}
	}
	return b, nil
}

// Budgets yields the ids of all budgets in no particular order; an id may be yielded twice. An error ends the
// iteration.
func (c *Client) Budgets(ctx context.Context) iter.Seq2[enginecore.BudgetID, error] {
	s := source{
		partitions: partitionsOf(keyspace.BudgetFamily, c.core.Partitioning().Budget),
		key:        c.keys.IndexBudgetPolicies,
	}
	return all(func(cursor string) ([]enginecore.BudgetID, string, error) {
		ids, next, err := c.scan(ctx, s, cursor, 0)
		return typed[enginecore.BudgetID](ids), next, err
	})
}

func partitionsOf(family keyspace.Family, count int) []keyspace.Partition {
	list := make([]keyspace.Partition, count)
	for i := range list {
		list[i] = keyspace.Partition{Family: family, Index: uint16(i)}
	}
	return list
}
