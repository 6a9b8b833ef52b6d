package contracttest

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// twinSteps are the possible steps of a node, with their weights.
var twinSteps = []struct {
	weight int
	step   func(x *twins, node int)
}{
	{6, (*twins).claimOne}, {4, (*twins).claimSome}, {6, (*twins).completeOne}, {6, (*twins).completeQuickly},
	{3, (*twins).completeMany}, {4, (*twins).failOne}, {2, (*twins).release}, {2, (*twins).putOff}, {4, (*twins).suspend},
	{4, (*twins).wakeUp}, {3, (*twins).keepLease}, {4, (*twins).takeOver}, {4, (*twins).stop}, {5, (*twins).replayOne},
	{4, (*twins).hold}, {4, (*twins).timers}, {3, (*twins).tell}, {1, (*twins).addEdge},
}

// step does one thing to one node, mostly one that is not over.
func (x *twins) step() {
	x.t.Helper()
	node := x.r.IntN(len(x.graph))
	for range 2 {
		if x.record(x.rows.ids[node])["lifecycle_phase"] == "terminal" {
			node = x.r.IntN(len(x.graph))
		}
	}
	total := 0
	for _, s := range twinSteps {
		total += s.weight
	}
	k := x.r.IntN(total)
	for _, s := range twinSteps {
		if k -= s.weight; k < 0 {
			s.step(x, node)
			return
		}
	}
}

// ttl is how long a lease lasts: short ones are over when the call has returned.
func (x *twins) ttl() time.Duration {
	return pick(x.r, time.Minute, time.Minute, time.Minute, time.Millisecond)
}

// pass waits until times within the next millisecond are due.
func (x *twins) pass() {
	x.t.Helper()
	enginetest.Pass(x.t, x.Conn, 3*time.Millisecond)
}

// lease is the latest lease of a node, or now and then a wrong one.
func (x *twins) lease(node int) held {
	list := x.held[node]
	if len(list) == 0 {
		return held{lease: "l", epoch: 1, try: "a"}
	}
	h := list[len(list)-1]
	switch x.r.IntN(16) {
	case 0:
		h = list[x.r.IntN(len(list))]
	case 1:
		h.epoch++
	case 2:
		h.try = "another"
	}
	return h
}

// note appends the lease in a node's row to its known leases.
func (x *twins) note(node int) {
	core := x.record(x.rows.ids[node])
	if core["current_lease_id"] == "" {
		return
	}
	x.held[node] = append(x.held[node], held{
		lease: enginecore.LeaseID(core["current_lease_id"]), try: keyspace.AttemptID(core["current_attempt_id"]),
		epoch: enginecore.LeaseEpoch(atoi(core["current_lease_epoch"])), index: enginecore.AttemptIndex(atoi(core["current_attempt_index"])),
	})
}

func (x *twins) grant(s *twinSide, node int) enginerpc.Grant {
	g := x.grantCall(s.ids[node])
	g.LaneID = s.lane
	return g
}

// claimWith claims a node with the contract's calls, also one that resumes after a suspension.
func (x *twins) claimWith(s *twinSide, node int, lease enginecore.LeaseID, try keyspace.AttemptID, ttl time.Duration) wire {
	core := x.record(s.ids[node])
	if core["attempt_state"] == "attempt_interrupted" {
		return wireOf(x.bench, enginerpc.ClaimResumedExecutionCall{
			AttemptIndex: enginecore.AttemptIndex(atoi(core["current_attempt_index"])), ExecutionID: s.ids[node], WorkerID: worker,
			WorkerInstanceID: instance, LaneID: s.lane, LeaseID: lease, LeaseTTL: ttl,
		})
	}
	return wireOf(x.bench, enginerpc.ClaimExecutionCall{
		ExecutionID: s.ids[node], WorkerID: worker, WorkerInstanceID: instance, LaneID: s.lane, LeaseID: lease, LeaseTTL: ttl,
		RenewBefore: time.Second, AttemptID: try,
	})
}

