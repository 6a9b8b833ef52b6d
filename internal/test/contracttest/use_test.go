package contracttest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// TestFrames appends frames with every default and bound.
func TestFrames(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, b *bench) {
		h := b.running()
		stream, meta := b.keys.StreamFrames(h.id, h.index), b.keys.StreamMeta(h.id, h.index)
		full := wireOf(b, enginerpc.AppendFrameCall{
			ExecutionID: h.id, AttemptIndex: h.index, LeaseID: h.lease, LeaseEpoch: h.epoch, FrameType: "delta",
		})
		appended := func(call wire) string {
			t.Helper()
			before := b.length(stream)
			reply, err := b.raw(t.Context(), call.function, call.keys, call.args).ToArray()
			if err != nil || len(reply) != 4 {
				t.Fatalf("%v, %v", reply, err)
			}
			want(t, "frames", b.length(stream) > before || before >= 10, true)
			count, _ := reply[3].ToString()
			return count
		}
		want(t, "unknown, too large", b.say(full.with(1, "x").with(7, "12").with(13, "1")), "0|retention_limit_exceeded")
		want(t, "nothing came of it", b.exists(meta), false)
		want(t, "short", appended(full.cut(5)), "1")
		for name, value := range map[string]string{
			"stream_id": string(h.id) + ":0", "execution_id": string(h.id), "attempt_id": "", "attempt_index": "0", "closed_at": "", "closed_reason": "",
			"durability_mode": "durable_full", "retention_maxlen": "0", "frame_count": "1", "total_bytes": "0",
		} {
			want(t, name, b.field(meta, name), value)
		}
		entries, err := b.do("XRANGE", stream, "-", "+").AsXRangeSlices()
		if err != nil || len(entries) != 1 {
			t.Fatalf("%v, %v", entries, err)
		}
		var fields string
		for _, f := range entries[0].FieldValues {
			if f.Field != "ts" {
				fields += f.Field + "=" + f.Value + " "
			}
		}
		want(t, "defaults", fields, "frame_type=delta payload= encoding=utf8 source=worker ")
		want(t, "last", b.field(meta, "last_sequence"), entries[0].ID)
		want(t, "empty payload, no room", appended(full.with(7, "").with(13, "0")), "2")
		want(t, "raw time", appended(full.with(6, "noon").with(7, "abc").with(9, "c").with(13, "3")), "3")
		want(t, "bytes", b.field(meta, "total_bytes"), "3")
		for i := range 12 {
			want(t, "more", appended(full.with(11, "1e1").with(13, "9")), fmt.Sprint(4+i))
		}
		want(t, "kept", b.length(stream), 10)
		b.do("HSET", meta, "closed_at", "5", "closed_reason", "why")
		want(t, "closed", b.say(full.with(13, "9")), "0|stream_closed")
		read := wireOf(b, enginerpc.ReadAttemptStreamCall{ExecutionID: h.id, AttemptIndex: h.index, CountLimit: 5})
		want(t, "read", b.say(read), "1|OK|list|5|why")
		want(t, "read with defaults", b.say(read.with(1, "").with(2, "")), "1|OK|list|5|why")
		want(t, "read without a count", b.say(read.cut(2)), "0|invalid_input|count_limit must be >= 1")
	})
}

// TestUsage reports usage at and around limits of every kind.
func TestUsage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		id := enginecore.BudgetID(uuid.NewString())
		create := enginerpc.CreateBudgetCall{
			Partition: budgetPartition, BudgetID: id, ScopeType: "s", ScopeID: "i", EnforcementMode: "hard", OnHardLimit: "fail", OnSoftLimit: "warn",
			Now: time.UnixMilli(7), Dims: []enginerpc.CreateBudgetDim{
				{Name: "a", Hard: "10.5", Soft: "3"}, {Name: "b", Hard: "", Soft: "2.5"}, {Name: "c", Hard: "0", Soft: "0"}, {Name: "d", Hard: "-5", Soft: "-1"},
			},
		}
		definition, usage := b.keys.BudgetRecord(budgetPartition, id), b.keys.BudgetUsage(budgetPartition, id)
		policies := b.keys.IndexBudgetPolicies(budgetPartition)
		b.expect(t, line{"create", wireOf(b, create), "1|OK|" + string(id)})
		want(t, "usage of a new budget", b.exists(usage), false)
		b.do("SREM", policies, string(id))
		create.Dims = create.Dims[:1]
		create.Dims[0].Hard = "1"
		b.expect(t, line{"create again", wireOf(b, create), "1|ALREADY_SATISFIED|" + string(id)})
		listed, _ := b.do("SISMEMBER", policies, string(id)).AsInt64()
		want(t, "in the index again", listed, 1)
		want(t, "limit", b.field(b.keys.BudgetLimits(budgetPartition, id), "hard:a"), "10.5")
		report := func(key string, pairs ...any) wire {
			call := use(id)
			call.Now, call.DedupKey = time.UnixMilli(9), key
			for i := 0; i < len(pairs); i += 2 {
				call.Dims = append(call.Dims, enginerpc.ReportUsageAndCheckDim{Name: pairs[i].(string), Delta: int64(pairs[i+1].(int))})
			}
			return wireOf(b, call)
		}
		once := b.keys.BudgetDedup(budgetPartition, "once")
		b.expect(t,
			line{"nothing", report(""), "1|OK"},
			line{"at the soft limit", report("", "a", 3), "1|OK"},
			line{"above it", report(once, "b", 2, "a", 1), "1|SOFT_BREACH|a|4|3"},
			line{"again", report(once, "b", 2, "a", 1), "1|ALREADY_APPLIED"},
			line{"again, with a fault", report(once, "b", 2).with(3, "x"), "1|ALREADY_APPLIED"},
			line{"again, with a count that is none", report(once, "b", 2).with(1, ""), "0|invalid_input|dim_count must be a number, got: "},
			line{"first of two soft ones", report("", "b", 1, "a", 1), "1|SOFT_BREACH|b|3|2.5"},
			line{"below", report("", "a", -3), "1|OK"},
			line{"beyond the hard limit", report(once+"2", "c", 1, "a", 9), "1|HARD_BREACH|a|2|10.5"},
			line{"at the hard limit", report("", "a", 8), "1|SOFT_BREACH|a|10|3"},
			line{"without limits", report("", "c", 1000, "d", 1000, "e", 1000), "1|OK"},
		)
		want(t, "nothing of a refused report", b.field(usage, "c"), "1000")
		want(t, "nor its mark", b.exists(once+"2"), false)
		ttl, _ := b.do("PTTL", once).AsInt64()
		want(t, "a day", ttl > 86_300_000 && ttl <= 86_400_000, true)
		want(t, "breach", b.field(definition, "last_breach_dim")+b.field(definition, "last_breach_at")+b.field(definition, "breach_count"), "a91")
		b.expect(t, line{"reset", wireOf(b, enginerpc.ResetBudgetCall{Partition: budgetPartition, BudgetID: id, Now: time.UnixMilli(11)}), "1|OK|0"})
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			want(t, "usage of "+name, b.field(usage, name), "0")
		}
		want(t, "after it", b.field(definition, "last_breach_dim")+b.field(definition, "reset_count")+b.field(definition, "last_updated_at"), "111")
	})
}
