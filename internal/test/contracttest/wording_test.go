package contracttest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// wire is a call as it goes to the server.
type wire struct {
	function   string
	keys, args []string
}

func wireOf[R any](b *bench, call enginerpc.Call[R]) wire {
	b.tb.Helper()
	function, keys, args, err := enginerpc.Wire(b.keys, call)
	if err != nil {
		b.tb.Fatal(err)
	}
	return wire{function, keys, args}
}

// with replaces an argument, counted from 1.
func (w wire) with(place int, text string) wire {
	w.args = append([]string(nil), w.args...)
	w.args[place-1] = text
	return w
}

// cut keeps the first arguments.
func (w wire) cut(arguments int) wire {
	w.args = w.args[:arguments]
	return w
}

// say is the reply to a call as text: its elements, with a bar between them.
func (b *bench) say(w wire) string {
	b.tb.Helper()
	message, err := b.raw(b.tb.Context(), w.function, w.keys, w.args).ToMessage()
	if err != nil {
		return "error: " + err.Error()
	}
	list, err := message.ToArray()
	if err != nil {
		b.tb.Fatal(err)
	}
	words := make([]string, len(list))
	for i, element := range list {
		if n, err := element.AsInt64(); err == nil && element.IsInt64() {
			words[i] = fmt.Sprint(n)
		} else if words[i], err = element.ToString(); err != nil {
			words[i] = "list"
		}
	}
	return strings.Join(words, "|")
}

// TestShortCalls makes calls with missing arguments at the end. A missing argument is treated as in the contract: an
// argument with a default is optional, and the refusal names a missing number.
func TestShortCalls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		h := b.running()
		idle := b.create()
		complete := wireOf(b, enginerpc.CompleteExecutionCall{
			WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
		})
		fail := wireOf(b, enginerpc.FailExecutionCall{
			WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
		})
		wait := wireOf(b, enginerpc.MoveToWaitingChildrenCall{
			WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
		})
		delay := wireOf(b, enginerpc.DelayExecutionCall{
			WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
			DelayUntil: time.Now(),
		})
		progress := wireOf(b, enginerpc.UpdateProgressCall{ExecutionID: h.id, LeaseID: h.lease, LeaseEpoch: h.epoch})
		grant := wireOf(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(idle)})
		reclaim := wireOf(b, enginerpc.ReclaimExecutionCall(b.reclaimCall(h)))
		renew := wireOf(b, enginerpc.RenewLeaseCall{
			ExecutionID: h.id, AttemptIndex: h.index, AttemptID: h.try, LeaseID: h.lease, LeaseEpoch: h.epoch, LeaseTTL: time.Minute,
			LeaseHistoryGrace: time.Minute,
		})
		rotate := wireOf(b, enginerpc.RotateWaitpointHMACSecretCall{Partition: partition, NewKID: "k", NewSecretHex: "00", Grace: time.Hour})
		drain := wireOf(b, enginerpc.DrainSiblingCancelGroupCall{FlowID: "f", DownstreamExecutionID: idle})
		for _, x := range []struct {
			name string
			call wire
			want string
		}{
			{"complete without fence", complete.cut(1), "0|fence_required"},
			{"complete with half a fence", complete.cut(3), "0|partial_fence_triple"},
			{"fail without fence", fail.cut(1), "0|fence_required"},
			{"fail with half a fence", fail.cut(2), "0|partial_fence_triple"},
			{"wait without fence", wait.cut(1), "0|fence_required"},
			{"delay without a time", delay.cut(4), "0|invalid_input|delay_until must be a number, got: nil"},
			{"progress without lease", progress.cut(1), "0|stale_lease"},
			{"progress without epoch", progress.cut(2), "0|stale_lease"},
			{"grant without a time", grant.cut(5), "0|invalid_input|grant_ttl_ms must be a number, got: nil"},
			{"claim without a time", wireOf(b, b.claimCall(idle)).cut(6), "0|invalid_input|lease_ttl_ms must be a number, got: nil"},
			{"claim without a renewal", wireOf(b, b.claimCall(idle)).cut(7), "0|invalid_input|renew_before_ms must be a number, got: nil"},
			{"claim with a bad time", wireOf(b, b.claimCall(idle)).with(7, "x").cut(7), "0|invalid_input|lease_ttl_ms must be a number, got: x"},
			{"reclaim without a time", reclaim.cut(1), "0|invalid_input|lease_ttl_ms must be a number, got: nil"},
			{"renew without a time", renew.cut(3), "0|invalid_input|lease_ttl_ms must be a number, got: nil"},
			{"renew without grace", renew.cut(6), "0|invalid_input|lease_history_grace_ms must be a number, got: nil"},
			{"create without a priority", wireOf(b, enginerpc.CreateExecutionCall{
				ExecutionID: newExecutionID(), Namespace: "n", LaneID: lane, ExecutionKind: "k", CreatorIdentity: "me", PartitionID: "1",
			}).cut(4), "0|invalid_input|priority must be a number, got: nil"},
			{"priority without a number", wireOf(b, enginerpc.ChangePriorityCall{LaneID: lane, ExecutionID: idle, NewPriority: 1}).cut(1),
				"0|invalid_input|new_priority must be a number, got: nil"},
			{"promotion without a time", wireOf(b, enginerpc.PromoteDelayedCall{LaneID: lane, ExecutionID: idle, Now: time.Now()}).cut(1),
				"0|invalid_input|now_ms must be a number, got: nil"},
			{"rotation without a key", rotate.cut(0), "0|invalid_kid"},
			{"rotation without a secret", rotate.cut(1), "0|invalid_secret_hex"},
			{"rotation without grace", rotate.cut(2), "0|invalid_grace_ms"},
			{"drain without ids", drain.cut(0), "0|invalid_args|flow_id and downstream_eid required"},
		} {
			want(t, x.name, b.say(x.call), x.want)
		}
		want(t, "state after them", b.core(h.id, "lifecycle_phase"), "active")
	})
}