func (x *twins) claimOne(node int) {
	x.t.Helper()
	name, ttl := x.graph[node].name, x.ttl()
	x.both("grant "+name, func(s *twinSide) wire {
		return wireOf(x.bench, enginerpc.IssueClaimGrantCall{Grant: x.grant(s, node)})
	})
	lease, try := enginecore.LeaseID(uuid.NewString()), keyspace.AttemptID(uuid.NewString())
	x.both("claim "+name, func(s *twinSide) wire { return x.claimWith(s, node, lease, try, ttl) })
	x.note(node)
	if ttl < time.Second {
		x.pass()
	}
}

func (x *twins) request(count int64) enginerpc.ClaimRequest {
	return enginerpc.ClaimRequest{
		LaneID: x.rows.lane, WorkerID: worker, WorkerInstanceID: instance, ClaimID: uuid.NewString(), Count: count, LeaseTTL: time.Minute,
		Kinds: "\nkind\n",
	}
}

// claimSome claims rows as workers do.
func (x *twins) claimSome(int) {
	x.t.Helper()
	reply := must(x.bench, enginerpc.ClaimCall{Partition: partition, ClaimRequest: x.request(1 + x.r.Int64N(3))})
	x.done = append(x.done, fmt.Sprint("claims ", len(reply.Executions)))
	x.follow(reply.Executions)
}

// follow claims those records whose rows have been claimed.
func (x *twins) follow(claimed []enginerpc.ClaimedExecution) {
	x.t.Helper()
	for _, c := range claimed {
		for node, id := range x.rows.ids {
			if id != c.ExecutionID {
				continue
			}
			x.note(node)
			h := x.held[node][len(x.held[node])-1]
			core := x.record(x.records.ids[node])
			if core["lifecycle_phase"] == "active" {
				x.followTakeOver(node, h)
				continue
			}
			said := x.say(wireOf(x.bench, enginerpc.IssueClaimGrantCall{Grant: x.grant(x.records, node)}))
			said += " " + x.say(x.claimWith(x.records, node, h.lease, h.try, time.Minute))
			x.done = append(x.done, "so does "+x.graph[node].name+": "+said)
		}
	}
	x.followEnds()
}

// followEnds ends the records of rows that a claim has ended, since their workers were lost too often: a take-over does that to a
// record.
func (x *twins) followEnds() {
	x.t.Helper()
	for node, id := range x.rows.ids {
		if x.record(id)["failure_category"] != "worker_lost" || x.record(x.records.ids[node])["lifecycle_phase"] != "active" {
			continue
		}
		x.followTakeOver(node, held{lease: enginecore.LeaseID(uuid.NewString()), try: keyspace.AttemptID(uuid.NewString())})
	}
}

// followTakeOver takes over the record of a row that was claimed although it had an owner before.
func (x *twins) followTakeOver(node int, h held) {
	x.t.Helper()
	said := x.say(wireOf(x.bench, enginerpc.MarkLeaseExpiredIfDueCall{ExecutionID: x.records.ids[node]}))
	said += " " + x.say(wireOf(x.bench, enginerpc.IssueReclaimGrantCall{Grant: x.grant(x.records, node)}))
	said += " " + x.say(wireOf(x.bench, x.takeOverCall(x.records, node, h.lease, h.try)))
	x.done = append(x.done, "so is taken over "+x.graph[node].name+": "+said)
}

func (x *twins) takeOverCall(s *twinSide, node int, lease enginecore.LeaseID, try keyspace.AttemptID) enginerpc.ReclaimExecutionCall {
	index := enginecore.AttemptIndex(atoi(x.record(s.ids[node])["current_attempt_index"]))
	return enginerpc.ReclaimExecutionCall{
		OldAttemptIndex: index, AttemptIndex: index + 1, ExecutionID: s.ids[node], WorkerID: worker, WorkerInstanceID: instance,
		LaneID: s.lane, LeaseID: lease, LeaseTTL: time.Minute, AttemptID: try,
	}
}

func (x *twins) completeCall(s *twinSide, node int, h held, result string) enginerpc.CompleteExecutionCall {
	return enginerpc.CompleteExecutionCall{
		AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: s.lane, ExecutionID: s.ids[node], LeaseID: h.lease, LeaseEpoch: h.epoch,
		AttemptID: h.try, ResultPayload: []byte(result),
	}
}

func (x *twins) completeOne(node int) {
	x.t.Helper()
	h, result := x.lease(node), pick(x.r, "", "one", decisions[0], decisions[1], decisions[2])
	x.both("complete "+x.graph[node].name, func(s *twinSide) wire { return wireOf(x.bench, x.completeCall(s, node, h, result)) })
}

