package contracttest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// listener collects the messages that the library publishes to workers and keepers.
type listener struct {
	*bench
	messages chan string
}

// listen subscribes to the channels of the lane, of the worker and of keepers.
func listen(t *testing.T, b *bench) *listener {
	t.Helper()
	conn, release := b.client.Dedicate()
	t.Cleanup(release)
	l := &listener{b, make(chan string, 64)}
	conn.SetPubSubHooks(hooks(l.messages))
	channels := []string{b.keys.ChannelWake(lane), b.keys.ChannelDue(), b.keys.ChannelWorker(instance)}
	if err := conn.Do(t.Context(), conn.B().Subscribe().Channel(channels...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	return l
}

// next is the next message, or empty when there is none within five minutes.
func (l *listener) next(t *testing.T) string {
	select {
	case m := <-l.messages:
		return m
	case <-time.After(5 * time.Minute):
		return ""
	case <-t.Context().Done():
		return ""
	}
}

// mark publishes a message, which the channel delivers after all earlier ones.
func (l *listener) mark() string {
	l.tb.Helper()
	mark := "mark " + uuid.NewString()
	l.do("PUBLISH", l.keys.ChannelDue(), mark)
	return mark
}

// All messages that were published so far.
func (l *listener) told(t *testing.T) (list []string) {
	t.Helper()
	mark := l.mark()
	for m := l.next(t); m != mark; m = l.next(t) {
		if m == "" {
			t.Fatalf("%s has not arrived, after %q", mark, list)
		}
		list = append(list, m)
	}
	return list
}

// A wait for a matching message among those published so far. In a cluster, messages of several servers overtake each
// other, so the match may also be a later one.
func (l *listener) receives(t *testing.T, is func(message string) bool) {
	t.Helper()
	mark, list := l.mark(), []string(nil)
	for {
		m := l.next(t)
		switch {
		case is(m):
			return
		case m == "", m == mark && l.client.Mode() != rueidis.ClientModeCluster:
			t.Fatalf("messages %q", list)
		}
		list = append(list, m)
	}
}

const (
	// soon is earlier than the next sweep of keepers, so the library has to announce anything due by then.
	soon       = 8 * time.Second
	retrySoon  = `{"max_retries":3,"backoff":{"type":"fixed","delay_ms":8000}}`
	retryNever = `{"max_retries":0}`
)

// workAt is the start of the message that a partition has work.
func workAt(p string) string { return "work " + p + " " }

// dueBy is for the message that something is due in the partition after that time.
type dueBy time.Duration

// knownBy is dueBy for calls whose preparations may already have announced the time, with no sweep since.
type knownBy time.Duration

// announcement is a call of another program after which the library has to notify workers or keepers.
type announcement struct {
	name string
	// prepare returns the call; everything that prepare itself makes eligible must have been claimed or cancelled
	// before the call.
	prepare func(b *bench) func()
	// want is the beginning of a message, a dueBy, or "reclaim": that something is to be taken over.
	want any
}

func after(d time.Duration) time.Time { return time.Now().Add(d) }

func created(change ...func(*enginerpc.CreateExecutionCall)) func(b *bench) func() {
	return func(b *bench) func() { return func() { b.create(change...) } }
}

func delayed(c *enginerpc.CreateExecutionCall) { c.DelayUntil = after(time.Hour) }

// blocked unblocks an execution that was blocked for a reason.
func blocked(reason string) func(b *bench) func() {
	return func(b *bench) func() {
		id := b.create()
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: id, BlockingReason: reason})
		return func() { must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: id}) }
	}
}

// keep performs one round of a keeper's work.
func (b *bench) keep() {
	b.tb.Helper()
	must(b, enginerpc.KeepCall{Partition: partition, Limit: 16})
}

// linked is a running execution with another that depends on it.
func (b *bench) linked() (edge, held) {
	b.tb.Helper()
	up := b.create()
	h := b.claim(up)
	e := b.staged(up, b.create())
	b.apply(e)
	return e, h
}

// ended ends an upstream.
func ended(end func(b *bench, h held)) func(b *bench) func() {
	return func(b *bench) func() {
		_, h := b.linked()
		return func() { end(b, h) }
	}
}

// waits suspends an execution.
func waits(change func(*enginerpc.SuspendExecutionCall), end func(b *bench, w waiting)) func(b *bench) func() {
	return func(b *bench) func() {
		b.secret()
		call := b.suspendCall(b.running(), enginecore.WaitpointID(uuid.NewString()), forGo)
		change(&call)
		suspend := func() waiting {
			reply := must(b, call)
			return waiting{held: held{id: call.ExecutionID, index: call.AttemptIndex}, wait: reply.WaitpointID,
				key: reply.WaitpointKey, token: reply.WaitpointToken}
		}
		if end == nil {
			return func() { suspend() }
		}
		w := suspend()
		return func() { end(b, w) }
	}
}

