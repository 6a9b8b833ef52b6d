// Package runcount says how counts of runs are grouped, and holds them: see Client.Counts of package runtime.
package runcount

import (
	"github.com/flowfabric/flowfabric-go/runtime"
	"time"
)

// By is what runs are grouped by.
type By string

// Groups of runs.
const (
	Flow  runtime.CountBy = "flow"
	State runtime.CountBy = "state"
	Hour  runtime.CountBy = "hour"
)

// Count is how many runs there are in one group. Fields by which the runs are not grouped are empty.
type Count struct {
	Flow string
	// State is a runtime.RunState.
	State string
	// Hour is the beginning of the hour, in UTC.
	Hour time.Time
	Runs int
}
