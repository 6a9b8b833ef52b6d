// Package fleet holds what workers say of themselves: see Client.Workers of package runtime.
package fleet

import (
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// State is what a worker does.
type State string

// States of workers. A worker that drains takes no more work; what it runs goes on.
const (
	Running  fabrictype.WorkerState = "running"
	Draining fabrictype.WorkerState = "draining"
)

// Worker is a live worker by its last report, at most about a minute old.
type Worker struct {
	// Instance identifies the worker, Name is WorkerConfig.Name.
	Instance enginecore.WorkerInstanceID
	Name     string
	State    fabrictype.WorkerState
	// Host and PID are the machine and the process that it runs in, by their own words.
	Host string
	PID  int
	// Build is the program.
	Build fabrictype.Build
	// Lanes and Activities are what it serves, Capabilities what it offers; sorted. Activities include aliases; with
	// WorkerConfig.TaskKinds, they are those kinds.
	Lanes, Activities, Capabilities []string
	// Slots is how many functions it can run at a time, Used how many it ran.
	Slots, Used int
	// Started is how many attempts it had begun since Since, by lane; lanes without any are missing.
	Started map[string]int64
	// Since is when it began by the clock of its machine, ReportedAt the time of the report by the engine's.
	Since, ReportedAt time.Time
	// DrainRequestedAt and DrainRequestedBy tell of Client.DrainWorker; zero and empty without.
	DrainRequestedAt time.Time
	DrainRequestedBy string
}

// Free is how many slots are free for further work: none in a worker that drains.
func (w fabrictype.Worker) Free() int {
	if w.Drains() {
		return 0
	}
	return max(0, w.Slots-w.Used)
}

// Drains reports whether the worker takes no more work: it drains, or has been asked to.
func (w fabrictype.Worker) Drains() bool {
	return w.State == fabrictype.WorkerDraining || !w.DrainRequestedAt.IsZero()
}

// Build is a program as its build information has it. What the program was built without is empty.
type Build struct {
	// Path and Version are those of the main module.
	Path    string `json:"path,omitempty"`
	Version string `json:"version,omitempty"`
	// Revision is the commit in version control, Modified whether files had changed since.
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Library is the build of the function library that the program brings.
	Library string `json:"library,omitempty"`
}
