package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// maxCountedHours is the longest time that is counted by hour: the engine keeps this number of hours.
const maxCountedHours = 8 * 24

// Fields by which runs are counted.
const (
	byFlow  = "flow"
	byState = "state"
	byHour  = "hour"
)

// Counts returns how many runs of the client's namespace satisfy a query, in groups by the fields of by: "flow",
// "state", "hour". Without these it is one count, and none if no run does. The groups are sorted by hour, flow and
// state.
//
// The engine counts runs as they start and end, and reads no run, so the cost does not grow with their number. The
// counts are exact, except after a damage of the server's data until the keepers have repaired them. Each partition is
// counted at a different moment.
//
// A query may set Flow, States and Children, and is then answered by the present states of all runs. With CreatedFrom,
// it is how many runs were started, with FinishedFrom, how many ended in each state: in whole hours, CreatedFrom and
// the others being the beginning of one, of the last 8 days. Such counts include runs that have been purged, and each
// end of a run that was run again. Starts have no states. Other fields, and "hour" without a time, return ErrInvalid,
// as does a time that is no longer kept. In contract mode the error matches ErrNotInContract.
func (c *Client) Counts(ctx context.Context, q RunQuery, by ...string) ([]fabrictype.RunCount, error) {
	if err := c.ready(ctx); err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	if err := errors.Join(q.Check(), q.checkCounted(by)); err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	hours := q.countedHours()
	replies, err := engine.InAllPartitions(ctx, c.session, func(p keyspace.Partition) enginerpc.CountRunsCall {
		call := enginerpc.CountRunsCall{Partition: p, Namespace: string(c.session.Namespace), FlowName: q.Flow}
		if hours != (hourSpan{}) {
			call.FromHour, call.ToHour = hours.from, hours.last
		}
		return call
	})
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	groups := make(map[fabrictype.RunCount]int)
	for _, reply := range replies {
		if hours != (hourSpan{}) && time.Unix(hours.from*secondsPerHour, 0).Before(reply.KeptFrom) {
			return nil, fmt.Errorf("count runs: %w", invalid("run query: counts are kept from %s on",
				reply.KeptFrom.UTC().Format(time.RFC3339)))
		}
		q.addCounts(groups, reply.Counts, by)
	}
	return sortedCounts(groups), nil
}

const secondsPerHour = 3600

// hourSpan are hours since 1970, both included.
type hourSpan struct{ from, last int64 }

// countedHours are the hours that a query is about; zero for the present.
func (q RunQuery) countedHours() hourSpan {
	from, before := q.CreatedFrom, q.CreatedBefore
	if q.hasFinished() {
		from, before = q.FinishedFrom, q.FinishedBefore
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

// checkCounted reports the fields of a query by which runs cannot be counted without reading them.
func (q RunQuery) checkCounted(by []string) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, invalid("run query: "+format, args...)) }
	for name, set := range map[string]bool{
		"Tags": len(q.Tags) > 0, "Text": q.Text != "", "Sort": q.Sort != "", "Key": q.Key != "", "Queued": q.Queued,
	} {
		if set {
			fault("%s: runs are not counted by it; list them", name)
		}
	}
	for i, group := range by {
		switch group {
		case byFlow, byState, byHour:
		default:
			fault("group %q: must be one of flow, state, hour", group)
		}
		if slices.Contains(by[:i], group) {
			fault("group %q is named twice", group)
		}
	}
	if slices.Contains(by, byHour) && !q.hasCreated() && !q.hasFinished() {
		fault("runs are grouped by hour with CreatedFrom or FinishedFrom only")
	}
	if q.hasCreated() && (len(q.States) > 0 || slices.Contains(by, byState)) {
		fault("starts have no states: leave CreatedFrom out, or count ends with FinishedFrom")
	}
	q.checkHours(fault)
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

func (q RunQuery) checkHours(fault func(format string, args ...any)) {
	for _, at := range []time.Time{q.CreatedFrom, q.CreatedBefore, q.FinishedFrom, q.FinishedBefore} {
		if !at.IsZero() && !at.Equal(at.Truncate(time.Hour)) {
			fault("%s is not the beginning of an hour", at.Format(time.RFC3339Nano))
		}
	}
	if (q.hasCreated() && q.CreatedFrom.IsZero()) || (q.hasFinished() && q.FinishedFrom.IsZero()) {
		fault("a count with a time needs its beginning")
	}
	if hours := q.countedHours(); hours.last-hours.from > maxCountedHours+1 {
		fault("at most %d hours are counted", maxCountedHours)
	}
}

// countedEvents are the engine's words for counted events, each with the state that it leads to. A start has none.
var countedEvents = map[string]fabrictype.RunState{
	"started": "", "success": fabrictype.RunSucceeded, "failed": fabrictype.RunFailed,
	"cancelled": fabrictype.RunCancelled, "expired": fabrictype.RunExpired,
}

// addCounts adds the counts of a partition to the groups.
func (q RunQuery) addCounts(groups map[fabrictype.RunCount]int, counts []enginerpc.RunCount, by []string) {
	add := func(n enginerpc.RunCount, state fabrictype.RunState, runs int) {
		if len(q.States) > 0 && !slices.Contains(q.States, state) {
			return
		}
		var group fabrictype.RunCount
		for _, name := range by {
			switch name {
			case byFlow:
				group.Flow = n.FlowName
			case byState:
				group.State = state
			case byHour:
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
		case q.hasCreated():
			if state == "" {
				add(n, "", runs)
			}
		case q.hasFinished():
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

// sortedCounts lists the groups that have runs.
func sortedCounts(groups map[fabrictype.RunCount]int) []fabrictype.RunCount {
	var list []fabrictype.RunCount
	for group, runs := range groups {
		if group.Runs = runs; runs > 0 {
			list = append(list, group)
		}
	}
	slices.SortFunc(list, func(a, b fabrictype.RunCount) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.State, b.State))
	})
	return list
}
