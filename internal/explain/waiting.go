package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// Time is a time for people.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 MST") }

// Waiting explains why a node does not run, as far as its record and its declaration show it; zero for a node that runs
// or has ended. spec is nil for a node that the graph of the run does not have. now is the engine's time.
func Waiting(n enginerpc.DescribedNode, spec *flowgraph.Node, now time.Time) fabrictype.Explanation {
	var e fabrictype.Explanation
	switch {
	case n.LifecyclePhase == "terminal":
		return e
	case n.LifecyclePhase == "active":
		if e = abandoned(n, spec, now); e.Reason == "" {
			return e
		}
	default:
		e = ofReason(n, spec)
	}
	if e.Since.IsZero() {
		e.Since = n.ChangedAt
	}
	return e
}

// abandoned explains a node whose worker has lost it; zero for one that runs.
func abandoned(n enginerpc.DescribedNode, spec *flowgraph.Node, now time.Time) fabrictype.Explanation {
	if n.BlockingReason == "waiting_for_worker" && strings.HasPrefix(n.BlockingDetail, "lease revoked: ") {
		return fabrictype.Explanation{
			Reason: waitreason.LeaseRevoked, Detail: strings.TrimPrefix(n.BlockingDetail, "lease revoked: "),
			Subject:  string(n.WorkerInstanceID),
			Sentence: "an operator took it from its worker, waiting to be taken over: " + n.BlockingDetail,
			Remedy:   startWorker(string(n.LaneID)),
		}
	}
	if n.LeaseExpiresAt.IsZero() || n.LeaseExpiresAt.After(now) {
		return fabrictype.Explanation{}
	}
	return lost(n, spec)
}

// takenOverInCompany is how often an execution is taken over by a worker that may run others, too: IN_COMPANY in
// lost_worker.lua.
const takenOverInCompany = 2

// lost explains a node whose lease has run out.
func lost(n enginerpc.DescribedNode, spec *flowgraph.Node) fabrictype.Explanation {
	e := fabrictype.Explanation{
		Reason: waitreason.WorkerLost, Subject: string(n.WorkerInstanceID), Since: n.LeaseExpiresAt,
		Until: n.DelayUntil,
		Have:  int(n.ReclaimCount) + 1, Remedy: startWorker(string(n.LaneID)),
	}
	workers := "1 worker"
	if e.Have > 1 {
		workers = fmt.Sprintf("%d workers", e.Have)
	}
	left := 2 // unknown: more than the last
	if spec != nil {
		left = submit.MaxReclaims(spec) - int(n.ReclaimCount)
	}
	switch {
	case left <= 0:
		e.Sentence = fmt.Sprintf("it has lost %s, the last one at %s, and may lose no more: "+
			"it fails when a worker claims it", workers, Time(e.Since))
		return e
	case n.ReclaimCount == 0 && left > 1:
		e.Sentence = fmt.Sprintf("its worker was lost: the lease ran out at %s, waiting to be taken over", Time(e.Since))
		return e
	}
	next := "it waits for"
	if !e.Until.IsZero() {
		next = fmt.Sprintf("it is tried next at %s, by", Time(e.Until))
	}
	company := ""
	if n.ReclaimCount >= takenOverInCompany || left == 1 {
		company = " and runs nothing else"
	}
	e.Sentence = fmt.Sprintf("held back since %s, after it lost %s: %s a worker that has lived for some seconds%s",
		Time(e.Since), workers, next, company)
	e.Remedy = "mend what ends its workers; " + e.Remedy
	return e
}

