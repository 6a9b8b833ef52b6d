package enginerpc

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Keys of the composite calls with parts of free text: different parts give different keys, for any text.
func TestKeysOfDifferentPartsDiffer(t *testing.T) {
	t.Parallel()
	keys, random := testKeys(t), rand.New(rand.NewPCG(3, 4))
	words := []string{":", ":", "%", "%25", "%3A", "3A", "a", "b", "zz", "queue", "turns", "order", "reclaimable", "a.b", " "}
	text := func() string {
		var b strings.Builder
		for range random.IntN(5) {
			b.WriteString(words[random.IntN(len(words))])
		}
		return b.String()
	}
	p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 3}
	seen := make(map[string]string)
	enter := func(key string, parts ...string) {
		of := fmt.Sprintf("%q", parts)
		if other, known := seen[key]; known && other != of {
			t.Fatalf("%s and %s have one key: %q", other, of, key)
		}
		seen[key] = of
	}
	for range 20_000 {
		first, second := text(), text()
		enter(keys.FfxTaggedRuns(p, first, second), "tagged runs", first, second)
		enter(keys.FfxQueue(p, enginecore.LaneID(first), second), "queue", first, second)
		enter(keys.FfxTurns(p, enginecore.LaneID(first)), "turns", first)
		enter(keys.FfxOrder(p, enginecore.LaneID(first)), "order", first)
		enter(keys.FfxReclaimable(p, enginecore.LaneID(first)), "reclaimable", first)
		enter(keys.LaneEligible(p, enginecore.LaneID(first)), "eligible", first)
		enter(keys.LaneBlockedQuota(p, enginecore.LaneID(first)), "blocked quota", first)
		enter(keys.FfxRuns(p, first), "runs", first)
	}
}

// The keys of the contract have their parts as they are, and so has everything without a colon or a percent sign.
func TestKeysThatAreNotEscaped(t *testing.T) {
	t.Parallel()
	keys, p := testKeys(t), keyspace.Partition{Family: keyspace.FlowFamily, Index: 3}
	for got, want := range map[string]string{
		keys.LaneEligible(p, "a:b%"):            "ff:idx:{fp:3}:lane:a:b%:eligible",
		keys.FfxQueue(p, "io", "b:queue:c%"):    "ff:ffx:{fp:3}:lane:io:queue:b:queue:c%",
		keys.FfxTaggedRuns(p, "a.b", "c:d"):     "ff:ffx:{fp:3}:tagged_runs:a.b:c:d",
		keys.FfxTaggedRuns(p, "a.b:c%", "d"):    "ff:ffx:{fp:3}:tagged_runs:a.b%3Ac%25:d",
		keys.FfxReclaimable(p, "zz:queue:b"):    "ff:ffx:{fp:3}:lane:zz%3Aqueue%3Ab:reclaimable",
		keys.ChannelWake("a:b"):                 "ff:ffx:wake:a:b",
		keys.ExecIdem(p, "default", "key:of:%"): "ff:idem:{fp:3}:default:key:of:%",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	k := testKeys(t)
	p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}
	id := keyspace.NewExecutionID(p)
	if tag, got, ok := k.ParseExecCore(k.ExecCore(id)); !ok || tag != p.Tag() || got != id {
		t.Errorf("execution: %s, %s, %v", tag, got, ok)
	}
	if tag, got, ok := k.ParseFlowCore(k.FlowCore(p, "f")); !ok || tag != p.Tag() || got != "f" {
		t.Errorf("flow: %s, %s, %v", tag, got, ok)
	}
	for _, text := range []string{"a", "a:b", "%3A", ":leases", "{x}", "%25:"} {
		if tag, got, ok := k.ParseIndexWorkerLeases(k.IndexWorkerLeases(p, enginecore.WorkerInstanceID(text))); !ok || tag != p.Tag() || string(got) != text {
			t.Errorf("worker %q: %s, %s, %v", text, tag, got, ok)
		}
		if tag, name, value, ok := k.ParseFfxTaggedRuns(k.FfxTaggedRuns(p, text, text)); !ok || tag != p.Tag() || name != text || value != text {
			t.Errorf("tag %q: %s, %s, %s, %v", text, tag, name, value, ok)
		}
		if key := k.FfxRuns(p, text); NameOf(key) != "runs:"+text {
			t.Errorf("name of %s: %s", key, NameOf(key))
		}
	}
	for _, key := range []string{
		"", k.Prefix(), k.Prefix() + ":flow:", k.Prefix() + ":flow:{fp:7}", "x:flow:{fp:7}:f:core", k.Prefix() + ":flow:fp:7:f:core",
		k.ExecCore(id), k.FlowMembers(p, "f"),
	} {
		if tag, got, ok := k.ParseFlowCore(key); ok {
			t.Errorf("%s is one of flow %s in %s", key, got, tag)
		}
	}
}
