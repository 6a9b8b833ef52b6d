package bulkjob

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/runsearch"
)

// specForm is the form of stored specs. A keeper leaves a job of a later form alone.
const specForm = 1

// Spec is the stored definition of a job, with its query and its action. It does not change.
type Spec struct {
	Form   int                   `json:"form"`
	ID     string                `json:"id"`
	Action fabrictype.BulkAction `json:"action"`
	// Query is the text that users gave, Search the same in the engine's words.
	Query  string          `json:"query"`
	Search runsearch.Query `json:"search"`
	Rate   float64         `json:"rate,omitempty"`
	Most   int             `json:"most,omitempty"`
	Actor  string          `json:"actor"`
}

// Encode returns the stored form, which is the same for the same job.
func (s Spec) Encode() ([]byte, error) {
	s.Form = specForm
	return json.Marshal(s)
}

// ReadSpec reads a stored spec.
func ReadSpec(data []byte) (Spec, error) {
	var s Spec
	if err := json.Unmarshal(data, &s); err != nil {
		return Spec{}, fmt.Errorf("bulk job: %w", err)
	}
	if s.Form != specForm {
		return Spec{}, fmt.Errorf("bulk job %s has form %d, this program reads %d", s.ID, s.Form, specForm)
	}
	return s, nil
}

// query is the search of the job: only runs that existed when it began, in the job's namespace.
func (s Spec) query(namespace string, began time.Time) runsearch.Query {
	q := s.Search
	q.Namespace = namespace
	before := &q.CreatedBefore
	if q.ByEnd {
		before = &q.ClosedBefore // a run that ended before then was created before then
	}
	// Times of runs are whole milliseconds, and bounds exclude themselves.
	if last := began.Add(time.Millisecond); before.IsZero() || last.Before(*before) {
		*before = last
	}
	return q
}

// maxFailures is how many failures a job keeps.
const maxFailures = 20

// progress is the progress of a job.
type progress struct {
	fabrictype.BulkProgress
	// Cursor is the position after the run that was handled last.
	Cursor string `json:"cursor,omitempty"`
	// Acting is the run that is being acted on; nil between two runs. If a keeper is killed, Acting stays in the
	// record, because the query may not find the run again after the action.
	Acting *enginerpc.Run `json:"acting,omitempty"`
}

func readProgress(data []byte) (p progress, err error) {
	if len(data) > 0 {
		if err = json.Unmarshal(data, &p); err != nil {
			err = fmt.Errorf("progress of a bulk job: %w", err)
		}
	}
	return p, err
}
