package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/findingcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// logText collects the text of a logger.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// opened opens an engine and returns the log of Open.
func opened(t *testing.T, url string, volatile bool) (*runtime.Engine, string) {
	t.Helper()
	log := &logText{}
	e, err := runtime.Open(enginetest.Context(t), url, runtime.OpenConfig{
		Prefix: "look", Partitions: 2, Logger: slog.New(slog.NewTextHandler(log, nil)), AllowVolatile: volatile,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e, log.String()
}

// findings returns the findings of an inspection, by code.
func findings(t *testing.T, e *runtime.Engine) map[string]fabrictype.Finding {
	t.Helper()
	i, err := e.Inspect(enginetest.Context(t))
	require.NoError(t, err)
	found := make(map[string]fabrictype.Finding)
	for at, f := range i.Findings {
		found[f.Code] = f
		require.NotEmpty(t, f.Subject, f)
		require.NotEmpty(t, f.Found, f)
		if at > 0 {
			require.LessOrEqual(t, f.Severity, i.Findings[at-1].Severity, "the worst come first")
		}
		if f.Severity > fabrictype.SeverityInfo && f.Code != findingcode.LookFailed {
			require.NotEmpty(t, f.Remedy, f)
		}
	}
	return found
}

// A server that loses work is warned of once by Open, found by Inspect with its remedy, and fails the check, until it
// is set right.
func TestServerSetUpWrongly(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind})
		set := func(name, value string) { server.Command(t, "CONFIG", "SET", name, value) }
		e, log := opened(t, server.URL(), false)
		require.Equal(t, 1, strings.Count(log, "event=server.misconfigured"), log)
		require.Contains(t, log, "persistence.off")
		require.Equal(t, fabrictype.SeverityWarning, findings(t, e)[findingcode.PersistenceOff].Severity)
		err := e.Check(t.Context())
		require.ErrorIs(t, err, runtime.ErrNotReady)
		require.ErrorContains(t, err, "CONFIG SET appendonly yes")

		volatile, log := opened(t, server.URL(), true)
		require.NotContains(t, log, "misconfigured")
		require.NoError(t, volatile.Check(t.Context()))
		require.Equal(t, fabrictype.SeverityInfo, findings(t, volatile)[findingcode.PersistenceOff].Severity)

		set("appendonly", "yes")
		require.NoError(t, e.Check(t.Context()))
		require.NotContains(t, findings(t, e), findingcode.PersistenceOff)
		require.Contains(t, findings(t, e)[findingcode.Server].Found, strings.ToUpper(string(kind)[:1])+string(kind)[1:])
		set("appendfsync", "no")
		require.Equal(t, fabrictype.SeverityWarning, findings(t, e)[findingcode.Fsync].Severity)
		set("appendfsync", "always")
		require.NotContains(t, findings(t, e), findingcode.Fsync)

		set("maxmemory-policy", "allkeys-lru")
		require.NoError(t, e.Check(t.Context()), "nothing is evicted without a limit")
		set("maxmemory", "1gb")
		require.ErrorContains(t, e.Check(t.Context()), "eviction.on")
		require.Equal(t, fabrictype.SeverityError, findings(t, e)[findingcode.Eviction].Severity)
		_, log = opened(t, server.URL(), false)
		require.Equal(t, 1, strings.Count(log, "event=server.misconfigured"), log)
		require.Contains(t, log, "eviction.on")

		set("maxmemory-policy", "noeviction")
		require.NoError(t, e.Check(t.Context()))
		set("maxmemory", "1mb")
		err = e.Check(t.Context())
		require.ErrorIs(t, err, runtime.ErrNotReady)
		require.ErrorIs(t, err, enginecore.ErrFull)
		require.ErrorContains(t, err, "memory.full")
		require.Equal(t, fabrictype.SeverityError, findings(t, e)[findingcode.MemoryFull].Severity)
		set("maxmemory", "0")
		require.NoError(t, e.Check(t.Context()))
	})
}

// Open and the check omit the settings that the user may not read, and Inspect names them.
func TestInspectWithFewRights(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind, Args: []string{"maxmemory-policy allkeys-lru", "maxmemory 1gb"}})
		server.Command(t, "ACL", "SETUSER", "app", "on", ">pw", "~look:*", "resetchannels", "&look:*", "+@all", "-info", "-config", "-pubsub")
		u, err := url.Parse(server.URL())
		require.NoError(t, err)
		u.User = url.UserPassword("app", "pw")
		e, log := opened(t, u.String(), false)
		require.NotContains(t, log, "misconfigured")
		require.NoError(t, e.Check(t.Context()))
		found := findings(t, e)
		require.Equal(t, fabrictype.SeverityInfo, found[findingcode.NotAllowed].Severity)
		require.NotContains(t, found, findingcode.Rights)
		server.Command(t, "ACL", "SETUSER", "app", "resetchannels")
		found = findings(t, e)
		require.Equal(t, fabrictype.SeverityError, found[findingcode.Rights].Severity)
		require.Contains(t, found[findingcode.Rights].Remedy, "&look:*")
	})
}