// completeQuickly completes a row with the call of workers, which also leases the next node.
func (x *twins) completeQuickly(node int) {
	x.t.Helper()
	h, result := x.lease(node), pick(x.r, decisions...)
	reply, err := x.Complete(x.t.Context(), enginerpc.CompleteCall{
		Partition: partition, ExecutionID: x.rows.ids[node], LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try, Result: []byte(result),
		ClaimRequest: x.request(x.r.Int64N(3)),
	})
	said := x.say(wireOf(x.bench, x.completeCall(x.records, node, h, result)))
	x.done = append(x.done, fmt.Sprint("complete quickly ", x.graph[node].name, ": ", err, ", ", said))
	x.follow(reply.Executions)
}

// completeMany completes the rows that a worker has with one call. In runs with joins, one of them may end another.
func (x *twins) completeMany(node int) {
	x.t.Helper()
	call := enginerpc.WorkCall{Partition: partition, ClaimRequest: x.request(x.r.Int64N(3))}
	var nodes []int
	if hasCancelling(x.graph) {
		x.completeQuickly(node)
		return
	}
	for i := range x.graph {
		if x.record(x.rows.ids[i])["current_lease_id"] != "" {
			nodes = append(nodes, i)
		}
	}
	for _, i := range nodes {
		h := x.held[i][len(x.held[i])-1]
		call.Completions = append(call.Completions, enginerpc.Completed(&enginerpc.ClaimedExecution{
			ExecutionID: x.rows.ids[i], LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try,
		}, []byte(decisions[i%2])))
	}
	if len(nodes) == 0 {
		return
	}
	reply := must(x.bench, call)
	x.done = append(x.done, fmt.Sprint("complete ", nodes, ": ", reply.Outcomes))
	for _, i := range nodes {
		x.say(wireOf(x.bench, x.completeCall(x.records, i, x.held[i][len(x.held[i])-1], decisions[i%2])))
	}
	x.follow(reply.Executions)
}

func (x *twins) failOne(node int) {
	x.t.Helper()
	h, quick, retryable := x.lease(node), x.r.IntN(2) == 0, x.r.IntN(2) == 0
	x.both(fmt.Sprint("fail ", x.graph[node].name, " ", quick, " ", retryable), func(s *twinSide) wire {
		if quick {
			return wireOf(x.bench, enginerpc.FailCall{
				Partition: partition, ExecutionID: s.ids[node], LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try, AttemptIndex: h.index,
				Reason: "broken", Category: "test", Retryable: retryable,
			})
		}
		call := enginerpc.FailExecutionCall{
			AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: s.lane, ExecutionID: s.ids[node], LeaseID: h.lease, LeaseEpoch: h.epoch,
			AttemptID: h.try, FailureReason: "boom", FailureCategory: "test",
		}
		if retryable {
			call.RetryPolicyJSON = []byte(`{"max_retries":2,"backoff":{"type":"fixed","delay_ms":1}}`)
		}
		return wireOf(x.bench, call)
	})
	x.pass()
}

func (x *twins) release(node int) {
	x.t.Helper()
	h := x.lease(node)
	x.both("release "+x.graph[node].name, func(s *twinSide) wire {
		return wireOf(x.bench, enginerpc.ReleaseCall{
			Partition: partition, ExecutionID: s.ids[node], LeaseID: h.lease, LeaseEpoch: h.epoch, AttemptID: h.try, Reason: "test",
		})
	})
}

// putOff makes a node wait for a time, or for its upstreams.
func (x *twins) putOff(node int) {
	x.t.Helper()
	h, until := x.lease(node), time.Now().Add(pick(x.r, time.Millisecond, time.Hour))
	if x.r.IntN(2) == 0 {
		x.both("wait of "+x.graph[node].name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.MoveToWaitingChildrenCall{
				AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: s.lane, ExecutionID: s.ids[node], LeaseID: h.lease,
				LeaseEpoch: h.epoch, AttemptID: h.try,
			})
		})
		return
	}
	x.both("delay "+x.graph[node].name, func(s *twinSide) wire {
		return wireOf(x.bench, enginerpc.DelayExecutionCall{
			AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: s.lane, ExecutionID: s.ids[node], LeaseID: h.lease, LeaseEpoch: h.epoch,
			AttemptID: h.try, DelayUntil: until,
		})
	})
	x.pass()
}

