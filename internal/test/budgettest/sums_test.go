package budgettest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// summing counts sums in a budget.
type summing struct {
	t    *testing.T
	core *enginerpc.Conn
	call enginerpc.UseBudgetCall
}

// newSumming returns a budget that a first report of 1 has created.
func newSumming(t *testing.T, core *enginerpc.Conn, change func(*enginerpc.UseBudgetCall)) *summing {
	t.Helper()
	call := useOf(t, core, enginerpc.UseBudgetEntry{Kind: "report", Amount: 1, ID: "first"})
	change(&call)
	_, err := core.UseBudget(t.Context(), call)
	require.NoError(t, err)
	return &summing{t, core, call}
}

func (x *summing) sum(serial, amount int64) enginerpc.UsageSum {
	return enginerpc.UsageSum{
		Partition: int64(x.call.Partition.Index), BudgetID: x.call.BudgetID, Dimension: "tokens", Amount: amount, Account: "a", Serial: serial,
		Declares: true, Declared: "1", DeclaredAt: x.call.DeclaredAt,
	}
}

func (x *summing) count(sum enginerpc.UsageSum) bool {
	x.t.Helper()
	reply, err := x.core.CountUsage(x.t.Context(), enginerpc.CountUsageCall{Partition: x.call.Partition, Sums: []enginerpc.UsageSum{sum}})
	require.NoError(x.t, err)
	return reply.Counted == "1"
}

func (x *summing) spent() int64 {
	x.t.Helper()
	reply, err := x.core.GetBudgets(x.t.Context(), enginerpc.GetBudgetsCall{
		Partition: x.call.Partition, BudgetIDs: []enginecore.BudgetID{x.call.BudgetID},
	})
	require.NoError(x.t, err)
	return reply.Budgets[0].Dims[0].Spent
}

// A sum counts once, also when an earlier one arrives after it.
func TestSumCountsOnce(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		x := newSumming(t, engine.ConnOf(b.Engine.Internal()), func(*enginerpc.UseBudgetCall) {})
		for _, sum := range []struct{ serial, amount, spent int64 }{
			{1, 5, 6}, {1, 5, 6}, {3, 7, 13}, {2, 100, 13}, {3, 7, 13}, {4, 1, 14},
		} {
			require.True(t, x.count(x.sum(sum.serial, sum.amount)))
			require.Equal(t, sum.spent, x.spent(), "%+v", sum)
		}
		other := x.sum(1, 1)
		other.Account = "b"
		require.True(t, x.count(other))
		require.EqualValues(t, 15, x.spent())
	})
}

// A sum is not counted where something follows from a single report, and a sum that was counted remains counted there.
func TestSumIsLeftToItsReports(t *testing.T) {
	t.Parallel()
	limits := func(hard, soft int64) func(*enginerpc.UseBudgetCall) {
		return func(c *enginerpc.UseBudgetCall) { c.Dims[0].Hard, c.Dims[0].Soft, c.Effect = hard, soft, "block" }
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		core := engine.ConnOf(b.Engine.Internal())
		hard := newSumming(t, core, limits(10, 0))
		require.True(t, hard.count(hard.sum(1, 8)))
		require.False(t, hard.count(hard.sum(2, 1)), "the budget would be used up")
		require.True(t, hard.count(hard.sum(1, 8)))
		require.EqualValues(t, 9, hard.spent())

		soft := newSumming(t, core, limits(0, 10))
		require.True(t, soft.count(soft.sum(1, 9)))
		require.False(t, soft.count(soft.sum(2, 1)), "the soft limit would be exceeded")
		soft.call.Entries[0].ID, soft.call.Entries[0].Amount = "second", 1
		_, err := core.UseBudget(t.Context(), soft.call)
		require.NoError(t, err)
		require.True(t, soft.count(soft.sum(3, 1)), "it is exceeded")

		reserved := newSumming(t, core, limits(10, 0))
		reserved.call.Entries[0].Kind, reserved.call.Entries[0].Amount, reserved.call.Entries[0].ID = "reserve", 6, "{fp:1}:e/1/1"
		_, err = core.UseBudget(t.Context(), reserved.call)
		require.NoError(t, err)
		require.False(t, reserved.count(reserved.sum(1, 3)), "a part is reserved")
		require.True(t, reserved.count(reserved.sum(1, 2)))

		declared := newSumming(t, core, limits(10, 0))
		later := declared.sum(1, 1)
		later.Declared, later.DeclaredAt = "2", declared.call.DeclaredAt+1
		require.False(t, declared.count(later), "other limits are declared")
		later.DeclaredAt = declared.call.DeclaredAt - 1
		require.True(t, declared.count(later), "by an earlier run")

		unknown := hard.sum(3, 1)
		unknown.Dimension = "miles"
		require.False(t, hard.count(unknown))
		unknown = hard.sum(3, 1)
		unknown.BudgetID = enginecore.BudgetID(uuid.NewString())
		require.False(t, hard.count(unknown), "no such budget")

		reset := newSumming(t, core, func(c *enginerpc.UseBudgetCall) { c.Interval = time.Millisecond })
		serial := int64(0)
		enginetest.Eventually(t, func() string {
			serial++
			if reset.count(reset.sum(serial, 1)) {
				return "a reset that is due"
			}
			return ""
		})
	})
}