// TestUnusualNumbers sends numbers that are seldom sent and mean something all the same.
func TestUnusualNumbers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		t.Run("a signal that is not recognised again", func(t *testing.T) {
			for _, ttl := range []string{"", "0", "-1"} {
				w := b.suspended(`{"required_signal_names":["a","b"],"signal_match_mode":"all"}`)
				for i, effect := range []string{"appended_to_waitpoint", "no_op"} {
					call := b.deliverCall(w, "a")
					call.IdempotencyKey = "again"
					want(t, fmt.Sprintf("delivery %d with %q", i, ttl), b.say(wireOf(b, call).with(14, ttl)), "1|OK|"+string(call.SignalID)+"|"+effect)
				}
			}
		})
		t.Run("signals without a limit", func(t *testing.T) {
			for _, limit := range []string{"0", "-5"} {
				w := b.suspended(forGo)
				for range 2 {
					call := b.deliverCall(w, "other")
					want(t, "delivery with "+limit, b.say(wireOf(b, call).with(17, limit)), "1|OK|"+string(call.SignalID)+"|no_op")
				}
			}
		})
		t.Run("a frame that may hold less than nothing", func(t *testing.T) {
			h := b.running()
			frame := wireOf(b, enginerpc.AppendFrameCall{
				ExecutionID: h.id, AttemptIndex: h.index, LeaseID: h.lease, LeaseEpoch: h.epoch, FrameType: "delta", MaxPayloadBytes: 1,
			})
			want(t, "empty payload", b.say(frame.with(13, "-1")), "0|retention_limit_exceeded")
		})
		t.Run("frames to read", func(t *testing.T) {
			read := wireOf(b, enginerpc.ReadAttemptStreamCall{ExecutionID: newExecutionID(), CountLimit: 1})
			for count, reply := range map[string]string{
				"inf": "0|invalid_input|count_limit_exceeds_hard_cap", "1e400": "0|invalid_input|count_limit_exceeds_hard_cap",
				"10000.5": "0|invalid_input|count_limit_exceeds_hard_cap", "10000": "1|OK|list||", "0.5": "0|invalid_input|count_limit must be >= 1",
				"nan": "0|invalid_input|count_limit must be >= 1", "-1": "0|invalid_input|count_limit must be >= 1", " 0x2 ": "1|OK|list||",
			} {
				want(t, "reply for "+count, b.say(read.with(3, count)), reply)
			}
		})
		t.Run("priorities", func(t *testing.T) {
			for raw, stored := range map[string]string{
				"0.3333333333333333": "0.3333333333333333", "0.1": "0.1", "1.5": "1.5", "-3": "0", "inf": "9000", "0x10": "16", " 7 ": "7",
				"8999.999999999999": "8999.999999999998", "007": "7",
			} {
				id := newExecutionID()
				call := wireOf(b, enginerpc.CreateExecutionCall{
					ExecutionID: id, Namespace: "n", LaneID: lane, ExecutionKind: "k", CreatorIdentity: "me", PartitionID: "1",
				}).with(5, raw)
				want(t, "reply", b.say(call), "1|OK|"+string(id)+"|waiting")
				want(t, "priority "+raw, b.core(id, "priority"), stored)
			}
		})
	})
}