func (x *twins) suspend(node int) {
	x.t.Helper()
	h := x.lease(node)
	suspension := keyspace.SuspensionID(uuid.NewString())
	timeout := pick(x.r, time.Millisecond, time.Hour)
	behaviour := pick(x.r, "fail", "cancel", "expire", "auto_resume_with_timeout_signal", "escalate")
	at := time.Now().Add(timeout)
	x.waits++
	wait := fmt.Sprint("wait-", x.waits)
	for _, s := range []*twinSide{x.rows, x.records} {
		s.wait[node] = enginecore.WaitpointID(uuid.NewString())
		s.call(string(s.wait[node]), wait)
	}
	x.both("suspend "+x.graph[node].name, func(s *twinSide) wire {
		return wireOf(x.bench, enginerpc.SuspendExecutionCall{
			WorkerInstanceID: instance, LaneID: s.lane, ExecutionID: s.ids[node], AttemptIndex: h.index, AttemptID: h.try, LeaseID: h.lease,
			LeaseEpoch: h.epoch, SuspensionID: suspension, WaitpointID: s.wait[node], WaitpointKey: "key", ReasonCode: "waiting_for_signal",
			RequestedBy: "test", TimeoutAt: at, TimeoutBehavior: behaviour, ResumeConditionJSON: []byte(forGo), ResumePolicyJSON: []byte("{}"),
		})
	})
	x.pass()
}

// say is bench.say without tokens, which differ between the sides.
func (x *twins) say(w wire) string {
	x.t.Helper()
	said := x.bench.say(w)
	if w.function == "ff_suspend_execution" {
		for at := len(said) - 1; at >= 0; at-- {
			if said[at] == '|' {
				return said[:at]
			}
		}
	}
	return said
}

// wakeUp ends a suspension: by a signal, by a call, or as its time is up.
func (x *twins) wakeUp(node int) {
	x.t.Helper()
	name := x.graph[node].name
	switch x.r.IntN(3) {
	case 0:
		signal := enginecore.SignalID(uuid.NewString())
		word := pick(x.r, "go", "stay")
		x.both("signal "+word+" to "+name, func(s *twinSide) wire {
			call := enginerpc.DeliverSignalCall{LaneID: s.lane, Signal: x.signal(waiting{
				held: held{id: s.ids[node]}, wait: s.wait[node], token: x.field(x.keys.WaitpointRecord(partition, s.wait[node]), "waitpoint_token"),
			}, word)}
			call.SignalID = signal
			return wireOf(x.bench, call)
		})
	case 1:
		delay := pick(x.r, 0, time.Millisecond)
		x.both("resume "+name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.ResumeExecutionCall{
				WaitpointID: s.wait[node], LaneID: s.lane, ExecutionID: s.ids[node], ResumeDelay: delay,
			})
		})
		x.pass()
	default:
		x.both("time-out of "+name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.ExpireSuspensionCall{
				WaitpointID: s.wait[node], AttemptIndex: enginecore.AttemptIndex(atoi(x.record(s.ids[node])["current_attempt_index"])),
				LaneID: s.lane, ExecutionID: s.ids[node],
			})
		})
	}
}

// keepLease renews or revokes a lease.
func (x *twins) keepLease(node int) {
	x.t.Helper()
	h, ttl := x.lease(node), x.ttl()
	if x.r.IntN(2) == 0 {
		x.both("revoke "+x.graph[node].name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.RevokeLeaseCall{ExecutionID: s.ids[node], WorkerInstanceID: instance, RevokeReason: "test"})
		})
		return
	}
	x.both("renew "+x.graph[node].name, func(s *twinSide) wire {
		return wireOf(x.bench, enginerpc.RenewLeaseCall{
			ExecutionID: s.ids[node], AttemptIndex: h.index, AttemptID: h.try, LeaseID: h.lease, LeaseEpoch: h.epoch, LeaseTTL: ttl,
		})
	})
	x.pass()
}

