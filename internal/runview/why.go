package runview

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/explain"
	"github.com/flowfabric/flowfabric-go/internal/fleet"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/waitlist"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// explain completes the reasons of waits from the nodes' records, and adds their sentences.
func (r *Reader) explain(ctx context.Context, d *Description, now time.Time) error {
	if err := r.explainWaits(ctx, d); err != nil {
		return err
	}
	if err := r.explainLimits(ctx, d, now); err != nil {
		return err
	}
	d.explainBudgets()
	if err := r.explainPauses(ctx, d); err != nil {
		return err
	}
	if err := r.explainUnserved(ctx, d); err != nil {
		return err
	}
	d.explainStart(now)
	d.explainEnd()
	r.explainOverdue(ctx, d, now)
	return nil
}

// explainUpstreams names the upstreams that a node waits for. It reads the states of those that are on another page.
func (r *Reader) explainUpstreams(ctx context.Context, d *Description) error {
	states := make(map[string]fabrictype.NodeState, len(d.Nodes))
	for _, n := range d.Nodes {
		states[n.Name] = n.State
	}
	var elsewhere []string
	for _, n := range d.Nodes {
		spec := d.Node(n.Name)
		if spec == nil || n.Waiting.Reason != waitreason.Upstreams {
			continue
		}
		for _, up := range spec.Upstreams {
			if _, known := states[up.Node]; !known {
				states[up.Node] = ""
				elsewhere = append(elsewhere, up.Node)
			}
		}
	}
	read, err := r.readValues(ctx, d, elsewhere, 0, math.MaxInt)
	if err != nil {
		return err
	}
	for _, name := range elsewhere {
		states[name] = fabrictype.NodeState(read.nodes[name].State)
	}
	succeeded := func(node string) bool { return states[node] == fabrictype.NodeSucceeded }
	ended := func(node string) bool { return states[node].Ended() }
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if spec := d.Node(n.Name); spec != nil && n.Waiting.Reason == waitreason.Upstreams {
			n.Waiting = explain.Upstreams(n.Waiting, spec, succeeded, ended)
		}
	}
	return nil
}

// explainWaits adds the waits of suspended nodes.
func (r *Reader) explainWaits(ctx context.Context, d *Description) error {
	suspended := func(n fabrictype.Node) bool { return n.State == fabrictype.NodeSuspended }
	if !slices.ContainsFunc(d.Nodes, suspended) {
		return nil
	}
	waits, err := waitlist.OfRun(ctx, r.Session, r.Run, false)
	if err != nil {
		return r.Run.Errorf("waitpoints of", engine.RunFault(err))
	}
	for _, w := range waits {
		for i := range d.Nodes {
			n := &d.Nodes[i]
			switch {
			case n.ExecutionID != w.ExecutionID:
			case w.Timer && w.State == fabrictype.WaitOpen:
				n.SleepsUntil, n.Waiting = w.TimeoutAt, w.ExplainSleep()
			case !w.Timer:
				n.Waits = append(n.Waits, w.Wait)
				if w.State == fabrictype.WaitOpen {
					n.Waiting = w.Explain()
				}
			}
		}
	}
	return nil
}

// explainLimits names the limits that keep nodes from starting. It reads each limit once.
func (r *Reader) explainLimits(ctx context.Context, d *Description, now time.Time) error {
	if !r.Session.IsWhole() {
		return nil
	}
	byNode := make(map[int][]enginecore.QuotaPolicyID)
	var calls []enginerpc.QuotaStateCall
	asked := make(map[enginecore.QuotaPolicyID]bool)
	for i := range d.Nodes {
		if d.limits[d.Nodes[i].Name] == "" || d.Nodes[i].Waiting.Reason != waitreason.Limit {
			continue
		}
		limits, err := submit.DecodeLimits(d.limits[d.Nodes[i].Name])
		if err != nil {
			return err
		}
		for _, limit := range limits {
			byNode[i] = append(byNode[i], limit.Quota)
			if asked[limit.Quota] {
				continue
			}
			asked[limit.Quota] = true
			partition, err := r.Session.Core.Partitioning().QuotaPartition(limit.Quota)
			if err != nil {
				return err
			}
			calls = append(calls, enginerpc.QuotaStateCall{Partition: partition, QuotaPolicyID: limit.Quota})
		}
	}
	if len(calls) == 0 {
		return nil
	}
	results, err := batching.SendAll(ctx, r.Session.Core, calls)
	if err != nil {
		return err
	}
	found := make(map[enginecore.QuotaPolicyID]enginerpc.QuotaState)
	for _, result := range results {
		for _, q := range result.Reply.Quotas {
			found[q.QuotaPolicyID] = q
		}
	}
	for i, ids := range byNode {
		states := make([]enginerpc.QuotaState, len(ids))
		for k, id := range ids {
			states[k] = found[id]
		}
		d.Nodes[i].Waiting = explain.Limits(d.Nodes[i].Waiting, states, now)
	}
	return nil
}

