package connecttest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/internal/test/workload"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// signal ends the wait of a gated run.
func signal(t *testing.T, ctx context.Context, client *runtime.Client, id string) {
	t.Helper()
	_, err := client.Run("gated", id).SignalWait(ctx, runtime.WaitName{Node: "go"}, runtime.Signal{Name: "go", Payload: "on"})
	require.NoError(t, err)
}

func onServers(t *testing.T, test func(t *testing.T, kind testserver.Kind)) {
	t.Helper()
	testserver.SideBySide(t, testserver.Servers(t), test)
}

// pair is a primary and its replica, and an address that leads to the primary.
type pair struct {
	primary, replica *testserver.Server
	address          *proxy.Proxy
}

func newPair(t *testing.T, kind testserver.Kind) *pair {
	t.Helper()
	p := &pair{primary: testserver.Start(t, testserver.Options{Kind: kind, Args: []string{"repl-diskless-sync-delay 0"}})}
	p.replica = testserver.Start(t, testserver.Options{Kind: kind, Args: []string{
		"repl-diskless-sync-delay 0", "replicaof " + strings.Replace(p.primary.Addr(), ":", " ", 1),
	}})
	p.address = proxy.Start(t, p.primary.Addr())
	p.awaitLink(t, p.replica)
	return p
}

func (p *pair) awaitLink(t *testing.T, replica *testserver.Server) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		if info := replica.Query(t, "INFO", "replication"); !strings.Contains(info, "master_link_status:up") {
			return info
		}
		return ""
	})
}

// failOver promotes the replica, to which the address leads from then on. The former primary becomes the replica of
// primaryOf, host:port, and keeps its connections.
func (p *pair) failOver(t *testing.T, primaryOf string) {
	t.Helper()
	p.primary.Command(t, "CLIENT", "PAUSE", "60000", "WRITE")
	enginetest.Eventually(t, func() string {
		at := func(s *testserver.Server) string {
			_, rest, _ := strings.Cut(s.Query(t, "INFO", "replication"), "master_repl_offset:")
			offset, _, _ := strings.Cut(rest, "\r\n")
			return offset
		}
		if ahead, behind := at(p.primary), at(p.replica); ahead != behind {
			return fmt.Sprintf("the replica is at %s of %s", behind, ahead)
		}
		return ""
	})
	p.replica.Command(t, "REPLICAOF", "NO", "ONE")
	p.address.Lead(p.replica.Addr())
	host, port, _ := strings.Cut(primaryOf, ":")
	p.primary.Command(t, "REPLICAOF", host, port)
	p.primary.Command(t, "CLIENT", "UNPAUSE")
}

// After a failover, the address leads to the new primary, and programs with connections to the former one reconnect to
// it: clients, workers and keepers, with open runs.
func TestAddressLeadsToAnotherServer(t *testing.T) {
	t.Parallel() // most of it is waiting
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		p := newPair(t, kind)
		b := enginetest.Open(t, kind, string(kind)+"://"+p.address.Addr(), enginetest.NewPrefix())
		ctx := enginetest.Context(t)
		def, waiting := workload.Counting(t), workload.Gated(t)
		b.Worker(t, []activity.Handler{workload.PlusOne})
		b.Keeper(t)
		before, err := runtime.Start(ctx, b.Client, waiting, 1)
		require.NoError(t, err)
		result := make(chan string, 1)
		go func() {
			text, err := before.Result(ctx)
			result <- fmt.Sprint(text, err)
		}()
		p.failOver(t, p.replica.Addr())
		for i := range 10 {
			run, err := runtime.Start(ctx, b.Client, def, i, runtime.WithID(fmt.Sprint("after-", i)))
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, i+1, out)
		}
		signal(t, ctx, b.Client, before.ID())
		require.Equal(t, "on<nil>", <-result)
		b.Settle(t)
	})
}

// A program that only reads and subscribes leaves a former primary that no longer receives writes.
func TestReadersLeaveFormerPrimary(t *testing.T) {
	t.Parallel() // most of it is waiting
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		p := newPair(t, kind)
		url, prefix := string(kind)+"://"+p.address.Addr(), enginetest.NewPrefix()
		reader := enginetest.Open(t, kind, url, prefix)
		ctx := enginetest.Context(t)
		def := workload.Gated(t)
		run, err := runtime.Start(ctx, reader.Client, def, 1)
		require.NoError(t, err)
		watched := make(chan error, 1)
		reading := make(chan struct{})
		go func() {
			var last error
			for _, err := range run.Watch(ctx, "") {
				select {
				case <-reading:
				default:
					close(reading)
				}
				last = err
			}
			watched <- last
		}()
		<-reading
		p.failOver(t, "127.0.0.1:1") // a primary that does not exist, so its data stays

		writer := enginetest.Open(t, kind, url, prefix)
		writer.Worker(t, []activity.Handler{workload.PlusOne})
		signal(t, ctx, writer.Client, run.ID())
		require.NoError(t, <-watched)
		enginetest.Eventually(t, func() string {
			d, err := reader.Client.Run("gated", run.ID()).Describe(ctx)
			if err != nil || d.State != fabrictype.RunSucceeded {
				return fmt.Sprint(d.State, err)
			}
			return ""
		})
	})
}

// A replica is not taken for an engine.
func TestReplicaIsRefused(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		p := newPair(t, kind)
		enginetest.Open(t, kind, p.primary.URL(), enginetest.NewPrefix())
		require.ErrorContains(t, openUntilUnready(t, p.replica.URL()), "replica")
	})
}

// Programs find the new primary although the sentinel that they follow is frozen, or dies together with the primary.
func TestFailoverWithoutOneSentinel(t *testing.T) {
	t.Parallel() // most of it is waiting
	for name, lose := range map[string]func(*testing.T, *testserver.Watched){
		"frozen": func(t *testing.T, w *testserver.Watched) { require.NoError(t, w.Sentinel.Freeze()) },
		"killed": func(_ *testing.T, w *testserver.Watched) {
			w.Sentinel.Kill()
			w.Primary.Kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onServers(t, func(t *testing.T, kind testserver.Kind) {
				w := testserver.StartSentinel(t, kind)
				other := w.AddSentinel(t)
				b := enginetest.Open(t, kind, w.URLOf(w.Sentinel, other), enginetest.NewPrefix())
				ctx := enginetest.Context(t)
				def := workload.Counting(t)
				b.Worker(t, []activity.Handler{workload.PlusOne}, runtime.WorkerConfig{Lease: 2 * time.Second})
				b.Keeper(t)
				w.InStep(t)
				lose(t, w)
				w.Promote(t, other)
				for i := range 5 {
					out, err := untilResult(ctx, b, def, fmt.Sprint("after-", i), i)
					require.NoError(t, err)
					require.Equal(t, i+1, out)
				}
				b.Settle(t)
			})
		})
	}
}

// untilResult starts a flow under one id and waits for its result. It repeats both after errors.
func untilResult(
	ctx context.Context, b *enginetest.Bench, def *flow.Definition[int, int], id string, in int,
) (out int, err error) {
	for ctx.Err() == nil {
		run, failed := runtime.Start(ctx, b.Client, def, in, runtime.WithID(id))
		if err = failed; err == nil {
			if out, err = run.Result(ctx); err == nil {
				return out, nil
			}
		}
	}
	return 0, err
}