// ofReason explains a node that no worker has, by the reason in its record.
func ofReason(n enginerpc.DescribedNode, spec *flowgraph.Node) fabrictype.Explanation {
	switch n.BlockingReason {
	case "waiting_for_retry_backoff":
		return retry(n, spec)
	case "waiting_for_decoder":
		return fabrictype.Explanation{
			Reason: waitreason.Undecodable, Until: n.DelayUntil, Detail: n.BlockingDetail,
			Sentence: n.BlockingDetail + "; tried again at " + Time(n.DelayUntil),
			Remedy:   "deploy one build of the activity, or fork the run with an input or result that fits",
		}
	case "waiting_for_delay", "waiting_for_resume_delay":
		return fabrictype.Explanation{
			Reason: waitreason.Delay, Until: n.DelayUntil, Sentence: "delayed until " + Time(n.DelayUntil),
		}
	case "waiting_for_worker":
		return forWorker(n, spec)
	case "waiting_for_children":
		return forOthers(n)
	case "waiting_for_capable_worker":
		return forCapable(n)
	case "waiting_for_quota":
		return fabrictype.Explanation{
			Reason: waitreason.Limit, Sentence: sentence(n, "waits for room under a limit"), Remedy: raiseLimit,
		}
	case "waiting_for_budget":
		return fabrictype.Explanation{
			Reason: waitreason.Budget, Sentence: sentence(n, "its budget is exhausted"), Remedy: raiseBudget,
		}
	case "paused_by_operator", "paused_by_policy":
		return held(n)
	case "waiting_for_signal", "waiting_for_approval", "waiting_for_callback", "waiting_for_tool_result":
		return fabrictype.Explanation{Reason: waitreason.Signals, Sentence: sentence(n, "waits for a signal")}
	case "held":
		return fabrictype.Explanation{
			Reason: waitreason.Submission, Sentence: n.BlockingDetail,
			Remedy: "if its program has ended, start the run again with the same id",
		}
	}
	return fabrictype.Explanation{
		Reason: waitreason.Other, Detail: n.BlockingReason, Sentence: sentence(n, n.BlockingReason),
	}
}

// sentence is the text in the record of a node, or another one where it has none.
func sentence(n enginerpc.DescribedNode, otherwise string) string {
	if n.BlockingDetail != "" {
		return n.BlockingDetail
	}
	return otherwise
}

// Remedies that end a wait sooner.
const (
	raiseLimit  = "raise the limit with flowfabric limit set or LimitRef.Set, or wait"
	raiseBudget = "raise the budget with flowfabric budget set or BudgetRef.Set, or reset it with flowfabric " +
		"budget reset or BudgetRef.Reset"
)

func startWorker(lane string) string { return "start a worker on lane " + lane }

func retry(n enginerpc.DescribedNode, spec *flowgraph.Node) fabrictype.Explanation {
	e := fabrictype.Explanation{
		Reason: waitreason.Retry, Until: n.DelayUntil, Have: int(n.RetryCount) + 1, Detail: n.FailureReason,
		Remedy: "mend the cause before the last attempt",
	}
	attempt := fmt.Sprintf("attempt %d", e.Have)
	if spec != nil && spec.Retry.Attempts > 0 {
		e.Need = spec.Retry.Attempts
		attempt += fmt.Sprintf(" of %d", e.Need)
	}
	e.Sentence = fmt.Sprintf("retries at %s (%s), after attempt %d failed: %s", Time(n.DelayUntil), attempt, n.Attempts,
		n.FailureReason)
	return e
}

// forLane begins the sentence of a node that waits for a worker; Busy adds to it.
const forLane = "waiting for a worker on lane "

func forWorker(n enginerpc.DescribedNode, spec *flowgraph.Node) fabrictype.Explanation {
	lane := string(n.LaneID)
	e := fabrictype.Explanation{
		Reason: waitreason.Worker, Subject: lane, Sentence: forLane + lane, Remedy: startWorker(lane),
	}
	if spec != nil && spec.ScheduleToStart > 0 && n.StartedAt.IsZero() && !n.ChangedAt.IsZero() {
		e.Until = n.ChangedAt.Add(spec.ScheduleToStart)
		e.Sentence += ", until " + Time(e.Until) + " (then it expires)"
	}
	return e
}