// Inspect counts keepers and workers by their presence, and reports late work that no keeper performs.
func TestInspectWorkersAndKeepers(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		noop := activity.New("noop", func(_ context.Context, n int) (int, error) { return n, nil })
		_, err := runtime.Start(ctx, b.Client, fixture.Single(t, noop), 1)
		require.NoError(t, err)
		client, p := engine.ConnOf(b.Engine.Internal()).Client(), keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}
		due := client.B().Zadd().Key(engine.ConnOf(b.Engine.Internal()).Keys().IndexAttemptTimeout(p)).ScoreMember().ScoreMember(1, "nothing").Build()
		require.NoError(t, client.Do(ctx, due).Error())
		found := findings(t, b.Engine)
		require.Equal(t, fabrictype.SeverityWarning, found[findingcode.KeeperNone].Severity)
		require.Contains(t, found[findingcode.KeeperLag].Found, "attempt timeouts")
		require.Equal(t, "lane default", found[findingcode.WorkerNone].Subject)

		b.Keeper(t)
		b.Worker(t, []activity.Handler{noop})
		enginetest.Eventually(t, func() string {
			found := findings(t, b.Engine)
			for _, code := range []string{findingcode.KeeperNone, findingcode.KeeperLag, findingcode.WorkerNone} {
				if f, ok := found[code]; ok {
					return f.String()
				}
			}
			if _, ok := found[findingcode.Keepers]; !ok {
				return "no keepers are counted"
			}
			return ""
		})
	})
}

// Draining workers still listen for their lanes, and serve none.
func TestInspectDrainingWorkers(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		noop := activity.New("noop", func(_ context.Context, n int) (int, error) { return n, nil })
		b.Worker(t, []activity.Handler{noop})
		b.Worker(t, []activity.Handler{noop})
		var list []fabrictype.Worker
		enginetest.Eventually(t, func() (missing string) {
			var err error
			if list, err = b.Client.Workers(ctx); err != nil || len(list) < 2 {
				missing = "two workers have not reported"
			}
			return missing
		})
		for _, w := range list {
			require.NoError(t, b.Client.DrainWorker(ctx, w.Instance))
		}
		enginetest.Eventually(t, func() string {
			list, err := b.Client.Workers(ctx)
			require.NoError(t, err)
			for _, w := range list {
				if w.State != "draining" {
					return "a worker does not drain"
				}
			}
			return ""
		})
		_, err := runtime.Start(ctx, b.Client, fixture.Single(t, noop), 1)
		require.NoError(t, err)
		found := findings(t, b.Engine)[findingcode.WorkerNone]
		require.Equal(t, fabrictype.SeverityError, found.Severity)
		require.Equal(t, "lane default", found.Subject)
		require.Contains(t, found.Found, "all workers of the lane drain: 2")

		b.Worker(t, []activity.Handler{noop})
		enginetest.Eventually(t, func() string {
			if f, ok := findings(t, b.Engine)[findingcode.WorkerNone]; ok {
				return f.String()
			}
			return ""
		})
	})
}

// A finding names the workers of one lane whose types for an activity differ. Different builds with the same types give
// no finding.
func TestWorkersWithOtherTypes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		type before struct {
			Count string `json:"count"`
			Of    []int  `json:"of"`
		}
		type same struct {
			Of    []int   `json:"of"`
			Count *string `json:"count,omitempty"`
		}
		type now struct {
			Count int   `json:"count"`
			Of    []int `json:"of"`
		}
		first := activity.New("typed", func(context.Context, before) (int, error) { return 1, nil })
		second := activity.New("typed", func(context.Context, same) (int, error) { return 1, nil })
		third := activity.New("typed", func(context.Context, now) (int, error) { return 1, nil })
		b.Worker(t, []activity.Handler{first}, runtime.WorkerConfig{Name: "first"})
		b.Worker(t, []activity.Handler{second}, runtime.WorkerConfig{Name: "second"})
		// A worker of another build with these types, as its record says it.
		core, ctx := engine.ConnOf(b.Engine.Internal()), enginetest.Context(t)
		types := func() map[string]string {
			reply, err := core.ListWorkers(ctx, enginerpc.ListWorkersCall{Partition: engine.Directory()})
			require.NoError(t, err)
			for _, w := range reply.Workers {
				if about := engine.ReadWorkerAbout(w.About); about.Name == "first" {
					return about.Types
				}
			}
			return nil
		}
		enginetest.Eventually(t, func() string {
			if len(types()) == 0 {
				return "the worker has not reported its types"
			}
			return ""
		})
		about, err := json.Marshal(engine.WorkerAbout{
			Name: "older", Build: fabrictype.Build{Package: "example.com/shop/cmd/worker", Version: "v1.2.3"}, Types: types(),
		})
		require.NoError(t, err)
		_, err = core.ReportWorker(ctx, enginerpc.ReportWorkerCall{
			Partition: engine.Directory(), WorkerInstanceID: "older-0", State: "running", TTL: time.Hour,
			Lanes: "default", Kinds: "typed", About: about,
		})
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			list, err := b.Client.Workers(ctx)
			require.NoError(t, err)
			if len(list) < 3 {
				return "a worker has not reported"
			}
			return ""
		})
		require.NotContains(t, findings(t, b.Engine), findingcode.WorkerTypes)

		b.Worker(t, []activity.Handler{third}, runtime.WorkerConfig{Name: "third"})
		enginetest.Eventually(t, func() string {
			if _, ok := findings(t, b.Engine)[findingcode.WorkerTypes]; !ok {
				return "no finding about the types"
			}
			return ""
		})
		found := findings(t, b.Engine)[findingcode.WorkerTypes]
		require.Equal(t, fabrictype.SeverityWarning, found.Severity)
		require.Equal(t, "activity typed", found.Subject)
		for _, part := range []string{"its input: first on ", ", older (example.com/shop/cmd/worker v1.2.3), second on ", "; others: third on "} {
			require.Contains(t, found.Found, part)
		}
	})
}
