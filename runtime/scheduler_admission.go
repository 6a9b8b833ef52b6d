package runtime

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
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
)

// verdict is what budgets and quotas say of an execution: nothing, or why it has to wait.
type verdict struct {
	reason, detail string
	release        func(context.Context) // gives back what was taken for the execution
}

func admitted() verdict { return verdict{release: func(context.Context) {}} }

func refused(reason, format string, args ...any) verdict {
	return verdict{reason: reason, detail: fmt.Sprintf(format, args...), release: func(context.Context) {}}
}

// admit asks budgets, then quotas or limits. An abandoned execution goes on under the admission that it has.
func (p *probe) admit(ctx context.Context, x *grantCandidate) (verdict, error) {
	for id := range strings.SplitSeq(x.core["budget_ids"], ",") {
		if id = strings.TrimSpace(id); id == "" {
			continue
		}
		breach, err := p.breach(ctx, id)
		if err != nil {
			return verdict{}, err
		}
		if breach != "" {
			return refused(blockedByBudget, "%s", breach), nil
		}
	}
	switch {
	case x.core.IsReclaimable():
		return admitted(), nil
	case x.core["limits"] != "":
		return p.admitLimited(ctx, x)
	case x.core["quota_policy_id"] != "":
		return p.admitByQuota(ctx, x)
	}
	return admitted(), nil
}

// breach tells which hard limit of a budget is used up, "" when none is.
func (p *probe) breach(ctx context.Context, id string) (string, error) {
	if known, asked := p.budgets[id]; asked {
		return known, nil
	}
	core := p.scheduler.session.core
	client, budget := core.Client(), enginecore.BudgetID(id)
	at, err := core.Partitioning().BudgetPartition(budget)
	if err != nil {
		at = enginecore.Partition{Family: enginecore.BudgetFamily} // where the contract looks for an id that is no UUID
	}
	limits, err := client.Do(ctx, client.B().Hgetall().Key(core.Keys().BudgetLimits(at, budget)).Build()).AsStrMap()
	if err != nil {
		return "", err
	}
	usage, err := client.Do(ctx, client.B().Hgetall().Key(core.Keys().BudgetUsage(at, budget)).Build()).AsStrMap()
	if err != nil {
		return "", err
	}
	var breaches []string
	for field, text := range limits {
		dimension, hard := strings.CutPrefix(field, "hard:")
		limit, err := strconv.ParseFloat(text, 64)
		if !hard || err != nil || limit <= 0 {
			continue
		}
		used, _ := strconv.ParseFloat(usage[dimension], 64)
		if used >= limit {
			breaches = append(breaches, fmt.Sprintf("budget %s: %s %s/%s", core.Keys().BudgetUsage(at, budget), dimension, decimalFloat(used), text))
		}
	}
	slices.Sort(breaches)
	p.budgets[id] = strings.Join(breaches, ", ")
	return p.budgets[id], nil
}

func decimalFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// admitLimited takes an execution through its limits as workers do that claim for themselves: it is set where such wait before
// its quotas are asked, and one that gets no place stays there, until the quota that refused it lets it go. Keepers go on with
// it after a crash.
func (p *probe) admitLimited(ctx context.Context, x *grantCandidate) (verdict, error) {
	epoch := x.core.Int("current_lease_epoch")
	if token, at, found := strings.Cut(x.core["admission"], " "); found && token != "" && at == strconv.FormatInt(epoch, 10) {
		return admitted(), nil
	}
	if !has[limitStore](p.scheduler.session.backend) {
		return p.admitByQuota(ctx, x)
	}
	priority, _ := strconv.ParseFloat(x.core["priority"], 64)
	created, _ := strconv.ParseFloat(x.core["created_at"], 64)
	candidate := enginecore.Candidate{
		ExecutionID: x.id, Token: epoch, Score: decimalFloat(created - priority*priorityStep), Limits: x.core["limits"],
	}
	words, _, _ := strings.Cut(x.core["limits"], "\n")
	_, words, _ = strings.Cut(words, " ")
	client, keys := p.scheduler.session.client, p.scheduler.session.core.Keys()
	at, err := x.id.Partition()
	if err != nil {
		return verdict{}, err
	}
	offered := client.B().Zadd().Key(keys.FfxUnadmitted(at)).ScoreMember().ScoreMember(float64(p.now.Add(offerAgain).UnixMilli()), string(x.id)).Build()
	if err := client.Do(ctx, offered).Error(); err != nil {
		return verdict{}, err
	}
	if err := p.block(ctx, x, blockedByQuota, words); err != nil {
		return verdict{}, err
	}
	admitter{p.scheduler.session}.admit(ctx, []enginecore.Candidate{candidate}, &taker{lane: p.lane, slots: 1})
	admission, err := client.Do(ctx, client.B().Hmget().Key(keys.ExecCore(x.id)).Field("admission").Build()).AsStrSlice()
	if err != nil {
		return verdict{}, err
	}
	if len(admission) == 1 && admission[0] != "" {
		return admitted(), nil
	}
	return verdict{reason: alreadyBlocked, release: func(context.Context) {}}, nil
}

// alreadyBlocked is the reason of a verdict that has been carried out.
const alreadyBlocked = "blocked"

// offerAgain is when a keeper asks for places of an execution that was blocked and never asked for.
const offerAgain = 5 * time.Second

// priorityStep is by how much (ms) one step of priority moves an execution ahead.
const priorityStep = 1e12

// admitByQuota asks the one quota that the record of an execution names.
func (p *probe) admitByQuota(ctx context.Context, x *grantCandidate) (verdict, error) {
	core, id := p.scheduler.session.core, enginecore.QuotaPolicyID(x.core["quota_policy_id"])
	if id == "" {
		return admitted(), nil
	}
	at, err := core.Partitioning().QuotaPartition(id)
	if err != nil {
		at = enginecore.Partition{Family: enginecore.QuotaFamily}
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
	reply, err := core.CheckAdmissionAndRecord(ctx, enginecore.CheckAdmissionAndRecordCall{
		Partition: at, QuotaPolicyID: id, Now: p.now, WindowSeconds: window, RateLimit: int64(rate), ConcurrencyCap: int64(most),
		ExecutionID: x.id,
	})
	if err != nil {
		return verdict{}, err
	}
	switch reply.Status {
	case enginecore.StatusRateExceeded:
		return refused(blockedByQuota, "quota %s: rate limit %d/%d per %ds window", id, int64(rate), int64(rate), window), nil
	case enginecore.StatusConcurrencyExceeded:
		return refused(blockedByQuota, "quota %s: concurrency cap %d", id, int64(most)), nil
	case enginecore.StatusAlreadyAdmitted:
		return admitted(), nil // somebody else's to give back
	case enginecore.StatusAdmitted:
		return verdict{release: func(ctx context.Context) {
			_, _ = core.ReleaseAdmission(ctx, enginecore.ReleaseAdmissionCall{Partition: at, QuotaPolicyID: id, ExecutionID: x.id})
		}}, nil
	}
	return verdict{}, errors.New("unknown answer of a quota: " + string(reply.Status))
}