// Busy explains a node that waits while its workers use all of their slots.
func Busy(e fabrictype.Explanation, workers, slots int) fabrictype.Explanation {
	text := fmt.Sprintf(" (its %d workers use all of their %d slots)", workers, slots)
	switch {
	case workers == 1 && slots == 1:
		text = " (its worker uses its only slot)"
	case workers == 1:
		text = fmt.Sprintf(" (its worker uses all of its %d slots)", slots)
	}
	e.Sentence = strings.Replace(e.Sentence, forLane+e.Subject, forLane+e.Subject+text, 1)
	e.Remedy = "start another worker on lane " + e.Subject + ", or give it more slots (WorkerConfig.Concurrency)"
	return e
}

// Unserved explains a node that no live worker serves, by the worker that did last; host is its machine.
func Unserved(
	e fabrictype.Explanation, activity, lane string, last enginerpc.WorkerSighting, host string,
) fabrictype.Explanation {
	text := fmt.Sprintf("no live worker serves activity %q on lane %s; ", activity, lane)
	if last.WorkerInstanceID == "" {
		text += "none has been seen within a day"
	} else {
		text += fmt.Sprintf("last one seen %s on host %s (%s)", Time(last.ReportedAt), host, lastState(last.State))
	}
	if !e.Until.IsZero() {
		text += "; it waits until " + Time(e.Until) + " (then it expires)"
	}
	return fabrictype.Explanation{
		Reason: waitreason.Unserved, Subject: activity, Key: lane, Detail: string(last.WorkerInstanceID),
		Since: e.Since,
		Until: e.Until, Sentence: text,
		Remedy: fmt.Sprintf("start a worker on lane %s that has registered activity %q", lane, activity),
	}
}

// lastState describes the last state of a worker that no longer serves.
func lastState(state string) string {
	switch state {
	case "stopped":
		return "it has stopped"
	case "draining":
		return "it drains"
	}
	return "it is silent"
}

// forOthers explains a node that waits for its upstreams or its child run.
func forOthers(n enginerpc.DescribedNode) fabrictype.Explanation {
	if n.ChildFlowID == "" || !strings.HasPrefix(n.BlockingDetail, submit.ChildWaitPrefix) {
		return fabrictype.Explanation{Reason: waitreason.Upstreams, Sentence: "waiting for its upstreams"}
	}
	run, flow, _ := strings.Cut(strings.TrimPrefix(n.BlockingDetail, submit.ChildWaitPrefix), " of flow ")
	return fabrictype.Explanation{
		Reason: waitreason.ChildRun, Subject: run, Key: flow, Sentence: n.BlockingDetail, Remedy: "describe that run",
	}
}

// Beginnings of the texts with which the engine sets nodes aside or holds them.
const (
	unknownActivity = `no running worker knows activity "`
	noCapability    = "no running worker offers: "
	runPaused       = "the run is paused"
	activityPaused  = `activity "`
)

func forCapable(n enginerpc.DescribedNode) fabrictype.Explanation {
	lane := string(n.LaneID)
	if name, found := strings.CutPrefix(n.BlockingDetail, unknownActivity); found {
		name = strings.TrimSuffix(name, `"`)
		return fabrictype.Explanation{
			Reason: waitreason.Unregistered, Subject: name, Sentence: n.BlockingDetail,
			Remedy: fmt.Sprintf("start a worker on lane %s that has registered activity %q", lane, name),
		}
	}
	missing, found := strings.CutPrefix(n.BlockingDetail, noCapability)
	if !found {
		return fabrictype.Explanation{
			Reason: waitreason.Capability, Sentence: sentence(n, "waits for a worker with other capabilities"),
			Remedy: startWorker(lane),
		}
	}
	return fabrictype.Explanation{
		Reason: waitreason.Capability, Names: strings.Split(missing, ","), Sentence: n.BlockingDetail,
		Remedy: fmt.Sprintf("start a worker on lane %s that offers %s", lane, missing),
	}
}

