package contracttest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

var (
	budgetPartition = keyspace.Partition{Family: keyspace.BudgetFamily, Index: 1}
	quotaPartition  = keyspace.Partition{Family: keyspace.QuotaFamily, Index: 1}
)

func (b *bench) budget(limits ...enginerpc.CreateBudgetDim) enginecore.BudgetID {
	b.tb.Helper()
	id := enginecore.BudgetID(uuid.NewString())
	must(b, enginerpc.CreateBudgetCall{
		Partition: budgetPartition, BudgetID: id, ScopeType: "lane", ScopeID: lane, EnforcementMode: "strict", OnHardLimit: "fail",
		OnSoftLimit: "warn", ResetInterval: time.Hour, Now: time.Now(), Dims: limits,
	})
	return id
}

func use(id enginecore.BudgetID, dims ...enginerpc.ReportUsageAndCheckDim) enginerpc.ReportUsageAndCheckCall {
	return enginerpc.ReportUsageAndCheckCall{Partition: budgetPartition, BudgetID: id, Dims: dims, Now: time.Now()}
}

func (b *bench) quota(window, rate, concurrent int64) enginecore.QuotaPolicyID {
	b.tb.Helper()
	id := enginecore.QuotaPolicyID(uuid.NewString())
	must(b, enginerpc.CreateQuotaPolicyCall{
		Partition: quotaPartition, QuotaPolicyID: id, WindowSeconds: window, MaxRequestsPerWindow: rate, MaxConcurrent: concurrent, Now: time.Now(),
	})
	return id
}

// admit requests an admission with limits of the caller, which the library ignores.
func (b *bench) admit(id enginecore.QuotaPolicyID, e enginecore.ExecutionID) enginerpc.Status {
	b.tb.Helper()
	return must(b, enginerpc.CheckAdmissionAndRecordCall{
		Partition: quotaPartition, QuotaPolicyID: id, Now: time.Now(), WindowSeconds: 60, RateLimit: 1000, ConcurrencyCap: 1000, ExecutionID: e,
	}).Status
}

func (b *bench) release(id enginecore.QuotaPolicyID, e enginecore.ExecutionID) {
	b.tb.Helper()
	must(b, enginerpc.ReleaseAdmissionCall{Partition: quotaPartition, QuotaPolicyID: id, ExecutionID: e})
}

func (b *bench) admitted(id enginecore.QuotaPolicyID) string {
	b.tb.Helper()
	text, err := b.do("GET", b.keys.QuotaConcurrency(quotaPartition, id)).ToString()
	if err != nil {
		b.tb.Fatal(err)
	}
	return text
}

var budgetHazards = []hazard{
	{"D8 the stored policy counts", func(t *testing.T, b *bench) {
		id := b.quota(60, 1, 0)
		want(t, "first", b.admit(id, newExecutionID()), "ADMITTED")
		want(t, "second", b.admit(id, newExecutionID()), "RATE_EXCEEDED")
		id = b.quota(60, 0, 1)
		want(t, "first", b.admit(id, newExecutionID()), "ADMITTED")
		want(t, "second", b.admit(id, newExecutionID()), "CONCURRENCY_EXCEEDED")
	}},
	{"E2 a slot is given back once, by its holder", func(t *testing.T, b *bench) {
		id := b.quota(60, 0, 5)
		e, other := newExecutionID(), newExecutionID()
		b.admit(id, e)
		b.admit(id, other)
		b.release(id, newExecutionID())
		want(t, "after a stranger's release", b.admitted(id), "2")
		b.release(id, e)
		b.release(id, e)
		want(t, "after two releases", b.admitted(id), "1")
	}},
	{"E3 a release frees the place in the window", func(t *testing.T, b *bench) {
		id, e := b.quota(60, 1, 0), newExecutionID()
		b.admit(id, e)
		b.release(id, e)
		want(t, "another", b.admit(id, newExecutionID()), "ADMITTED")
	}},
	{"E7 a dimension named twice has one limit", func(t *testing.T, b *bench) {
		id := b.budget(enginerpc.CreateBudgetDim{Name: "a", Hard: "10", Soft: "0"})
		twice := use(id, enginerpc.ReportUsageAndCheckDim{Name: "a", Delta: 6}, enginerpc.ReportUsageAndCheckDim{Name: "a", Delta: 6})
		want(t, "status", must(b, twice).Status, "HARD_BREACH")
		want(t, "usage", b.field(b.keys.BudgetUsage(budgetPartition, id), "a"), "")
	}},
	{"E8 an early reset does not shift the schedule", func(t *testing.T, b *bench) {
		id := b.budget()
		at := b.field(b.keys.BudgetRecord(budgetPartition, id), "next_reset_at")
		reply := must(b, enginerpc.ResetBudgetCall{Partition: budgetPartition, BudgetID: id, Now: time.Now().Add(time.Minute)})
		want(t, "next reset", fmt.Sprint(reply.NextResetAt.UnixMilli()), at)
		reply = must(b, enginerpc.ResetBudgetCall{Partition: budgetPartition, BudgetID: id, Now: time.Now().Add(150 * time.Minute)})
		want(t, "reset after two were missed", fmt.Sprint(reply.NextResetAt.UnixMilli()), fmt.Sprint(atoi(at)+2*time.Hour.Milliseconds()))
	}},
	{"E9 large numbers have all their digits", func(t *testing.T, b *bench) {
		id := b.budget(enginerpc.CreateBudgetDim{Name: "a", Hard: "0", Soft: "1"})
		want(t, "usage", must(b, use(id, enginerpc.ReportUsageAndCheckDim{Name: "a", Delta: 1234567890123456})).Current, 1234567890123456)
	}},
	{"E10 an admission without a window counts once", func(t *testing.T, b *bench) {
		id, e := b.quota(0, 0, 5), newExecutionID()
		want(t, "first", b.admit(id, e), "ADMITTED")
		want(t, "again", b.admit(id, e), "ALREADY_ADMITTED")
		want(t, "counted", b.admitted(id), "1")
	}},
}