func unchanged(*enginerpc.SuspendExecutionCall) {}

func (b *bench) resume(w waiting, delay time.Duration) {
	must(b, enginerpc.ResumeExecutionCall{WaitpointID: w.wait, LaneID: lane, ExecutionID: w.id, ResumeDelay: delay})
}

// decided is a join of two running upstreams, one of which has ended; no call has cancelled the other one yet.
type decided struct {
	flow     enginecore.FlowID
	join     enginecore.ExecutionID
	siblings []enginecore.ExecutionID
	decide   func()
}

// anyOf is a join that is decided when decide is called.
func anyOf(b *bench, change ...func(*enginerpc.CreateExecutionCall)) decided {
	b.tb.Helper()
	d := decided{flow: enginecore.FlowID(uuid.NewString()), join: b.create(change...)}
	must(b, enginerpc.CreateFlowCall{Partition: partition, FlowID: d.flow, FlowKind: "kind", Namespace: "ns"})
	must(b, enginerpc.AddExecutionToFlowCall{FlowID: d.flow, ExecutionID: d.join})
	must(b, enginerpc.SetEdgeGroupPolicyCall{
		FlowID: d.flow, DownstreamExecutionID: d.join, PolicyVariant: "any_of", OnSatisfied: "cancel_remaining", K: 1,
	})
	for range 2 {
		up := b.create()
		d.siblings = append(d.siblings, up)
		must(b, enginerpc.AddExecutionToFlowCall{FlowID: d.flow, ExecutionID: up})
		id := d.stage(b, up, d.join)
		must(b, enginerpc.ApplyDependencyToChildCall{
			DownstreamExecutionID: d.join, LaneID: lane, FlowID: d.flow, EdgeID: id, UpstreamExecutionID: up,
			GroupExecutionID: d.join,
		})
		d.decide = func() {
			must(b, enginerpc.ResolveDependencyCall{
				DownstreamExecutionID: d.join, LaneID: lane, UpstreamExecutionID: up, EdgeID: id, UpstreamOutcome: "success",
				FlowID: d.flow, GroupExecutionID: d.join,
			})
		}
	}
	b.complete(b.claim(d.siblings[1]), "1")
	return d
}

func (d decided) stage(b *bench, up, down enginecore.ExecutionID) enginecore.EdgeID {
	b.tb.Helper()
	id := enginecore.EdgeID(uuid.NewString())
	must(b, enginerpc.StageDependencyEdgeCall{
		FlowID: d.flow, EdgeID: id, UpstreamExecutionID: up, DownstreamExecutionID: down,
		ExpectedGraphRevision: atoi(b.flowField(d.flow, "graph_revision")),
	})
	return id
}

// home is the partition whose reclaim queue receives lost executions: partition 0 on a single server.
func home(b *bench) string {
	if b.client.Mode() == rueidis.ClientModeCluster {
		return strconv.Itoa(int(partition.Index))
	}
	return "0"
}

