package budgettest

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Workers whose replies get lost, and that are stopped in the middle, count everything once, never exceed the limit,
// and leave no reservations; waiting nodes continue with each reset.
func TestUseThroughLostReplies(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const runs, width, hard = 4, 12, 40
		ctx := enginetest.Context(t)
		b, far, proxies := faulty(t, b)
		var settled, unsure atomic.Int64
		a := activity.New("spend", func(ctx context.Context, in string) (string, error) {
			r, err := activity.Reserve(ctx, "tokens", 9)
			if err != nil {
				return "", err
			}
			n := int64(len(activityNode(ctx))) // some more, some less
			if err := r.Settle(ctx, n); err != nil {
				unsure.Add(n)
				return "", err
			}
			settled.Add(n)
			return in, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 100}))
		def := fan(t, "faulty", a, width, flow.Budget("all", flow.BudgetConfig{Counted: []string{"tokens"}, PerFlow: true}),
			flow.Budget("gate", flow.BudgetConfig{Hard: map[string]int64{"tokens": hard}, PerFlow: true, ResetEvery: flowgraph.MinBudgetReset, OnExceeded: flow.BlockNodes}))
		keeper := b.Keeper(t)
		worker := far.Worker(t, def.Handlers(), runtime.WorkerConfig{Lease: 3 * time.Second})
		var started []*runtime.Run[string]
		for i := range runs {
			started = append(started, start(ctx, t, b, def, fmt.Sprint(i)))
		}
		stopped := far.Worker(t, def.Handlers(), runtime.WorkerConfig{Lease: 3 * time.Second, Grace: -1})
		gate, all := fabrictype.BudgetName{Name: "gate", Flow: "faulty"}, fabrictype.BudgetName{Name: "all", Flow: "faulty"}
		watching, stop := context.WithCancel(ctx)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for watching.Err() == nil {
				if s, err := b.Client.Budget(gate).Describe(watching); err == nil {
					x := s.Amount("tokens")
					assert.LessOrEqual(t, x.Spent+x.Reserved, int64(hard))
				}
				time.Sleep(time.Millisecond) //nolint:forbidigo // between two probes
			}
		}()
		time.AfterFunc(50*time.Millisecond, func() { _ = stopped.Stop() })
		for _, run := range started {
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
		stop()
		<-watched
		for _, p := range proxies {
			p.Intercept(nil)
			t.Logf("%d replies were lost", p.Lost())
		}
		spent := amountOf(ctx, t, b, all, "tokens").Spent
		require.GreaterOrEqual(t, spent, settled.Load())
		require.LessOrEqual(t, spent, settled.Load()+unsure.Load())
		require.GreaterOrEqual(t, spent, int64(2*runs*width))
		// Where the reply to a reservation was lost and its worker stopped, keepers find out after half a minute.
		enginetest.Eventually(t, func() string {
			if n := amountOf(context.Background(), t, b, all, "tokens").Reserved + amountOf(context.Background(), t, b, gate, "tokens").Reserved; n > 0 {
				return fmt.Sprint(n, " tokens are still reserved")
			}
			return ""
		})
		// While keepers run, the gate is reset ten times a second, and a slow machine never reads its partition twice
		// in between. The test performs the remaining keeper tasks itself.
		require.NoError(t, worker.Stop())
		require.NoError(t, keeper.Stop())
		enginetest.Eventually(t, func() string {
			s, err := invariant.Read(ctx, b.Operator(), b.Prefix)
			require.NoError(t, err)
			if err := s.Check(invariant.Quiescent).Err(); err != nil {
				b.RunKeeperTasks(t)
				return err.Error()
			}
			return ""
		})
	})
}

// faulty puts proxies that lose replies between an engine and its clients: near reaches a single server directly, far
// through the proxy. Servers of a cluster announce the addresses of their proxies, so there near and far are the same.
func faulty(t *testing.T, b *enginetest.Bench) (near, far *enginetest.Bench, proxies []*proxy.Proxy) {
	t.Helper()
	switch b.Kind {
	case testserver.Embedded:
		return b, b, nil
	case testserver.OnCluster:
		cluster := testserver.StartCluster(t, testserver.Valkey, 3)
		var addresses []string
		for _, node := range cluster.Nodes {
			p := proxy.Start(t, node.Addr())
			proxies, addresses = append(proxies, p), append(addresses, p.Addr())
		}
		cluster.Announce(t, addresses)
		near = enginetest.Open(t, b.Kind, cluster.URL(), b.Prefix)
		far = near
	default:
		server, err := url.Parse(b.URL)
		require.NoError(t, err)
		p := proxy.Start(t, server.Host)
		server.Host = p.Addr()
		near, far, proxies = b, enginetest.Open(t, b.Kind, server.String(), b.Prefix), append(proxies, p)
	}
	for _, p := range proxies {
		p.Intercept(proxy.CutCalls(20))
	}
	return near, far, proxies
}

func activityNode(ctx context.Context) string {
	info, _ := activity.Info(ctx)
	return info.Node
}
