package fabrictype

import "time"

// RunCount is how many runs there are in one group. Fields by which the runs are not grouped are empty.
type RunCount struct {
	Flow  string   `json:"flow,omitempty"`
	State RunState `json:"state,omitempty"`
	// Hour is the beginning of the hour, in UTC.
	Hour time.Time `json:"hour,omitzero"`
	Runs int       `json:"runs"`
}