// explainBudgets names the budgets that keep nodes from starting, also for nodes that no worker has tried to start
// since.
func (d *Description) explainBudgets() {
	for _, b := range d.Budgets {
		if b.UsedUp == "" || b.Effect != string(flow.BlockNodes) {
			continue
		}
		for i := range d.Nodes {
			e := &d.Nodes[i].Waiting
			isBlocked := e.Reason == waitreason.Budget && e.Subject == "" && explain.NamesBudget(*e, b.Name)
			if isBlocked || e.Reason == waitreason.Worker {
				*e = explain.Budget(*e, b.Name, b.Key, b.UsedUp, b.ResetsAt)
			}
		}
	}
}

// explainPauses marks nodes that wait because their lane, activity or run is paused, also nodes that no worker has
// tried to start since.
func (r *Reader) explainPauses(ctx context.Context, d *Description) error {
	couldStart := func(n fabrictype.Node) bool { return n.Waiting.Reason == waitreason.Worker }
	held := func(n fabrictype.Node) bool { return n.Waiting.Reason == waitreason.ActivityPaused }
	if !d.PausedAt.IsZero() {
		for i := range d.Nodes {
			if n := &d.Nodes[i]; couldStart(*n) || n.Waiting.Reason == waitreason.RunPaused {
				n.Waiting = explain.RunPaused(explain.Pause{By: d.PausedBy, Reason: d.PauseReason, Since: d.PausedAt})
			}
		}
	}
	store, missing := r.Session.Library("pauses")
	if missing != nil || !slices.ContainsFunc(d.Nodes, couldStart) && !slices.ContainsFunc(d.Nodes, held) {
		return nil
	}
	reply, err := store.Pauses(ctx, enginerpc.PausesCall{Partition: r.Run.Partition})
	if err != nil {
		return err
	}
	for _, stored := range reply.Pauses {
		text, _ := enginerpc.ParsePauseText(stored.Text)
		pause := explain.Pause{By: text.Actor, Reason: text.Reason, Since: text.Since}
		for i := range d.Nodes {
			n := &d.Nodes[i]
			switch {
			case !couldStart(*n) && !held(*n):
			case stored.Subject == engine.PausedLane && n.Lane == stored.Name && couldStart(*n):
				n.Waiting = explain.LanePaused(stored.Name, pause)
			case stored.Subject == engine.PausedActivity && n.Activity == stored.Name && !d.isMap(n.Name):
				n.Waiting = explain.ActivityPaused(stored.Name, pause)
			}
		}
	}
	return nil
}

// servedQueries is how many activities one call to the engine queries.
const servedQueries = 64

// explainUnserved marks nodes that wait for a worker that does not run, or for a slot of one.
func (r *Reader) explainUnserved(ctx context.Context, d *Description) error {
	store, missing := r.Session.Library("records of workers")
	if missing != nil || d.State != fabrictype.RunRunning {
		return nil
	}
	var queries []enginerpc.FindWorkersQuery
	waiting := make(map[enginerpc.FindWorkersQuery][]*fabrictype.Node)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Waiting.Reason != waitreason.Worker {
			continue
		}
		q := enginerpc.FindWorkersQuery{LaneID: enginecore.LaneID(n.Lane), Kind: n.Activity}
		if waiting[q] == nil {
			queries = append(queries, q)
		}
		waiting[q] = append(waiting[q], n)
	}
	for some := range slices.Chunk(queries, servedQueries) {
		reply, err := store.FindWorkers(ctx, enginerpc.FindWorkersCall{Partition: engine.Directory(), Queries: some})
		if err != nil {
			return err
		}
		for i, seen := range reply.Sightings[:min(len(some), len(reply.Sightings))] {
			if seen.Live {
				continue
			}
			for _, n := range waiting[some[i]] {
				host := engine.ReadWorkerAbout(seen.About).Host
				n.Waiting = explain.Unserved(n.Waiting, n.Activity, n.Lane, seen, host)
			}
			delete(waiting, some[i])
		}
	}
	return explainBusy(ctx, store, waiting)
}