var announcements = []announcement{
	{"create", created(), workAt("1")},
	{"create delayed", created(func(c *enginerpc.CreateExecutionCall) { c.DelayUntil = after(soon) }), dueBy(soon)},
	{"create with a deadline", created(func(c *enginerpc.CreateExecutionCall) { c.ExecutionDeadlineAt = after(soon) }), dueBy(soon)},
	{"replay", func(b *bench) func() {
		id := b.create()
		b.cancel(id)
		return func() { b.replay(id) }
	}, workAt("1")},
	{"promote", func(b *bench) func() {
		id := b.create(delayed)
		return func() {
			must(b, enginerpc.PromoteDelayedCall{LaneID: lane, ExecutionID: id, Now: after(2 * time.Hour)})
		}
	}, workAt("1")},
	{"priority", func(b *bench) func() {
		b.create()
		id := b.create()
		return func() { must(b, enginerpc.ChangePriorityCall{LaneID: lane, ExecutionID: id, NewPriority: 5}) }
	}, workAt("1")},
	{"claim", func(b *bench) func() {
		id := b.create()
		return func() { b.claim(id, func(c *enginerpc.ClaimExecutionCall) { c.LeaseTTL = soon }) }
	}, dueBy(soon)},
	{"claim with a timeout", func(b *bench) func() {
		id := b.create()
		return func() { b.claim(id, func(c *enginerpc.ClaimExecutionCall) { c.AttemptTimeout = soon }) }
	}, dueBy(soon)},
	{"reclaim", func(b *bench) func() {
		h := b.running()
		b.revoke(h)
		must(b, enginerpc.IssueReclaimGrantCall{Grant: b.grantCall(h.id)})
		call := b.reclaimCall(h)
		call.LeaseTTL = soon
		return func() { must(b, call) }
	}, dueBy(soon)},
	{"claim resumed", func(b *bench) func() {
		w := b.suspended(forGo)
		b.resume(w, 0)
		must(b, enginerpc.IssueClaimGrantCall{Grant: b.grantCall(w.id)})
		return func() {
			must(b, enginerpc.ClaimResumedExecutionCall{
				AttemptIndex: w.index, ExecutionID: w.id, WorkerID: worker, WorkerInstanceID: instance, LaneID: lane,
				LeaseID: enginecore.LeaseID(uuid.NewString()), LeaseTTL: soon,
			})
		}
	}, dueBy(soon)},
	{"shorter lease", func(b *bench) func() {
		h := b.running()
		return func() {
			must(b, enginerpc.RenewLeaseCall{
				ExecutionID: h.id, AttemptIndex: h.index, AttemptID: h.try, LeaseID: h.lease, LeaseEpoch: h.epoch,
				LeaseTTL: soon, LeaseHistoryGrace: time.Second,
			})
		}
	}, dueBy(soon)},
	{"lease expiry", func(b *bench) func() {
		h := b.running()
		b.set(h.id, "lease_expires_at", "1")
		return func() { must(b, enginerpc.MarkLeaseExpiredIfDueCall{ExecutionID: h.id}) }
	}, "reclaim"},
	{"revoke", func(b *bench) func() {
		h := b.running()
		return func() { b.revoke(h) }
	}, "reclaim"},
	{"revoke notifies the worker", func(b *bench) func() {
		h := b.running()
		return func() { b.revoke(h) }
	}, "cancel "},
	{"cancel notifies the worker", func(b *bench) func() {
		h := b.running()
		return func() { b.cancel(h.id) }
	}, "cancel "},
	{"fail", func(b *bench) func() {
		h := b.running()
		return func() { b.fail(h, retrySoon) }
	}, dueBy(soon)},
	{"delay", func(b *bench) func() {
		h := b.running()
		return func() { b.delay(h, after(soon)) }
	}, dueBy(soon)},
	{"budget", blocked("waiting_for_budget"), workAt("1")},
	{"quota", blocked("waiting_for_quota"), workAt("1")},
	{"route", blocked("waiting_for_capable_worker"), workAt("1")},
	{"operator", blocked("paused_by_operator"), workAt("1")},
	{"lane", blocked("paused_by_policy"), workAt("1")},
	{"delayed and paused", func(b *bench) func() {
		id := b.create(func(c *enginerpc.CreateExecutionCall) { c.DelayUntil = after(soon) })
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: id, BlockingReason: "paused_by_operator"})
		b.keep() // keepers forget the delay
		return func() { must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: id}) }
	}, dueBy(soon)},
	{"edge resolved", func(b *bench) func() {
		e, _ := b.linked()
		return func() { b.resolve(e, "success") }
	}, workAt("1")},
	{"edge of an ended upstream", func(b *bench) func() {
		e := b.staged(b.create(), b.create())
		b.complete(b.claim(e.up), "1")
		return func() { b.apply(e) }
	}, workAt("1")},
	{"edge resolved by a keeper", func(b *bench) func() {
		_, h := b.linked()
		b.complete(h, "1")
		return b.keep
	}, workAt("1")},
	{"edge resolved during a pause", func(b *bench) func() {
		e, h := b.linked()
		must(b, enginerpc.BlockExecutionForAdmissionCall{LaneID: lane, ExecutionID: e.down, BlockingReason: "paused_by_operator"})
		b.complete(h, "1")
		b.keep()
		return func() { must(b, enginerpc.UnblockExecutionCall{LaneID: lane, ExecutionID: e.down}) }
	}, workAt("1")},
	{"completion of an upstream", ended(func(b *bench, h held) { b.complete(h, "1") }), dueBy(0)},
	{"failure of an upstream", ended(func(b *bench, h held) { b.fail(h, retryNever) }), dueBy(0)},
	{"cancellation of an upstream", ended(func(b *bench, h held) { b.cancel(h.id) }), dueBy(0)},
	{"expiry of an upstream", ended(func(b *bench, h held) {
		must(b, enginerpc.ExpireExecutionCall{
			AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: lane, ExecutionID: h.id, ExpireReason: "operator",
		})
	}), dueBy(0)},
	{"wait with a timeout", waits(func(c *enginerpc.SuspendExecutionCall) {
		c.TimeoutAt, c.TimeoutBehavior = after(soon), "fail"
	}, nil), dueBy(soon)},
	{"signal", waits(unchanged, func(b *bench, w waiting) { must(b, b.deliverCall(w, "go")) }), workAt("1")},
	{"signal with a delay", waits(unchanged, func(b *bench, w waiting) {
		call := b.deliverCall(w, "go")
		call.ResumeDelay = soon
		must(b, call)
	}), dueBy(soon)},
	{"resume", waits(unchanged, func(b *bench, w waiting) { b.resume(w, 0) }), workAt("1")},
	{"resume with a delay", waits(unchanged, func(b *bench, w waiting) { b.resume(w, soon) }), dueBy(soon)},
	{"end of a wait in time", waits(func(c *enginerpc.SuspendExecutionCall) {
		c.TimeoutAt, c.TimeoutBehavior = time.UnixMilli(1), "auto_resume_with_timeout_signal"
	}, func(b *bench, w waiting) {
		must(b, enginerpc.ExpireSuspensionCall{WaitpointID: w.wait, AttemptIndex: w.index, LaneID: lane, ExecutionID: w.id})
	}), workAt("1")},
	{"pending waitpoint", func(b *bench) func() {
		h := b.running()
		b.secret()
		return func() {
			must(b, enginerpc.CreatePendingWaitpointCall{
				ExecutionID: h.id, AttemptIndex: h.index, WaitpointID: enginecore.WaitpointID(uuid.NewString()),
				WaitpointKey: "key", ExpiresAt: after(soon),
			})
		}
	}, dueBy(soon)},
	{"siblings", func(b *bench) func() { return anyOf(b).decide }, knownBy(0)},
}

