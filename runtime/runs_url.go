package runtime

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Parameters of a query in a URL. That of a tag is tagParameter with the key of the tag behind it.
const (
	flowParameter     = "flow"
	stateParameter    = "state"
	textParameter     = "text"
	sortParameter     = "sort"
	childrenParameter = "children"
	tagParameter      = "tag."
)

// timeParameters are the parameters for times, with their fields.
func (q *RunQuery) timeParameters() map[string]*time.Time {
	return map[string]*time.Time{
		"created_from": &q.CreatedFrom, "created_before": &q.CreatedBefore,
		"finished_from": &q.FinishedFrom, "finished_before": &q.FinishedBefore,
	}
}

// Values returns the query as parameters of a URL, which ParseRunQuery reads: flow, state (several times), tag.KEY,
// text, created_from, created_before, finished_from and finished_before (RFC 3339, in UTC), sort, and children=true.
// Fields that are not set have no parameter.
func (q RunQuery) Values() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set(flowParameter, q.Flow)
	for _, state := range q.States {
		v.Add(stateParameter, string(state))
	}
	for key, value := range q.Tags {
		v.Set(tagParameter+key, value)
	}
	set(textParameter, q.Text)
	for name, at := range q.timeParameters() {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	set(sortParameter, string(q.Sort))
	if q.Children {
		v.Set(childrenParameter, "true")
	}
	return v
}

// ParseRunQuery reads a query from parameters of a URL, as Values writes them. The parameters named by others, such as
// "cursor", belong to the caller and are passed over; any other one is an error, so that a misspelt name does not
// select more runs than were meant. The error has all faults, those of Check included, and matches ErrInvalid.
func ParseRunQuery(v url.Values, others ...string) (RunQuery, error) {
	var q RunQuery
	var faults []error
	times := q.timeParameters()
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if slices.Contains(others, name) {
			continue
		}
		if err := q.parse(name, v[name], times); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(append(faults, q.Check())...); err != nil {
		return RunQuery{}, err
	}
	return q, nil
}

// parse reads one parameter of a URL.
func (q *RunQuery) parse(name string, values []string, times map[string]*time.Time) (err error) {
	if name == stateParameter {
		for _, value := range values {
			q.States = append(q.States, RunState(value))
		}
		return nil
	}
	if len(values) != 1 {
		return invalid("run query: parameter %q: must be given once, not %d times", name, len(values))
	}
	value := values[0]
	key, isTag := strings.CutPrefix(name, tagParameter)
	at := times[name]
	switch {
	case isTag:
		if q.Tags == nil {
			q.Tags = make(map[string]string)
		}
		q.Tags[key] = value
	case at != nil:
		if *at, err = time.Parse(time.RFC3339Nano, value); err != nil {
			return invalid("run query: parameter %q: %q is not a time such as 2026-11-20T08:00:00Z", name, value)
		}
	case name == flowParameter:
		q.Flow = value
	case name == textParameter:
		q.Text = value
	case name == sortParameter:
		q.Sort = RunSort(value)
	case name == childrenParameter:
		if value != "true" && value != "false" {
			return invalid("run query: parameter %q: %q must be true or false", name, value)
		}
		q.Children = value == "true"
	default:
		return invalid("run query: parameter %q is unknown", name)
	}
	return nil
}