// takeOver takes a node over whose lease has expired.
func (x *twins) takeOver(node int) {
	x.t.Helper()
	name := x.graph[node].name
	x.both("mark "+name, func(s *twinSide) wire {
		return wireOf(x.bench, enginerpc.MarkLeaseExpiredIfDueCall{ExecutionID: s.ids[node]})
	})
	x.both("take-over grant for "+name, func(s *twinSide) wire {
		return wireOf(x.bench, enginerpc.IssueReclaimGrantCall{Grant: x.grant(s, node)})
	})
	lease, try := enginecore.LeaseID(uuid.NewString()), keyspace.AttemptID(uuid.NewString())
	x.both("take over "+name, func(s *twinSide) wire { return wireOf(x.bench, x.takeOverCall(s, node, lease, try)) })
	x.note(node)
}

// stop cancels a node or lets it expire.
func (x *twins) stop(node int) {
	x.t.Helper()
	name := x.graph[node].name
	switch x.r.IntN(4) {
	case 0:
		x.both("expire "+name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.ExpireExecutionCall{
				WorkerInstanceID: instance, LaneID: s.lane, ExecutionID: s.ids[node], ExpireReason: "operator",
			})
		})
	case 1:
		x.both("cancel node "+name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.CancelNodeCall{Partition: partition, ExecutionID: s.ids[node], Reason: "test", Actor: "me"})
		})
	default:
		h, source := x.lease(node), pick(x.r, "", "operator_override", "operator_override", "flow_cascade")
		x.both("cancel "+name+" "+source, func(s *twinSide) wire {
			call := enginerpc.CancelExecutionCall{
				AttemptIndex: h.index, WorkerInstanceID: instance, LaneID: s.lane, ExecutionID: s.ids[node], Reason: "test", Source: source,
			}
			if source == "" {
				call.LeaseID, call.LeaseEpoch = h.lease, h.epoch
			}
			return wireOf(x.bench, call)
		})
	}
}

// replayOne runs a node again, preferably one that has ended.
func (x *twins) replayOne(node int) {
	x.t.Helper()
	for i := range x.graph {
		other := (node + i) % len(x.graph)
		if x.record(x.rows.ids[other])["lifecycle_phase"] == "terminal" {
			node = other
			break
		}
	}
	x.replayed = true
	x.both("replay "+x.graph[node].name, func(s *twinSide) wire {
		return wireOf(x.bench, enginerpc.ReplayExecutionCall{LaneID: s.lane, ExecutionID: s.ids[node]})
	})
}

// hold blocks a node, lifts its block, or changes its priority.
func (x *twins) hold(node int) {
	x.t.Helper()
	name := x.graph[node].name
	switch x.r.IntN(3) {
	case 0:
		reason := pick(x.r, "waiting_for_budget", "waiting_for_quota", "paused_by_operator")
		x.both("block "+name+" "+reason, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.BlockExecutionForAdmissionCall{
				LaneID: s.lane, ExecutionID: s.ids[node], BlockingReason: reason, BlockingDetail: "test",
			})
		})
	case 1:
		x.both("unblock "+name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.UnblockExecutionCall{LaneID: s.lane, ExecutionID: s.ids[node]})
		})
	default:
		priority := int64(x.r.IntN(3))
		x.both(fmt.Sprint("priority of ", name, " ", priority), func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.ChangePriorityCall{LaneID: s.lane, ExecutionID: s.ids[node], NewPriority: priority})
		})
	}
}

// timers performs due work: of one node, or of both runs.
func (x *twins) timers(node int) {
	x.t.Helper()
	name := x.graph[node].name
	switch x.r.IntN(4) {
	case 0:
		x.pass()
		must(x.bench, enginerpc.TickCall{Partition: partition, Limit: 500, Lanes: []enginecore.LaneID{x.rows.lane, x.records.lane}})
		x.done = append(x.done, "tick")
	case 1:
		x.both("promote "+name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.PromoteDelayedCall{LaneID: s.lane, ExecutionID: s.ids[node], Now: time.Now()})
		})
	case 2:
		x.both("free "+name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.PromoteBlockedToEligibleCall{LaneID: s.lane, ExecutionID: s.ids[node]})
		})
	default:
		x.both("evaluate "+name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.EvaluateFlowEligibilityCall{ExecutionID: s.ids[node]})
		})
	}
}

