package connecttest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/workload"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// runsAFlow checks that an engine at a URL can be used.
func runsAFlow(t *testing.T, kind testserver.Kind, url string, config ...runtime.OpenConfig) *enginetest.Bench {
	t.Helper()
	b := enginetest.Open(t, kind, url, enginetest.NewPrefix(), config...)
	b.Worker(t, []activity.Handler{workload.PlusOne})
	startOne(t, b)
	return b
}

func startOne(t *testing.T, b *enginetest.Bench) {
	t.Helper()
	ctx := enginetest.Context(t)
	run, err := runtime.Start(ctx, b.Client, workload.Counting(t), 1)
	require.NoError(t, err)
	out, err := run.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, out)
}

// secured runs a primary and a sentinel with passwords, of which "" is none, and returns the address of the sentinel.
func secured(t *testing.T, kind testserver.Kind, ofServer, ofSentinel string) string {
	t.Helper()
	primary := testserver.Start(t, testserver.Options{Kind: kind, Password: ofServer})
	sentinel := testserver.Start(t, testserver.Options{Kind: kind, Sentinel: true, Password: ofSentinel})
	host, port, _ := strings.Cut(primary.Addr(), ":")
	sentinel.Command(t, "SENTINEL", "MONITOR", "primary", host, port, "1")
	if ofServer != "" {
		sentinel.Command(t, "SENTINEL", "SET", "primary", "auth-pass", ofServer)
	}
	return sentinel.Addr()
}

// Sentinels have the server's password, another one, a password although the server has none, or no password.
func TestSecuredSentinels(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		scheme := string(kind) + "+sentinel://"
		own := func(context.Context) (string, string, error) { return "", "own", nil }
		for name, x := range map[string]struct {
			ofServer, ofSentinel, user, query string
			config                            runtime.OpenConfig
		}{
			"one password for both":       {ofServer: "same", ofSentinel: "same", user: ":same@"},
			"two passwords":               {ofServer: "secret", ofSentinel: "o&n", user: ":secret@", query: "?sentinel_password=o%26n"},
			"with the default user":       {ofServer: "secret", ofSentinel: "own", user: "default:secret@", query: "?sentinel_username=default&sentinel_password=own"},
			"a password of the sentinel":  {ofSentinel: "own", query: "?sentinel_password=own"},
			"a password of the server":    {ofServer: "secret", user: ":secret@"},
			"credentials of the sentinel": {ofServer: "secret", ofSentinel: "own", user: ":secret@", config: runtime.OpenConfig{Sentinel: runtime.SentinelConfig{Credentials: own}}},
			"credentials of both":         {ofServer: "own", ofSentinel: "own", config: runtime.OpenConfig{Credentials: own}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				addr := secured(t, kind, x.ofServer, x.ofSentinel)
				runsAFlow(t, kind, scheme+x.user+addr+"/primary"+x.query, x.config)
			})
		}
		addr := secured(t, kind, "secret", "own")
		_, err := runtime.Open(t.Context(), scheme+":secret@"+addr+"/primary", runtime.OpenConfig{})
		require.ErrorIs(t, err, enginecore.ErrUnauthorized)
		require.NotContains(t, err.Error(), "secret")
	})
}

// The certificate of each server is checked against its own address, also the certificates of sentinels.
func TestCertificateOfEachServer(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		authority := testserver.NewAuthority(t)
		watch := func(t *testing.T, certified string) string {
			primary := testserver.StartTLSOf(t, testserver.Options{Kind: kind}, append(
				authority.Lines(t, certified), "bind 127.0.0.1 127.0.0.3", "protected-mode no"))
			_, port, _ := strings.Cut(primary.TLSAddr, ":")
			s := testserver.StartTLSOf(t, testserver.Options{Kind: kind, Sentinel: true}, append(
				authority.Lines(t, "127.0.0.2"), "bind 127.0.0.1 127.0.0.2", "tls-replication yes", "protected-mode no"))
			s.Command(t, "SENTINEL", "MONITOR", "primary", "127.0.0.3", port, "1")
			_, number, _ := strings.Cut(s.TLSAddr, ":")
			return map[testserver.Kind]string{testserver.Redis: "rediss", testserver.Valkey: "valkeys"}[kind] + "+sentinel://127.0.0.2:" + number + "/primary"
		}
		secure := runtime.OpenConfig{TLSConfig: &tls.Config{RootCAs: authority.Roots}}
		runsAFlow(t, kind, watch(t, "127.0.0.3"), secure)
		_, err := runtime.Open(ctx, watch(t, "127.0.0.2"), secure)
		require.ErrorIs(t, err, enginecore.ErrNotReachable)
		require.ErrorContains(t, err, "valid for 127.0.0.2, not 127.0.0.3")
	})
}

// A password is changed and connections are closed: programs with a function for credentials continue with the
// credentials that it returns from then on, also if it still returns the former ones for a while.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind, Password: "first"})
		var calls, late atomic.Int32
		rotated := make(chan struct{})
		b := runsAFlow(t, kind, string(kind)+"://"+server.Addr(), runtime.OpenConfig{
			Credentials: func(context.Context) (string, string, error) {
				calls.Add(1)
				select {
				case <-rotated:
					if late.Add(1) > 2 {
						return "", "second", nil
					}
				default:
				}
				return "", "first", nil
			},
		})
		require.Positive(t, calls.Load())
		b.Keeper(t)
		server.Command(t, "CONFIG", "SET", "requirepass", "second")
		server.SetPassword("second")
		close(rotated)
		server.Command(t, "CLIENT", "KILL", "TYPE", "pubsub")
		server.Command(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		startOne(t, b)
	})
}

