package testserver

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Kind is an engine that shared suites run on.
type Kind string

const (
	// Embedded is the engine inside the test process. It has no server to start.
	Embedded Kind = "embedded"
	// Redis is a Redis 7 server.
	Redis Kind = "redis"
	// Valkey is a Valkey 8 server.
	Valkey Kind = "valkey"
	// OnCluster is a cluster of three Valkey 8 servers. It is among the [Kinds] only when FLOWFABRIC_TEST_ENGINES names
	// it.
	OnCluster Kind = "cluster"
)

// enginesVariable selects the kinds that [Kinds] returns.
const enginesVariable = "FLOWFABRIC_TEST_ENGINES"

// Kinds returns the engines that shared suites run on: the comma-separated list in
// FLOWFABRIC_TEST_ENGINES, or all but the cluster. An unknown name fails the test, so that a misspelt
// list cannot pass for a run on every engine.
func Kinds(tb testing.TB) []Kind {
	tb.Helper()
	kinds, err := selected()
	if err != nil {
		tb.Fatal(err)
	}
	return kinds
}

func selected() ([]Kind, error) {
	all := []Kind{Embedded, Redis, Valkey, OnCluster}
	list := os.Getenv(enginesVariable)
	if list == "" {
		return all[:3], nil
	}
	var kinds []Kind
	for name := range strings.SplitSeq(list, ",") {
		k := Kind(strings.TrimSpace(name))
		if !slices.Contains(all, k) {
			return nil, fmt.Errorf("testserver: %s=%q: %q is none of %q", enginesVariable, list, k, all)
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

// SetTestURLs runs a server of each selected kind, and sets FLOWFABRIC_TEST_URLS to their URLs, which flowtest.Engines
// reads. The function ends them.
func SetTestURLs() (stop func(), err error) {
	kinds, err := selected()
	if err != nil {
		return nil, err
	}
	var urls []string
	var running []*Program
	stop = func() {
		for _, p := range running {
			_ = p.Close()
		}
	}
	for _, k := range kinds {
		if k != Redis && k != Valkey {
			continue
		}
		p, err := Run(Options{Kind: k})
		if err != nil {
			stop()
			return nil, err
		}
		running, urls = append(running, p), append(urls, p.URL())
	}
	return stop, os.Setenv("FLOWFABRIC_TEST_URLS", strings.Join(urls, " "))
}

// Servers returns the [Kinds] that are single servers.
func Servers(tb testing.TB) []Kind {
	tb.Helper()
	return slices.DeleteFunc(Kinds(tb), func(k Kind) bool { return k == Embedded || k == OnCluster })
}

// SideBySide runs a test on every kind at the same time, as subtests with the names of the kinds, and returns when all
// have ended: tests of flows spend most of their time waiting. A test whose measurements others would disturb calls
// [InTurn].
func SideBySide(t *testing.T, kinds []Kind, test func(t *testing.T, k Kind)) {
	t.Helper()
	var all sync.WaitGroup
	for _, k := range kinds {
		all.Go(func() { t.Run(string(k), func(t *testing.T) { test(t, k) }) })
	}
	all.Wait()
}

// InTurn runs a test on one kind after the other.
func InTurn(t *testing.T, kinds []Kind, test func(t *testing.T, k Kind)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) { test(t, k) })
	}
}
