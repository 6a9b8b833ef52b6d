package fabrictype

import "time"

// Worker is a live worker by its last report, at most about a minute old.
type Worker struct {
	// Instance identifies the worker, Name is WorkerConfig.Name.
	Instance string `json:"instance"`
	Name     string `json:"name"`
	// State is "running", or "draining" for a worker that takes no more work, and finishes the functions that it runs.
	State string `json:"state"`
	// Host and PID are the machine and the process that it runs in, as it reports them.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Build is the program.
	Build Build `json:"build"`
	// Lanes and Activities are those that it serves, Capabilities those that it offers; sorted. Activities include
	// aliases; with WorkerConfig.TaskKinds, they are those kinds.
	Lanes        []string `json:"lanes"`
	Activities   []string `json:"activities"`
	Capabilities []string `json:"capabilities,omitempty"`
	// Slots is how many functions it can run at a time, Used how many it ran.
	Slots int `json:"slots"`
	Used  int `json:"used"`
	// Since is when it began by the clock of its machine, ReportedAt the time of the report by the engine's.
	Since      time.Time `json:"since"`
	ReportedAt time.Time `json:"reported_at"`
	// DrainRequestedAt and DrainRequestedBy are the last Client.DrainWorker; zero and empty without one.
	DrainRequestedAt time.Time `json:"drain_requested_at,omitzero"`
	DrainRequestedBy string    `json:"drain_requested_by,omitempty"`
	// Started is how many attempts it had begun since Since, by lane; lanes without any are missing.
	Started map[string]int64 `json:"started,omitempty" doc:"Attempts that it has begun, by lane."`
}

// Free is how many slots are free for further work: none in a worker that drains.
func (w Worker) Free() int {
	if w.Drains() {
		return 0
	}
	return max(0, w.Slots-w.Used)
}

// Drains reports whether the worker takes no more work: it drains, or a drain was requested.
func (w Worker) Drains() bool { return w.State == "draining" || !w.DrainRequestedAt.IsZero() }

// Build is a program by its build information. Fields that the build does not have are empty.
type Build struct {
	// Package is the path of the main package; Path and Version are the path and the version of its module.
	Package string `json:"package,omitempty"`
	Path    string `json:"path,omitempty"`
	Version string `json:"version,omitempty"`
	// Revision is the commit in version control, Modified whether files had changed since.
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Library is the build of the function library that the program contains.
	Library string `json:"library,omitempty"`
}
