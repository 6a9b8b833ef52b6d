package main

import (
	"os"
	"path/filepath"
	"testing"

	gopherlua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Both sides put the same keys together, whatever text their parts hold.
func TestKeysOfBothSidesAgree(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text := "key = {}\n"
	for _, name := range []string{"frame/key.lua", "generated/keys.gen.lua"} {
		source, err := os.ReadFile(filepath.Join(root, "lua", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		text += "do\n" + string(source) + "\nend\n"
	}
	state := gopherlua.NewState()
	defer state.Close()
	if err := state.DoString(text); err != nil {
		t.Fatal(err)
	}
	builders := state.GetGlobal("key").(*gopherlua.LTable)
	keys, err := enginerpc.NewKeys("ff")
	if err != nil {
		t.Fatal(err)
	}
	p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 3}
	inLua := func(name string, parts ...string) string {
		at, c := &gopherlua.LTable{}, &gopherlua.LTable{}
		at.RawSetString("prefix", gopherlua.LString("ff"))
		at.RawSetString("tag", gopherlua.LString(p.Tag()))
		c.RawSetString("at", at)
		args := []gopherlua.LValue{c}
		for _, part := range parts {
			args = append(args, gopherlua.LString(part))
		}
		if err := state.CallByParam(gopherlua.P{Fn: builders.RawGetString(name), NRet: 1, Protect: true}, args...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer state.Pop(1)
		return state.Get(-1).String()
	}
	texts := []string{"", "a", "a.b", "a.b:c", ":", "%", "%3A", "%25", "::%%", "zz:queue:b", "é:\x00", "a b"}
	for _, first := range texts {
		lane := enginecore.LaneID(first)
		for _, x := range []struct{ name, want string }{
			{"ffx_reclaimable", keys.FfxReclaimable(p, lane)}, {"ffx_order", keys.FfxOrder(p, lane)}, {"ffx_turns", keys.FfxTurns(p, lane)},
			{"lane_eligible", keys.LaneEligible(p, lane)}, {"ffx_runs", keys.FfxRuns(p, first)}, {"channel_wake", keys.ChannelWake(lane)},
		} {
			if got := inLua(x.name, first); got != x.want {
				t.Errorf("%s of %q: %q in the library, %q in Go", x.name, first, got, x.want)
			}
		}
		for _, second := range texts {
			if got, want := inLua("ffx_queue", first, second), keys.FfxQueue(p, lane, second); got != want {
				t.Errorf("ffx_queue of %q, %q: %q in the library, %q in Go", first, second, got, want)
			}
			if got, want := inLua("ffx_tagged_runs", first, second), keys.FfxTaggedRuns(p, first, second); got != want {
				t.Errorf("ffx_tagged_runs of %q, %q: %q in the library, %q in Go", first, second, got, want)
			}
		}
	}
}