// TestAnnouncements makes each contract call that makes an execution eligible, or due before the next sweep of keepers,
// and expects the library to notify workers or keepers.
func TestAnnouncements(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Kinds(t) {
		for _, x := range announcements {
			t.Run(fmt.Sprint(kind, " ", x.name), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, kind)
				l := listen(t, b)
				b.keep() // an active keeper, so that the library announces
				act := x.prepare(b)
				before := l.told(t)
				act()
				if want, known := x.want.(knownBy); known {
					x.want = dueBy(want)
					if slices.ContainsFunc(before, func(message string) bool { return x.matches(b, message) }) {
						return
					}
				}
				l.receives(t, func(message string) bool { return x.matches(b, message) })
			})
		}
	}
}

// matches reports whether a message is the one that is wanted.
func (a announcement) matches(b *bench, message string) bool {
	switch want := a.want.(type) {
	case string:
		if want == "reclaim" {
			want = workAt(home(b))
		}
		return strings.HasPrefix(message, want)
	case dueBy:
		at, found := strings.CutPrefix(message, fmt.Sprintf("%d ", partition.Index))
		return found && time.UnixMilli(atoi(at)).Before(time.Now().Add(time.Duration(want)+time.Second))
	}
	return false
}

// TestAnnouncements_NoneWithoutListeners: programs that call only functions of the contract cause no messages and no
// keys outside the contract.
func TestAnnouncements_NoneWithoutListeners(t *testing.T) {
	t.Parallel()
	b := newBench(t, testserver.Embedded)
	engine, err := embedded.Open(t.Context(), embedded.Options{Library: lualib.Source()})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if b.client, err = rueidis.NewClient(engine.ClientOption()); err != nil {
		t.Fatal(err)
	}
	defer b.client.Close()
	l := listen(t, b)
	for _, x := range []time.Time{{}, after(soon)} {
		function, keys, args, err := enginerpc.Wire(b.keys, enginerpc.CreateExecutionCall{
			ExecutionID: newExecutionID(), Namespace: "ns", LaneID: lane, ExecutionKind: "kind", CreatorIdentity: "test",
			PartitionID: "1", DelayUntil: x,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.raw(t.Context(), function, keys, args).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if list := l.told(t); len(list) > 0 {
		t.Errorf("messages %q", list)
	}
	if keys, err := b.do("KEYS", b.prefix+":ffx:*").AsStrSlice(); err != nil || len(keys) > 0 {
		t.Errorf("keys %q, %v", keys, err)
	}
}

// TestAnnouncements_EarlierTimesOnly: the library notifies keepers of a time only if it is earlier than every time they
// know of in the partition.
func TestAnnouncements_EarlierTimesOnly(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			if kind == testserver.OnCluster {
				return // messages of several servers overtake each other
			}
			b := newBench(t, kind)
			l := listen(t, b)
			b.keep()
			delayed := func(by time.Duration) []string {
				b.create(func(c *enginerpc.CreateExecutionCall) { c.DelayUntil = after(by) })
				return l.told(t)
			}
			if list := delayed(2 * time.Hour); len(list) != 1 {
				t.Errorf("something due after a keeper found nothing: messages %q", list)
			}
			if list := delayed(3 * time.Hour); len(list) != 0 {
				t.Errorf("something later: messages %q", list)
			}
			if list := delayed(time.Hour); len(list) != 1 {
				t.Errorf("something earlier: messages %q", list)
			}
			b.keep() // learns of the earliest
			if list := delayed(2 * time.Hour); len(list) != 0 {
				t.Errorf("something later than a keeper has found: messages %q", list)
			}
		})
	}
}
