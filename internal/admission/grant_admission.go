package admission

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// verdict is the decision of budgets, quotas and limits about an execution: it is admitted, or has to wait
// for a reason.
type verdict struct {
	reason, detail string
	release        func(context.Context) // returns the permits acquired for the execution; never nil
}

func admitted() verdict { return verdict{release: func(context.Context) {}} }

func refused(reason, format string, args ...any) verdict {
	return verdict{reason: reason, detail: fmt.Sprintf(format, args...), release: func(context.Context) {}}
}

// Admit checks the budgets of an execution, then its limits or its quota. An execution to be reclaimed keeps
// the admission that it has.
func (s *grantSearch) Admit(ctx context.Context, x *grantCandidate) (verdict, error) {
	for id := range strings.SplitSeq(x.record["budget_ids"], ",") {
		if id = strings.TrimSpace(id); id == "" {
			continue
		}
		exceeded, err := s.exceededLimits(ctx, id)
		if err != nil {
			return verdict{}, err
		}
		if exceeded != "" {
			return refused(blockedByBudget, "%s", exceeded), nil
		}
	}
	switch {
	case x.record.IsReclaimable():
		return admitted(), nil
	case x.record["limits"] != "":
		return s.admitLimited(ctx, x)
	case x.record["quota_policy_id"] != "":
		return s.admitByQuota(ctx, x)
	}
	return admitted(), nil
}