// held explains a node that is blocked: by a pause of its run or activity, or by another program.
func held(n enginerpc.DescribedNode) fabrictype.Explanation {
	byOperator := n.BlockingReason == "paused_by_operator"
	if rest, found := strings.CutPrefix(n.BlockingDetail, runPaused); found && byOperator {
		return RunPaused(Pause{Reason: strings.TrimPrefix(rest, ": ")})
	}
	if byOperator && strings.HasPrefix(n.BlockingDetail, activityPaused) {
		name, rest, found := strings.Cut(strings.TrimPrefix(n.BlockingDetail, activityPaused), `" is paused`)
		if found {
			return ActivityPaused(name, Pause{Reason: strings.TrimPrefix(rest, ": ")})
		}
	}
	return fabrictype.Explanation{
		Reason: waitreason.Operator, Detail: n.BlockingDetail, Sentence: sentence(n, "blocked by an operator"),
		Remedy: "unblock the execution with package admin",
	}
}

// Queued explains a node whose run waits for its turn among the runs of a key, at a place of its queue. running is a
// run that is open; empty if none is known.
func Queued(e fabrictype.Explanation, key, running string, place int) fabrictype.Explanation {
	sentence := fmt.Sprintf("the run is number %d in the queue of key %q", place, key)
	if running != "" {
		sentence += ", behind run " + running
	}
	return fabrictype.Explanation{
		Reason: waitreason.Queue, Subject: running, Key: key, Have: place, Since: e.Since, Sentence: sentence,
		Remedy: "the end of the runs before it",
	}
}

// Upstreams completes the explanation of a node that waits for its upstreams. succeeded and ended return whether the
// upstream with a name has succeeded or ended.
func Upstreams(
	e fabrictype.Explanation, spec *flowgraph.Node, succeeded, ended func(string) bool,
) fabrictype.Explanation {
	needed := max(1, spec.Join.Needed)
	for _, up := range spec.Upstreams {
		switch {
		case !ended(up.Node):
			e.Names = append(e.Names, up.Node)
		case succeeded(up.Node):
			needed--
		}
	}
	if len(e.Names) == 0 {
		e.Reason, e.Sentence = waitreason.Settling, "waits for what its upstreams have told"
		return e
	}
	if !spec.Join.Policy.Tolerates() {
		e.Sentence = "waits for " + listed(e.Names)
		return e
	}
	e.Reason, e.Need = waitreason.Join, max(0, needed)
	e.Sentence = fmt.Sprintf("waits for %d of %s", e.Need, listed(e.Names))
	return e
}

// listed joins names and cuts long lists short.
func listed(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Limits completes the explanation of a node that waits under limits: it names the limit that blocks it, according to
// their states at the engine's time now. When each of them has room, the node waits for its turn.
func Limits(e fabrictype.Explanation, states []enginerpc.QuotaState, now time.Time) fabrictype.Explanation {
	for _, q := range states {
		full, windowed := q.Cap > 0 && q.Running >= q.Cap, q.Rate > 0 && q.InWindow >= q.Rate
		if !full && !windowed {
			continue
		}
		e.Subject, e.Key = q.Name, q.Key
		if full {
			e.Reason, e.Have, e.Need = waitreason.Limit, int(q.Running), int(q.Cap)
			e.Sentence += fmt.Sprintf("; %d of %d places are taken, %d wait", q.Running, q.Cap, q.Waiting)
			return e
		}
		e.Reason, e.Have, e.Need, e.Until = waitreason.RateWindow, int(q.InWindow), int(q.Rate), q.NextAt
		e.Sentence += fmt.Sprintf("; %d of %d have started within %s", q.InWindow, q.Rate,
			time.Duration(q.WindowMs)*time.Millisecond)
		if left := q.NextAt.Sub(now); !q.NextAt.IsZero() && left > 0 {
			e.Sentence += fmt.Sprintf(", the next may in about %s", left.Round(100*time.Millisecond))
		}
		return e
	}
	return e
}