// explainBusy marks nodes whose workers use all of their slots. It makes one call: where that does not return all
// workers, the nodes keep their explanation.
func explainBusy(
	ctx context.Context, store engine.Library, waiting map[enginerpc.FindWorkersQuery][]*fabrictype.Node,
) error {
	if len(waiting) == 0 {
		return nil
	}
	workers, all, err := fleet.FirstPage(ctx, store)
	if err != nil || !all {
		return err
	}
	for q, nodes := range waiting {
		serving, slots, free := 0, 0, 0
		for i := range workers {
			w := &workers[i]
			if slices.Contains(w.Lanes, string(q.LaneID)) && slices.Contains(w.Activities, q.Kind) && !w.Drains() {
				serving, slots, free = serving+1, slots+w.Slots, free+w.Free()
			}
		}
		if serving == 0 || free > 0 {
			continue
		}
		for _, n := range nodes {
			n.Waiting = explain.Busy(n.Waiting, serving, slots)
		}
	}
	return nil
}

// isMap reports whether a node is a map, whose activity runs in its child run.
func (d *Description) isMap(node string) bool {
	spec := d.Node(node)
	return spec != nil && spec.Map != nil
}

// explainEnd marks nodes that do not start because the run has ended.
func (d *Description) explainEnd() {
	if d.State == fabrictype.RunRunning {
		return
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Waiting.Reason != "" && n.State != fabrictype.NodeActive {
			n.Waiting = explain.RunOver(n.Waiting, string(d.State))
		}
	}
}

// explainStart marks the nodes of a run that has not started.
func (d *Description) explainStart(now time.Time) {
	if d.QueuePlace > 0 {
		d.explainQueue()
	}
	if !d.StartsAt.After(now) {
		return
	}
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Waiting.Reason == waitreason.Delay && n.Attempts == 0 {
			n.Waiting = fabrictype.Explanation{
				Reason: waitreason.Start, Since: n.Waiting.Since, Until: d.StartsAt,
				Sentence: "the run starts at " + explain.Time(d.StartsAt),
				Remedy:   "flowfabric run move or RunRef.MoveStart",
			}
		}
	}
}

// explainQueue marks the nodes of a run that waits in the queue of its key.
func (d *Description) explainQueue() {
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Waiting.Reason == waitreason.Delay && n.Attempts == 0 {
			n.DueAt, n.Overdue = time.Time{}, fabrictype.Duration{}
			n.Waiting = explain.Queued(n.Waiting, d.Key, d.waitsFor, d.QueuePlace)
		}
	}
}

// explainOverdue adds how late keepers are at a time of the engine's clock, and whether there are any.
func (r *Reader) explainOverdue(ctx context.Context, d *Description, now time.Time) {
	if d.State == fabrictype.RunRunning {
		d.Overdue.Duration = explain.LateBy(d.expiresAt, now)
	}
	late := d.Overdue.Duration > 0
	for i := range d.Nodes {
		n := &d.Nodes[i]
		overdue := &n.Overdue.Duration
		*overdue = max(*overdue, explain.LateBy(n.SleepsUntil, now))
		for _, w := range n.Waits {
			if w.State != fabrictype.WaitClosed && !w.Escalated {
				*overdue = max(*overdue, explain.LateBy(w.TimeoutAt, now))
			}
		}
		late = late || *overdue > 0
	}
	if !late {
		return
	}
	seen, known := r.Session.KeepersSeen(ctx)
	d.NoKeeper = known && seen == 0
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Overdue.Duration > 0 {
			n.Waiting = explain.Late(n.Waiting, n.Overdue.Duration, d.NoKeeper)
		}
	}
}