// A report of progress, or a renewal of a node's lease, as a worker makes it.
func (x *twins) tell(node int) {
	x.t.Helper()
	h := x.lease(node)
	if x.r.IntN(2) == 0 {
		x.both("progress of "+x.graph[node].name, func(s *twinSide) wire {
			return wireOf(x.bench, enginerpc.UpdateProgressCall{
				ExecutionID: s.ids[node], LeaseID: h.lease, LeaseEpoch: h.epoch, ProgressPct: "5", ProgressMessage: "text",
			})
		})
		return
	}
	x.both("frame of "+x.graph[node].name, func(s *twinSide) wire {
		return wireOf(x.bench, enginerpc.AppendFrameCall{
			ExecutionID: s.ids[node], AttemptIndex: h.index, LeaseID: h.lease, LeaseEpoch: h.epoch, FrameType: "delta", MaxPayloadBytes: 9,
		})
	})
}

// addEdge adds an edge outside the graph by the contract's calls. It leaves out ended nodes, whose edges do not count,
// and nodes with a deciding group once a node was replayed, as rows count their edges anew.
func (x *twins) addEdge(down int) {
	x.t.Helper()
	if down == 0 || hasCancelling(x.graph) || x.record(x.rows.ids[down])["lifecycle_phase"] == "terminal" {
		return
	}
	if x.replayed && x.graph[down].join.variant != "" {
		return
	}
	e := twinEdge{x.r.IntN(down), pick(x.r, "success_only", "always", "unless_failed")}
	for _, other := range x.graph[down].ups {
		if other.up == e.up {
			return
		}
	}
	for _, s := range []*twinSide{x.rows, x.records} {
		if _, err := enginerpc.Do(x.t.Context(), x.Conn, x.stageCall(s, e, down)); err != nil {
			x.t.Fatal(err)
		}
		s.call(string(x.edge(s, e, down)), "late-edge")
	}
	x.graph[down].ups = append(x.graph[down].ups, e)
	x.both(fmt.Sprint("add an edge from ", e.up, " to ", down), func(s *twinSide) wire { return wireOf(x.bench, x.applyCall(s, e, down)) })
}

// finish ends the runs: by a cancel of each node and the holder, or of the runs, after which nodes are run again.
func (x *twins) finish() {
	x.t.Helper()
	if x.r.IntN(2) == 0 {
		x.cancelRuns()
		for range len(x.graph) {
			if !x.t.Failed() {
				x.replayOne(x.r.IntN(len(x.graph)))
				x.compare()
			}
		}
		x.cancelRuns()
		return
	}
	for range 4 * len(x.graph) {
		for node := range x.graph {
			if x.record(x.rows.ids[node])["lifecycle_phase"] != "terminal" {
				x.both("end "+x.graph[node].name, func(s *twinSide) wire {
					return wireOf(x.bench, enginerpc.CancelExecutionCall{
						WorkerInstanceID: instance, LaneID: s.lane, ExecutionID: s.ids[node], Reason: "end", Source: "operator_override",
					})
				})
				x.compare()
			}
			if x.t.Failed() {
				return
			}
		}
	}
	x.both("end holder", func(s *twinSide) wire {
		ordinal := len(x.graph) + 1
		if s == x.records {
			ordinal = 1
		}
		return wireOf(x.bench, enginerpc.CancelExecutionCall{
			LaneID: holder, ExecutionID: keyspace.NodeExecutionID(partition, s.flow, ordinal), Reason: "end", Source: "operator_override",
		})
	})
	x.compare()
}

// cancelRuns cancels both runs and lets the keeper end their nodes.
func (x *twins) cancelRuns() {
	x.t.Helper()
	if x.t.Failed() {
		return
	}
	x.done = append(x.done, "cancel runs")
	for _, s := range []*twinSide{x.rows, x.records} {
		must(x.bench, enginerpc.ContractCancelFlowCall{
			Partition: partition, FlowID: s.flow, Reason: "end", CancellationPolicy: "cancel_all", Grace: time.Millisecond,
		})
	}
	x.compare()
	x.pass()
	must(x.bench, enginerpc.TickCall{Partition: partition, Limit: 500, Lanes: []enginecore.LaneID{x.rows.lane, x.records.lane}})
	x.compare()
}
