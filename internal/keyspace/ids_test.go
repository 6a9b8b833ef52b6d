package keyspace

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

func TestPartitionVectors(t *testing.T) {
	t.Parallel()
	if got := crc16([]byte("123456789")); got != 0x31c3 {
		t.Errorf("check value %#x", got)
	}
	for _, v := range []struct {
		id                  string
		sum                 uint16
		of256, of32, of1024 uint16
	}{
		{"00000000-0000-0000-0000-000000000000", 0x0000, 0, 0, 0},
		{"550e8400-e29b-41d4-a716-446655440000", 0x9018, 24, 24, 24},
		{"11111111-1111-4111-8111-111111111111", 0x76bf, 191, 31, 703},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", 0x0041, 65, 1, 65},
		{"6ba7b810-9dad-11d1-80b4-00c04fd430c8", 0xf34d, 77, 13, 845},
		{"123e4567-e89b-12d3-a456-426614174000", 0x6c89, 137, 9, 137},
		{"deadbeef-dead-4eef-8ead-beefdeadbeef", 0x2302, 2, 2, 770},
	} {
		u := uuid.MustParse(v.id)
		if got := crc16(u[:]); got != v.sum {
			t.Errorf("%s: %#x, want %#x", v.id, got, v.sum)
		}
		for count, want := range map[int]uint16{256: v.of256, 32: v.of32, 1024: v.of1024} {
			p := Partitioning{Flow: count, Budget: count, Quota: count}
			if got, err := p.FlowPartition(enginecore.FlowID(v.id)); err != nil || got != (Partition{FlowFamily, want}) {
				t.Errorf("flow %s of %d: %v, %v", v.id, count, got, err)
			}
			if got, err := p.BudgetPartition(enginecore.BudgetID(v.id)); err != nil || got != (Partition{BudgetFamily, want}) {
				t.Errorf("budget %s of %d: %v, %v", v.id, count, got, err)
			}
			if got, err := p.QuotaPartition(enginecore.QuotaPolicyID(v.id)); err != nil || got != (Partition{QuotaFamily, want}) {
				t.Errorf("quota %s of %d: %v, %v", v.id, count, got, err)
			}
		}
	}
	for _, v := range []struct {
		lane          enginecore.LaneID
		of256, of1024 uint16
	}{
		{"default", 86, 598}, {"workers-a", 193, 705}, {"main", 213, 213}, {"gpu", 144, 144},
		{"high-priority", 203, 715}, {"email", 28, 540}, {"東京", 29, 797}, {"a", 135, 135},
	} {
		for count, want := range map[int]uint16{256: v.of256, 1024: v.of1024} {
			if got := (Partitioning{Flow: count}).LanePartition(v.lane); got.Index != want {
				t.Errorf("lane %s of %d: %v, want %d", v.lane, count, got, want)
			}
		}
	}
	if _, err := (Partitioning{Flow: 8}).FlowPartition("no uuid"); err == nil {
		t.Error("a flow id that is not a UUID has a partition")
	}
}

// TestDerivedIDs pins the stored form: a change would double runs that are submitted again after an update.
func TestDerivedIDs(t *testing.T) {
	t.Parallel()
	p := Partition{FlowFamily, 7}
	flow := FlowIDFor("prod", "census", "2026-11-20")
	for _, x := range []struct{ got, want string }{
		{string(flow), "bc6f4c01-55f2-8803-a740-5283901d0000"},
		{string(ExecutionIDFor(p, flow, "scan")), "{fp:7}:cd081abf-eb79-5ab5-b09b-78f4866eb54b"},
		{string(EdgeIDFor(flow, "scan", "count-0")), "070a5b22-3876-5c8a-97d4-54405dddb8e4"},
		{string(WaitpointIDFor(flow, "scan")), "f75796fd-85c1-5fef-87f8-458f0c1c746e"},
	} {
		if x.got != x.want {
			t.Errorf("got %s, want %s", x.got, x.want)
		}
	}
	if FlowIDFor("a", "bc", "d") == FlowIDFor("ab", "c", "d") {
		t.Error("the border between parts is lost")
	}
}

func TestExecutionID(t *testing.T) {
	t.Parallel()
	const good = "{fp:7}:550e8400-e29b-41d4-a716-446655440000"
	id, err := ParseExecutionID(good)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := PartitionOf(id); err != nil || p != (Partition{FlowFamily, 7}) {
		t.Errorf("partition %v, %v", p, err)
	}
	if id.UUID() != "550e8400-e29b-41d4-a716-446655440000" {
		t.Errorf("uuid %s", id.UUID())
	}
	for _, bad := range []string{
		"", "{", "{}", "{fp:7}", "{fp:7}:", "{fp:7}:x", "{b:7}:550e8400-e29b-41d4-a716-446655440000",
		"{fp:70000}:550e8400-e29b-41d4-a716-446655440000", "{fp:07}:550e8400-e29b-41d4-a716-446655440000",
		"{fp:7}550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000",
		"{fp:-1}:550e8400-e29b-41d4-a716-446655440000", good + "0", " " + good,
	} {
		var id *IDError
		if _, err := ParseExecutionID(bad); !errors.As(err, &id) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ParseExecutionID(string(NewExecutionID(Partition{FlowFamily, 3}))); err != nil {
		t.Error(err)
	}
}

func TestOtherIDs(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", strings.Repeat("~", 64), "lane 1"} {
		if _, err := ParseLaneID(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", 65), "tab\t", "é"} {
		if _, err := ParseLaneID(bad); err == nil {
			t.Errorf("lane %q accepted", bad)
		}
	}
	if _, err := ParseFlowID("{550e8400-e29b-41d4-a716-446655440000}"); err == nil {
		t.Error("a UUID in braces is accepted")
	}
	for _, tag := range []string{"{fp:0}", "{b:65535}", "{q:12}"} {
		if p, err := ParsePartition(tag); err != nil || p.Tag() != tag {
			t.Errorf("%s: %v, %v", tag, p, err)
		}
	}
	for _, tag := range []string{"", "fp:1", "{fp}", "{fp:}", "{x:1}", "{fp:65536}", "{fp:1", "{fp:+1}"} {
		if p, err := ParsePartition(tag); err == nil || !p.IsZero() {
			t.Errorf("%s: %v", tag, p)
		}
	}
}

func FuzzParseExecutionID(f *testing.F) {
	f.Add("{fp:7}:550e8400-e29b-41d4-a716-446655440000")
	f.Add("{fp:7}")
	f.Add("{")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseExecutionID(text)
		if err != nil {
			enginecore.ExecutionID(text).UUID()
			return
		}
		p, err := PartitionOf(id)
		if err != nil || p.Tag()+":"+id.UUID() != text {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	})
}
