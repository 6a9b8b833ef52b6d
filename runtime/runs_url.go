package runtime

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/queryurl"
)

// Values returns the query as parameters of a URL, which ReadValues reads: flow, state (several times), tag.KEY, search
// with search_at, run (several times), text, key, queued=true, created_from, created_before, finished_from and
// finished_before (RFC 3339, in UTC), sort, and children=true. Fields that are not set have no parameter.
func (q RunQuery) Values() url.Values {
	var states []string
	for _, state := range q.States {
		states = append(states, string(state))
	}
	at := searchAtText(q.SearchAt)
	return q.parameters(&states, &at).Values()
}

// searchAtText is a time with its offset and, in brackets, the name of its zone.
func searchAtText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	text := at.Format(time.RFC3339Nano)
	if name := at.Location().String(); name != "" && name != "Local" && name != "UTC" {
		text += "[" + name + "]"
	}
	return text
}

// readSearchAt reads a text of searchAtText; the name of the zone may be missing.
func readSearchAt(text string) (time.Time, error) {
	moment, zone, named := strings.Cut(strings.TrimSuffix(text, "]"), "[")
	at, err := time.Parse(time.RFC3339Nano, moment)
	if err != nil {
		return at, invalid("run query: search_at %q: must be a time such as 2026-11-28T15:04:05+01:00[Europe/Berlin]", text)
	}
	if !named {
		return at, nil
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return at, invalid("run query: search_at %q: the time zone is not known", text)
	}
	return at.In(location), nil
}

// parameters are the fields of the query by their parameters, except the states and the time of the search, whose types
// differ.
func (q *RunQuery) parameters(states *[]string, searchAt *string) queryurl.Fields {
	return queryurl.Fields{
		Texts: map[string]*string{
			"flow": &q.Flow, "text": &q.Text, "key": &q.Key, "sort": &q.Sort,
			"search": &q.Search, "search_at": searchAt,
		},
		Lists: map[string]*[]string{"state": states, "run": &q.Runs},
		Times: map[string]*time.Time{
			"created_from": &q.CreatedFrom, "created_before": &q.CreatedBefore,
			"finished_from": &q.FinishedFrom, "finished_before": &q.FinishedBefore,
		},
		Switches: map[string]*bool{"children": &q.Children, "queued": &q.Queued},
		Tags:     &q.Tags,
	}
}

// ReadValues reads the query from parameters of a URL, as Values writes them. The parameters named by others, such as
// "cursor", belong to the caller and are skipped; any other one is an error, so that a misspelt name does not select
// more runs than were meant. The error joins all faults, including the faults of Check, and matches ErrInvalid.
func (q *RunQuery) ReadValues(v url.Values, others ...string) error {
	var read RunQuery
	var states []string
	var searchAt string
	faults := faultsOf("run query", read.parameters(&states, &searchAt).Read(v, others))
	if searchAt != "" {
		var err error
		if read.SearchAt, err = readSearchAt(searchAt); err != nil {
			faults = append(faults, err)
		}
	}
	for _, state := range states {
		read.States = append(read.States, fabrictype.RunState(state))
	}
	if err := errors.Join(append(faults, read.Check())...); err != nil {
		return err
	}
	*q = read
	return nil
}

// Values returns the query as parameters of a URL, which ReadValues reads: flow, tag.KEY, audience, text, from and
// before (RFC 3339, in UTC), and sort. Fields that are not set have no parameter.
func (q WaitQuery) Values() url.Values {
	return q.parameters().Values()
}

// parameters are the fields of the query by their parameters.
func (q *WaitQuery) parameters() queryurl.Fields {
	return queryurl.Fields{
		Texts: map[string]*string{"flow": &q.Flow, "audience": &q.Audience, "text": &q.Text, "sort": &q.Sort},
		Times: map[string]*time.Time{"from": &q.From, "before": &q.Before},
		Tags:  &q.Tags,
	}
}

// ReadValues reads the query from parameters of a URL, as Values writes them. Others and errors are
// as for RunQuery.ReadValues.
func (q *WaitQuery) ReadValues(v url.Values, others ...string) error {
	var read WaitQuery
	faults := faultsOf("query of waits", read.parameters().Read(v, others))
	if err := errors.Join(append(faults, checkWaits(read))...); err != nil {
		return err
	}
	*q = read
	return nil
}

// faultsOf returns faults of a query as errors that match ErrInvalid.
func faultsOf(query string, faults []error) (all []error) {
	for _, fault := range faults {
		all = append(all, invalid("%s: %w", query, fault))
	}
	return all
}