// Open returns the error of the function for credentials.
func TestCredentialsFail(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind, Password: "first"})
		broken := errors.New("no token today")
		_, err := runtime.Open(t.Context(), string(kind)+"://"+server.Addr(), runtime.OpenConfig{
			Credentials: func(context.Context) (string, string, error) { return "", "", broken },
		})
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, enginecore.ErrUnauthorized)
	})
}

// A server is reached by its socket, with a database and a password.
func TestSocket(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		path := filepath.Join(t.TempDir(), "s.sock")
		testserver.Start(t, testserver.Options{Kind: kind, Password: "se/cret", Args: []string{"unixsocket " + path}})
		runsAFlow(t, kind, string(kind)+"+unix://:se%2Fcret@"+path+"?db=2")
		_, err := runtime.Open(t.Context(), "unix://"+path+".missing", runtime.OpenConfig{})
		require.ErrorIs(t, err, enginecore.ErrNotReachable)
		require.ErrorContains(t, err, path)
	})
}

// Open reports that a server has no room for a further client.
func TestServerAtMaxClients(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind})
		b := runsAFlow(t, kind, server.URL())
		server.Command(t, "CONFIG", "SET", "maxclients", "1")
		_, err := runtime.Open(t.Context(), server.URL(), runtime.OpenConfig{})
		require.ErrorIs(t, err, enginecore.ErrNotReachable)
		require.ErrorContains(t, err, "max number of clients reached")
		startOne(t, b) // connections that exist stay
	})
}

// noticing is a handler of logs that calls a function when an event is logged.
type noticing struct {
	slog.Handler
	event string
	then  func()
}

func (n noticing) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "event" && a.Value.String() == n.event {
			n.then()
		}
		return true
	})
	return nil
}

func (noticing) Enabled(context.Context, slog.Level) bool { return true }

// openUntilUnready opens an engine until Open has noticed that the server is not ready, and returns the error.
func openUntilUnready(t *testing.T, url string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(enginetest.Context(t))
	defer cancel()
	_, err := runtime.Open(ctx, url, runtime.OpenConfig{
		Logger: slog.New(noticing{Handler: slog.DiscardHandler, event: "server.unready", then: cancel}),
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, enginecore.ErrUnavailable)
	return err
}

// Open waits for a server that runs a long script, and ends with its context.
func TestOpenWaitsForABusyServer(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind, Args: []string{"busy-reply-threshold 1"}})
		scripted := make(chan struct{})
		go func() {
			defer close(scripted)
			_ = server.Try("EVAL", "while true do end", "0") // until it is killed
		}()
		enginetest.Eventually(t, func() string {
			if err := server.Try("PING"); err == nil || !strings.Contains(err.Error(), "BUSY") {
				return fmt.Sprint("not busy yet: ", err)
			}
			return ""
		})
		require.ErrorContains(t, openUntilUnready(t, server.URL()), "BUSY")
		e, err := runtime.Open(enginetest.Context(t), server.URL(), runtime.OpenConfig{
			Logger: slog.New(noticing{
				Handler: slog.DiscardHandler, event: "server.unready",
				then: func() { _ = server.Try("SCRIPT", "KILL") },
			}),
		})
		require.NoError(t, err)
		require.NoError(t, e.Close())
		<-scripted
	})
}

// Open waits for a server that reads its data, for as long as that takes.
func TestOpenWaitsForAServerThatLoads(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind, Args: []string{
			"enable-debug-command local", "loading-process-events-interval-bytes 1024", "rdbcompression no",
		}})
		const keys = "20000"
		server.Command(t, "DEBUG", "POPULATE", keys, "key", "100")
		server.Command(t, "CONFIG", "SET", "key-load-delay", "100000") // µs: half an hour for all of them
		loaded := make(chan struct{})
		go func() {
			defer close(loaded)
			_ = server.Try("DEBUG", "RELOAD")
		}()
		enginetest.Eventually(t, func() string {
			if err := server.Try("GET", "key:1"); err == nil || !strings.Contains(err.Error(), "LOADING") {
				return fmt.Sprint("not loading yet: ", err)
			}
			return ""
		})
		require.ErrorContains(t, openUntilUnready(t, server.URL()), "LOADING")
		e, err := runtime.Open(enginetest.Context(t), server.URL(), runtime.OpenConfig{
			Logger: slog.New(noticing{
				Handler: slog.DiscardHandler, event: "server.unready",
				then: func() { _ = server.Try("CONFIG", "SET", "key-load-delay", "0") },
			}),
		})
		require.NoError(t, err)
		require.NoError(t, e.Close())
		<-loaded
		require.Contains(t, server.Command(t, "INFO", "keyspace"), "keys="+keys[:1])
	})
}

// Open waits for a cluster in which some slots have no server.
func TestOpenWaitsForAWholeCluster(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, kind testserver.Kind) {
		c := testserver.StartCluster(t, kind, 3)
		const slot = "7"
		owner := c.Owner(t, 7)
		owner.Command(t, "CLUSTER", "DELSLOTS", slot)
		enginetest.Eventually(t, func() string {
			for _, node := range c.Nodes {
				_ = node.Try("CLUSTER", "DELSLOTS", slot) // an older message may have restored the owner
				if !strings.Contains(node.Command(t, "CLUSTER", "INFO"), "cluster_state:fail") {
					return "a server takes the cluster for whole"
				}
			}
			return ""
		})
		require.ErrorContains(t, openUntilUnready(t, c.URL()), "CLUSTERDOWN")
		e, err := runtime.Open(enginetest.Context(t), c.URL(), runtime.OpenConfig{
			Logger: slog.New(noticing{
				Handler: slog.DiscardHandler, event: "server.unready",
				then: func() { _ = owner.Try("CLUSTER", "ADDSLOTS", slot) },
			}),
		})
		require.NoError(t, err)
		require.NoError(t, e.Close())
	})
}
