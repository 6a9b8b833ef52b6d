package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/runsearch"
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
// the others being the beginning of one, of the last 8 days. Such counts include runs that have been purged. Counts of
// ends are in Ends, not Runs: a run that was run again has ended more than once. Starts have no states. Other fields, and "hour" without a time, return ErrInvalid,
// as does a time that is no longer kept. In contract mode the error matches ErrNotInContract.
func (c *Client) Counts(ctx context.Context, q RunQuery, by ...string) ([]fabrictype.RunCount, error) {
	if err := c.ready(ctx); err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	err := q.Check()
	if err == nil {
		var words runsearch.Words
		if q, words, err = q.resolved(); len(words.Terms) > 0 || words.ID != "" {
			err = invalid("run query: Search: words of tags, errors and ids are not counted; list the runs")
		}
	}
	if err := errors.Join(err, q.checkCounted(by)); err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	groups := make([]string, len(by))
	for i, group := range by {
		groups[i] = string(group)
	}
	counts, err := runsearch.Counts(ctx, c.session, q.counted(), groups...)
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	return counts, nil
}

// counted is the query for the room that counts runs.
func (q RunQuery) counted() runsearch.CountQuery {
	return runsearch.CountQuery{
		Flow: q.Flow, States: q.States, Children: q.Children, CreatedFrom: q.CreatedFrom,
		CreatedBefore: q.CreatedBefore, EndedFrom: q.FinishedFrom, EndedBefore: q.FinishedBefore,
	}
}

// checkCounted reports the fields of a query by which runs cannot be counted without reading them.
func (q RunQuery) checkCounted(by []string) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, invalid("run query: "+format, args...)) }
	for name, set := range map[string]bool{
		"Tags": len(q.Tags) > 0, "Text": q.Text != "", "Sort": q.Sort != "", "Key": q.Key != "", "Queued": q.Queued,
		"Runs": len(q.Runs) > 0,
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
	if counted := q.counted(); counted.Hours() > maxCountedHours+1 {
		fault("at most %d hours are counted", maxCountedHours)
	}
}
