package enginetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// EachContract runs a test on every engine in contract mode. The library of a server has no composite calls, and that
// it is still the one that the test loaded is checked afterwards.
//
// The test runs with the reference library, too, where there is one.
func EachContract(t *testing.T, test func(t *testing.T, b *Bench), config ...runtime.OpenConfig) {
	t.Helper()
	var reference sync.WaitGroup
	reference.Go(func() { t.Run("reference", func(t *testing.T) { EachReference(t, test, config...) }) })
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) { test(t, NewContract(t, kind, config...)) })
	reference.Wait()
}

// EachExtended runs a test on every engine, and on every engine in contract mode with this project's library, which has
// the edge-group functions that joins need there, and with a keeper.
func EachExtended(t *testing.T, test func(t *testing.T, b *Bench)) {
	t.Helper()
	var contract sync.WaitGroup
	contract.Go(func() {
		t.Run("contract", func(t *testing.T) {
			testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
				b := NewContract(t, kind, runtime.OpenConfig{Partitions: 1})
				b.Keeper(t)
				test(t, b)
			})
		})
	})
	Each(t, test)
	contract.Wait()
}

// EachMode runs a test on every engine, and on every engine in contract mode, all at the same time.
func EachMode(t *testing.T, test func(t *testing.T, b *Bench), config ...runtime.OpenConfig) {
	t.Helper()
	var contract sync.WaitGroup
	contract.Go(func() { t.Run("contract", func(t *testing.T) { EachContract(t, test, config...) }) })
	Each(t, test, config...)
	contract.Wait()
}

// EachModeAlone is EachMode for a test that measures something: one engine after the other.
func EachModeAlone(t *testing.T, test func(t *testing.T, b *Bench), config ...runtime.OpenConfig) {
	t.Helper()
	EachAlone(t, test, config...)
	t.Run("reference", func(t *testing.T) {
		Reference(t)
		testserver.InTurn(t, ReferenceKinds(t), func(t *testing.T, kind testserver.Kind) { test(t, NewReference(t, kind, config...)) })
	})
	t.Run("contract", func(t *testing.T) {
		testserver.InTurn(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) { test(t, NewContract(t, kind, config...)) })
	})
}

// Intervals of contract mode in tests, which wait for changes without messages.
const (
	contractPoll      = 50 * time.Millisecond
	contractReconcile = 300 * time.Millisecond
)

// ContractPrefix is the prefix of all keys in contract mode.
const ContractPrefix = "ff"

// ContractQuery selects contract mode in a URL.
const ContractQuery = "?contract=15"

// contractBackend returns the backend of contract mode with the intervals of tests.
func contractBackend() engine.ContractBackend {
	return contract.Backend(contract.Config{PollInterval: contractPoll, ReconcileInterval: contractReconcile})
}

// inContractMode completes a URL and a config: either of them selects contract mode.
func inContractMode(url string, c runtime.OpenConfig) (string, runtime.OpenConfig) {
	switch asked, given := strings.Contains(url, ContractQuery), engine.GuestOf(c.Backend) != nil; {
	case asked && !given:
		c.Backend = contractBackend()
	case given && !asked:
		url += ContractQuery
	}
	return url, c
}

// NewContract opens an engine of a kind in contract mode. Each single server is new; the cluster is shared by all such
// tests.
func NewContract(tb testing.TB, kind testserver.Kind, config ...runtime.OpenConfig) *Bench {
	tb.Helper()
	url := "embedded:"
	switch kind {
	case testserver.Embedded:
	case testserver.OnCluster:
		url = contractCluster(tb).URL()
	default:
		url = ContractServer(tb, kind).URL()
	}
	b := Open(tb, kind, url+ContractQuery, ContractPrefix, config...)
	if kind == testserver.OnCluster {
		tb.Cleanup(func() { b.Wipe(tb) })
	}
	return b
}

// ContractServer starts a server with the contract's functions and no others.
func ContractServer(tb testing.TB, kind testserver.Kind) *testserver.Server {
	tb.Helper()
	return ServerWith(tb, kind, lualib.ContractSource())
}

// clusterInUse is held by the test that uses the cluster of contractCluster.
var clusterInUse sync.Mutex

// contractCluster is a cluster with the contract's functions and no others, on all primaries, and checks at the end
// that this is still so.
func contractCluster(tb testing.TB) *testserver.Cluster {
	tb.Helper()
	clusterInUse.Lock() // all tests use the same keys
	tb.Cleanup(clusterInUse.Unlock)
	c := testserver.NamedCluster(tb, "contract", func(c *testserver.Cluster) {
		for _, node := range c.Nodes {
			node.Command(tb, "FUNCTION", "LOAD", lualib.ContractSource())
		}
	})
	tb.Cleanup(func() {
		for _, node := range c.Nodes {
			stats := node.Command(tb, "INFO", "commandstats")
			if !strings.Contains(stats, "cmdstat_function|load:calls=1,") {
				tb.Errorf("the library was loaded again on %s", node.Addr())
			}
		}
	})
	return c
}

// ServerWith starts a server with a library, and checks at the end that no program has loaded another library or called
// a function that the library lacks.
func ServerWith(tb testing.TB, kind testserver.Kind, library string) *testserver.Server {
	tb.Helper()
	server := testserver.Start(tb, testserver.Options{Kind: kind})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
	require.NoError(tb, err)
	ctx := context.Background()
	require.NoError(tb, client.Do(ctx, client.B().FunctionLoad().FunctionCode(library).Build()).Error())
	tb.Cleanup(func() {
		defer client.Close()
		stats, err := client.Do(ctx, client.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			return // the test has ended the server
		}
		for line := range strings.SplitSeq(stats, "\r\n") {
			if strings.HasPrefix(line, "cmdstat_function|load:") && !strings.HasPrefix(line, "cmdstat_function|load:calls=1,") {
				tb.Errorf("the library was loaded again: %s", line)
			}
			if strings.HasPrefix(line, "cmdstat_fcall:") && !strings.Contains(line, "rejected_calls=0,failed_calls=0") {
				tb.Errorf("a function was called that is not of the contract, or failed: %s", line)
			}
		}
	})
	return server
}