// Reports of several workers, near the limit too, are counted or refused one by one, and the budget has the counted ones.
func TestWorkersReportUpToTheLimit(t *testing.T) {
	t.Parallel()
	const runs, width, reports, hard = 4, 8, 12, 300
	for _, effect := range []flow.BudgetEffect{flow.FailNode, flow.BlockNodes} {
		t.Run(fmt.Sprint(effect), func(t *testing.T) {
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				ctx := enginetest.Context(t)
				var counted, refused atomic.Int64
				a := activity.New("report", func(ctx context.Context, in string) (string, error) {
					for range reports {
						err := activity.ReportUsage(ctx, "tokens", 1)
						switch {
						case errors.Is(err, activity.ErrBudgetExceeded):
							refused.Add(1)
						case err != nil:
							return "", err
						default:
							counted.Add(1)
						}
					}
					return in, activity.ReportUsage(ctx, "nodes", 1)
				})
				def := fan(t, "limited", a, width,
					flow.Budget("all", flow.BudgetConfig{Counted: []string{"tokens", "nodes"}, Shared: true}),
					flow.Budget("limited", flow.BudgetConfig{
						Hard: map[string]int64{"tokens": hard}, Soft: map[string]int64{"tokens": 250}, PerFlow: true, OnExceeded: effect,
					}))
				for range 3 {
					work(t, b, def, runtime.WorkerConfig{Concurrency: 4})
				}
				b.Keeper(t)
				var starts sync.WaitGroup
				for i := range runs {
					starts.Go(func() { start(ctx, t, b, def, fmt.Sprint(i)) })
				}
				starts.Wait()
				limited, all := fabrictype.BudgetName{Name: "limited", Flow: "limited"}, fabrictype.BudgetName{Name: "all"}
				enginetest.Eventually(t, func() string {
					s, err := b.Client.Budget(limited).Describe(ctx)
					if err != nil || s.Amount("tokens").Spent < hard || refused.Load() == 0 {
						return "the limit"
					}
					return ""
				})
				if effect == flow.BlockNodes {
					require.NoError(t, b.Client.Budget(limited).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"tokens": 1 << 40}, OnExceeded: effect}))
				}
				enginetest.Eventually(t, func() string {
					if n := amountOf(ctx, t, b, all, "nodes").Spent; n < runs*width {
						return fmt.Sprint(n, " nodes have ended")
					}
					return ""
				})
				require.Equal(t, counted.Load(), amountOf(ctx, t, b, limited, "tokens").Spent)
				require.EqualValues(t, runs*width, amountOf(ctx, t, b, all, "nodes").Spent)
				require.EqualValues(t, runs*width*reports, amountOf(ctx, t, b, all, "tokens").Spent, "also reports that the other budget refuses")
				if effect == flow.FailNode {
					require.EqualValues(t, hard, counted.Load())
				}
				list, err := b.Client.Budget(limited).Describe(ctx)
				require.NoError(t, err)
				require.Equal(t, 1, list.SoftBreaches)
			})
		})
	}
}
