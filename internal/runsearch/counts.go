package runsearch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// CountQuery selects the runs that Counts counts; runtime.Client.Counts explains which queries can be counted.
type CountQuery struct {
	Flow     string
	States   []fabrictype.RunState
	Children bool
	// CreatedFrom and CreatedBefore count starts, EndedFrom and EndedBefore ends, in whole hours.
	CreatedFrom, CreatedBefore, EndedFrom, EndedBefore time.Time
}

// Groups by which runs are counted.
const (
	ByFlow  = "flow"
	ByState = "state"
	ByHour  = "hour"
)

func (q *CountQuery) ofStarts() bool { return !q.CreatedFrom.IsZero() || !q.CreatedBefore.IsZero() }

func (q *CountQuery) ofEnds() bool { return !q.EndedFrom.IsZero() || !q.EndedBefore.IsZero() }

// Counts returns how many runs satisfy a query, in groups, which are sorted by hour, flow and state. Each partition is
// counted at a different moment. Its error matches [engine.ErrInvalid] for a time that is no longer kept.
func Counts(ctx context.Context, s *engine.Session, q CountQuery, by ...string) ([]fabrictype.RunCount, error) {
	hours := q.hours()
	replies, err := engine.InAllPartitions(ctx, s, func(p keyspace.Partition) enginerpc.CountRunsCall {
		call := enginerpc.CountRunsCall{Partition: p, Namespace: string(s.Namespace), FlowName: q.Flow}
		if hours != (hourSpan{}) {
			call.FromHour, call.ToHour = hours.from, hours.last
		}
		return call
	})
	if err != nil {
		return nil, err
	}
	groups := make(map[fabrictype.RunCount]int)
	for _, reply := range replies {
		if hours != (hourSpan{}) && time.Unix(hours.from*secondsPerHour, 0).Before(reply.KeptFrom) {
			return nil, engine.Invalid("run query: counts are kept from %s on", reply.KeptFrom.UTC().Format(time.RFC3339))
		}
		q.addCounts(groups, reply.Counts, by)
	}
	return q.sortedCounts(groups), nil
}

const secondsPerHour = 3600

// hourSpan are hours since 1970, both included.
type hourSpan struct{ from, last int64 }

// Hours returns the number of hours that a query is about, of which the engine keeps 8 days; 0 for the present.
func (q *CountQuery) Hours() int64 {
	hours := q.hours()
	return hours.last - hours.from
}

// hours are the hours that a query is about; zero for the present.
func (q *CountQuery) hours() hourSpan {
	from, before := q.CreatedFrom, q.CreatedBefore
	if q.ofEnds() {
		from, before = q.EndedFrom, q.EndedBefore
	}
	if from.IsZero() {
		return hourSpan{}
	}
	if before.IsZero() {
		before = time.Now().Add(time.Hour) // the server's clock may be ahead
	}
	first := from.Unix() / secondsPerHour
	return hourSpan{first, max(first, (before.Unix()-1)/secondsPerHour)}
}

// countedEvents are the engine's words for counted events, each with the state that it leads to. A start has none.
var countedEvents = map[string]fabrictype.RunState{
	"started": "", "success": fabrictype.RunSucceeded, "failed": fabrictype.RunFailed,
	"cancelled": fabrictype.RunCancelled, "expired": fabrictype.RunExpired,
}

// addCounts adds the counts of a partition to the groups.
func (q *CountQuery) addCounts(groups map[fabrictype.RunCount]int, counts []enginerpc.RunCount, by []string) {
	add := func(n enginerpc.RunCount, state fabrictype.RunState, runs int) {
		if len(q.States) > 0 && !slices.Contains(q.States, state) {
			return
		}
		var group fabrictype.RunCount
		for _, name := range by {
			switch name {
			case ByFlow:
				group.Flow = n.FlowName
			case ByState:
				group.State = state
			case ByHour:
				group.Hour = time.Unix(n.Hour*secondsPerHour, 0).UTC()
			}
		}
		groups[group] += runs
	}
	for _, n := range counts {
		event, isChild := strings.CutPrefix(n.Event, "child_")
		state, known := countedEvents[event]
		runs := int(n.Runs)
		switch {
		case !known || isChild && !q.Children && q.Flow == "":
		case q.ofStarts():
			if state == "" {
				add(n, "", runs)
			}
		case q.ofEnds():
			if state != "" {
				add(n, state, runs)
			}
		case state == "":
			add(n, fabrictype.RunRunning, runs)
		default: // it was counted as started, too
			add(n, fabrictype.RunRunning, -runs)
			add(n, state, runs)
		}
	}
}

// sortedCounts lists the groups that have runs, or ends.
func (q *CountQuery) sortedCounts(groups map[fabrictype.RunCount]int) []fabrictype.RunCount {
	var list []fabrictype.RunCount
	for group, n := range groups {
		if n <= 0 {
			continue
		}
		if q.ofEnds() {
			group.Ends = n
		} else {
			group.Runs = n
		}
		list = append(list, group)
	}
	slices.SortFunc(list, func(a, b fabrictype.RunCount) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.State, b.State))
	})
	return list
}
