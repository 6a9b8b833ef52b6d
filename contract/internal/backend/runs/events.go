package runs

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/feeds"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// FollowEvents implements [engine.Backend]. The contract has no event log to wait for, so each wait is a poll interval.
func (c *Runs) FollowEvents(keyspace.Partition, enginecore.FlowID) feeds.Follower {
	return eventPoller{c.Poll}
}

// eventPoller always waits for the same time.
type eventPoller struct{ every time.Duration }

// Await implements [feeds.Follower].
func (p eventPoller) Await(ctx context.Context) error {
	sleep.For(ctx, p.every)
	return context.Cause(ctx)
}

// Close implements [feeds.Follower].
func (eventPoller) Close() {}

// ReadEvents composes the events of a run from its records and the lease histories of its nodes: all events of a run
// that has ended, otherwise the events up to the last complete millisecond. It can return only events that the records
// keep: of several progress reports, the last one.
func (c *Runs) ReadEvents(ctx context.Context, call enginerpc.ReadEventsCall) (enginerpc.ReadEventsReply, error) {
	reply := enginerpc.ReadEventsReply{Status: enginerpc.StatusOK}
	now, err := c.ReadClock(ctx)
	if err != nil {
		return reply, err
	}
	run, err := c.readRun(ctx, call.Partition, call.FlowID)
	if err != nil {
		return reply, err
	}
	graph, err := c.Graph(ctx, call.Partition, call.FlowID, run.tags[contractnode.TagGraphHash])
	if err != nil {
		return reply, err
	}
	if graph != nil {
		// Events of one millisecond are ordered by declaration, in which they may have happened.
		slices.SortStableFunc(run.nodes, func(a, b nodeRecord) int { return cmp.Compare(graph.Place[a.name], graph.Place[b.name]) })
	}
	events := run.events()
	for from := 0; from < len(run.nodes); from += link.Page {
		page := run.nodes[from:min(from+link.Page, len(run.nodes))]
		commands := make(rueidis.Commands, len(page))
		for i, n := range page {
			commands[i] = c.Client.B().Xrange().Key(c.Keys.ExecLeaseHistory(n.id)).Start("-").End("+").Build()
		}
		results, err := c.Read(ctx, commands...)
		if err != nil {
			return reply, err
		}
		for i := range page {
			entries, _ := results[i].AsXRange() // empty without a history
			events = append(events, page[i].history(from+i, entries)...)
		}
	}
	slices.SortFunc(events, func(a, b runEvent) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.number, b.number)) })
	complete := !run.over().IsZero()
	for _, e := range events {
		// While the run is open, further events of the present millisecond may appear before the ones that were read.
		if !complete && !e.at.Before(now) || int64(len(reply.Events)) == call.Limit {
			break
		}
		e.ID, e.At = engine.Decimal(e.at.UnixMilli())+"-"+engine.Decimal(e.number), e.at
		if call.After == "" || isBefore(call.After, e.ID) {
			reply.Events = append(reply.Events, e.FlowEvent)
		}
	}
	return reply, nil
}

// isBefore reports whether the event with the id a precedes that with the id b.
func isBefore(a, b string) bool {
	aTime, aNumber, _ := strings.Cut(a, "-")
	bTime, bNumber, _ := strings.Cut(b, "-")
	return cmp.Or(compareDigits(aTime, bTime), compareDigits(aNumber, bNumber)) < 0
}

// compareDigits compares numbers without leading zeros.
func compareDigits(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// runEvent is an event with its position: number orders the events of one millisecond.
type runEvent struct {
	enginerpc.FlowEvent
	at     time.Time
	number int64
}

// Numbers of events: the events of the run's beginning precede the events of its nodes, the events of its end follow
// them.
const (
	eventsPerNode = 10_000
	lastOfNode    = eventsPerNode - 1
	runEnds       = int64(1) << 50
)

// events returns the events of the run itself and the ends of its nodes.
func (r *runRecord) events() []runEvent {
	created := r.core.Time("created_at")
	events := []runEvent{{enginerpc.FlowEvent{Event: string(fabrictype.EventRunSubmitted)}, created, 0}}
	if at := r.core.Time("cancelled_at"); !at.IsZero() {
		events = append(events, runEvent{
			enginerpc.FlowEvent{Event: string(eventkind.RunCancelRequested), Detail: r.core["cancel_reason"]}, at, 1,
		})
	}
	for i, n := range r.nodes {
		if at := n.core.Time("progress_updated_at"); !at.IsZero() {
			e := enginerpc.FlowEvent{
				Event: string(fabrictype.EventProgress), Node: n.name, Attempt: n.core["current_attempt_index"],
				Detail: n.core["progress_pct"] + " " + n.core["progress_message"],
			}
			events = append(events, runEvent{e, at, int64(i+1)*eventsPerNode + lastOfNode - 1})
		}
		if n.core.IsTerminal() {
			e := enginerpc.FlowEvent{
				Event: n.core["terminal_outcome"], Node: n.name, Attempt: n.core["current_attempt_index"],
				Detail: n.endDetail(),
			}
			events = append(events, runEvent{
				e, n.core.Time("completed_at"), int64(i+1)*eventsPerNode + lastOfNode,
			})
		}
	}
	if at := r.over(); !at.IsZero() {
		events = append(events, runEvent{enginerpc.FlowEvent{Event: "flow_" + r.outcome}, at, runEnds})
	}
	return events
}

// endDetail returns the detail of the event with which the node ended.
func (n *nodeRecord) endDetail() string {
	switch n.core["terminal_outcome"] {
	case "failed", "expired":
		return n.core["failure_reason"]
	case "cancelled":
		return n.core["cancellation_reason"]
	}
	return ""
}

// history returns the events that the lease history of a node contains. index is the node's position among the nodes
// of the run.
func (n *nodeRecord) history(index int, entries []rueidis.XRangeEntry) []runEvent {
	var events []runEvent
	for i, entry := range entries {
		f := entry.FieldValues
		e := enginerpc.FlowEvent{Node: n.name, Attempt: f["attempt_index"]}
		switch f["event"] {
		case "acquired":
			e.Event, e.Detail = string(fabrictype.EventStarted), f["worker_id"]
			if f["reason"] == "claim_resumed" {
				e.Event = string(eventkind.Resumed)
			}
		case "reclaimed":
			e.Event, e.Detail, e.Attempt = string(eventkind.Reclaimed), f["worker_id"], f["new_attempt_index"]
		case "expired", "revoked":
			e.Event, e.Detail = string(eventkind.LeaseExpired), f["worker_instance_id"]
		case "replay_initiated":
			e.Event = string(eventkind.Replayed)
		case "released":
			switch f["reason"] {
			case "failed_retry_scheduled":
				e.Event = string(fabrictype.EventRetry)
			case "worker_delay":
				e.Event = string(eventkind.Delayed)
			case "suspend":
				e.Event = string(fabrictype.EventSuspended)
			}
		}
		if e.Event == "" {
			continue
		}
		ms, _ := strconv.ParseInt(f["ts"], 10, 64)
		number := int64(index+1)*eventsPerNode + int64(min(i, lastOfNode-2))
		events = append(events, runEvent{e, time.UnixMilli(ms).UTC(), number})
	}
	return events
}