// exceededLimits returns a description of the hard limits of a budget that are used up, or "" if none is.
func (s *grantSearch) exceededLimits(ctx context.Context, id string) (string, error) {
	if known, asked := s.budgets[id]; asked {
		return known, nil
	}
	core := s.session.Core
	client, budget := core.Client(), enginecore.BudgetID(id)
	at, err := core.Partitioning().BudgetPartition(budget)
	if err != nil {
		// the contract's partition of an id that is not a UUID
		at = keyspace.Partition{Family: keyspace.BudgetFamily}
	}
	limits, err := client.Do(ctx, client.B().Hgetall().Key(core.Keys().BudgetLimits(at, budget)).Build()).AsStrMap()
	if err != nil {
		return "", err
	}
	usage, err := client.Do(ctx, client.B().Hgetall().Key(core.Keys().BudgetUsage(at, budget)).Build()).AsStrMap()
	if err != nil {
		return "", err
	}
	var exceeded []string
	for field, text := range limits {
		dimension, hard := strings.CutPrefix(field, "hard:")
		limit, err := strconv.ParseFloat(text, 64)
		if !hard || err != nil || limit <= 0 {
			continue
		}
		used, _ := strconv.ParseFloat(usage[dimension], 64)
		if used >= limit {
			exceeded = append(exceeded, fmt.Sprintf("budget %s: %s %s/%s", core.Keys().BudgetUsage(at, budget),
				dimension, formatFloat(used), text))
		}
	}
	slices.Sort(exceeded)
	s.budgets[id] = strings.Join(exceeded, ", ")
	return s.budgets[id], nil
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// admitLimited acquires the permits of an execution in the same order as a worker that claims for itself: it
// records the execution as waiting for permits before it requests them. If a limit refuses, the execution
// keeps waiting until that limit grants a permit. After a crash, keepers continue with it.
func (s *grantSearch) admitLimited(ctx context.Context, x *grantCandidate) (verdict, error) {
	epoch := x.record.Int("current_lease_epoch")
	if a, ok := enginerpc.ParseAdmissionText(x.record["admission"]); ok && !a.Asking && a.Epoch == epoch {
		return admitted(), nil
	}
	if !engine.Has[engine.LimitStore](s.session.Backend) {
		return s.admitByQuota(ctx, x)
	}
	priority, _ := strconv.ParseFloat(x.record["priority"], 64)
	created, _ := strconv.ParseFloat(x.record["created_at"], 64)
	candidate := enginerpc.Candidate{
		ExecutionID: x.id, Token: epoch, Score: formatFloat(created - priority*priorityStep),
		Limits: x.record["limits"],
	}
	limits, _ := enginerpc.ParseLimitsText(x.record["limits"])
	client, keys := s.session.Client, s.session.Core.Keys()
	at, err := keyspace.PartitionOf(x.id)
	if err != nil {
		return verdict{}, err
	}
	again := float64(s.now.Add(offerAgain).UnixMilli())
	offered := client.B().Zadd().Key(keys.FfxUnadmitted(at)).ScoreMember().ScoreMember(again, string(x.id)).Build()
	if err := client.Do(ctx, offered).Error(); err != nil {
		return verdict{}, err
	}
	if err := s.block(ctx, x, blockedByQuota, limits.Words); err != nil {
		return verdict{}, err
	}
	Admitter{s.session}.Promote(ctx, []enginerpc.Candidate{candidate}, 1)
	records, err := s.session.ReadExecutions(ctx, []enginecore.ExecutionID{x.id}, []string{"admission"})
	if err != nil {
		return verdict{}, err
	}
	if records[0]["admission"] != "" {
		return admitted(), nil
	}
	return verdict{reason: alreadyBlocked, release: func(context.Context) {}}, nil
}

// alreadyBlocked is the reason of a verdict about an execution that Admit itself has blocked.
const alreadyBlocked = "blocked"

// offerAgain is the time after which a keeper acquires permits for an execution that was blocked by a call
// that did not complete.
const offerAgain = 5 * time.Second

// priorityStep is the number of milliseconds by which one step of priority moves an execution ahead.
const priorityStep = 1e12

// admitByQuota requests admission from the one quota that the record of an execution names, as the contract
// defines it.
func (s *grantSearch) admitByQuota(ctx context.Context, x *grantCandidate) (verdict, error) {
	core, id := s.session.Core, enginecore.QuotaPolicyID(x.record["quota_policy_id"])
	if id == "" {
		return admitted(), nil
	}
	at, err := core.Partitioning().QuotaPartition(id)
	if err != nil {
		at = keyspace.Partition{Family: keyspace.QuotaFamily}
	}
	fields := []string{"max_requests_per_window", "requests_per_window_seconds", "active_concurrency_cap", "jitter_ms"}
	client := core.Client()
	result := client.Do(ctx, client.B().Hmget().Key(core.Keys().QuotaRecord(at, id)).Field(fields...).Build())
	if err := result.Error(); err != nil {
		return verdict{}, err
	}
	policy := hashrecord.Read(result, fields)
	number := func(field string, otherwise float64) float64 {
		if n, err := strconv.ParseFloat(policy[field], 64); err == nil {
			return n
		}
		return otherwise
	}
	rate, most := number(fields[0], 0), number(fields[2], 0)
	if rate == 0 && most == 0 {
		return admitted(), nil
	}
	window := int64(math.Ceil(number(fields[1], 60)))
	reply, err := core.CheckAdmissionAndRecord(ctx, enginerpc.CheckAdmissionAndRecordCall{
		Partition: at, QuotaPolicyID: id, Now: s.now, WindowSeconds: window, RateLimit: int64(rate),
		ConcurrencyCap: int64(most), ExecutionID: x.id,
	})
	if err != nil {
		return verdict{}, err
	}
	switch reply.Status {
	case enginerpc.StatusRateExceeded:
		return refused(blockedByQuota, "quota %s: rate limit %d/%d per %ds window", id, int64(rate), int64(rate),
			window), nil
	case enginerpc.StatusConcurrencyExceeded:
		return refused(blockedByQuota, "quota %s: concurrency cap %d", id, int64(most)), nil
	case enginerpc.StatusAlreadyAdmitted:
		return admitted(), nil // an earlier call holds it and returns it
	case enginerpc.StatusAdmitted:
		return verdict{release: func(ctx context.Context) {
			_, _ = core.ReleaseAdmission(ctx,
				enginerpc.ReleaseAdmissionCall{Partition: at, QuotaPolicyID: id, ExecutionID: x.id})
		}}, nil
	}
	return verdict{}, errors.New("unknown answer of a quota: " + string(reply.Status))
}
