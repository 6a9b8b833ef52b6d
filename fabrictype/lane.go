package fabrictype

import "time"

// Lane counts the executions of a lane, over all partitions.
type Lane struct {
	Name string `json:"name"`
	// PausedAt, PausedBy and PauseReason describe the pause of the lane, during which workers claim nothing from it;
	// PausedAt is zero when it is not paused.
	PausedAt    time.Time `json:"paused_at,omitzero"`
	PausedBy    string    `json:"paused_by,omitempty"`
	PauseReason string    `json:"pause_reason,omitempty"`
	// Eligible nodes wait for a worker, Delayed nodes for a time, and Suspended nodes for signals; Active nodes run.
	Eligible  int `json:"eligible" doc:"Nodes that wait for a worker."`
	Delayed   int `json:"delayed"`
	Active    int `json:"active"`
	Suspended int `json:"suspended"`
	// Blocked counts the nodes that are not eligible, by the obstacle.
	Blocked LaneBlocked `json:"blocked"`
	// Oldest is the creation time of the oldest eligible node; zero when none is eligible. Of the nodes with a
	// priority, only the first one is considered.
	Oldest time.Time `json:"oldest,omitzero" doc:"Creation of the oldest node that waits for a worker."`
	// Health reports whether the work of the lane proceeds. Inspections, commands and the console all show it.
	Health LaneHealth `json:"health"`
}

// LaneHealth reports whether the work of a lane proceeds, and otherwise why not. When several obstacles apply, it has
// the first one in the order of the states.
type LaneHealth struct {
	// State is
	//   - "paused": an operator has paused the lane;
	//   - "unserved": nodes wait, and no worker takes them: none serves the lane, all that do drain, or none has
	//     registered the activities and offers the capabilities;
	//   - "blocked": nodes wait for a budget that is used up, or for the end of a pause of a run or an activity;
	//   - "late": delayed nodes are due, and no keeper has released them;
	//   - "ok": none of these.
	State string `json:"state" enum:"paused,unserved,blocked,late,ok" doc:"Whether the work of the lane proceeds."`
	// Nodes is how many nodes wait for that reason.
	Nodes int `json:"nodes,omitempty" doc:"Nodes that wait for this reason."`
	// Since is when it began: the pause, the creation of the oldest node that waits, or the time at which the first
	// delayed node was due. Zero when that is not known.
	Since time.Time `json:"since,omitzero"`
	// Reason is a sentence without the name of the lane, Remedy an action that ends it; both are empty for "ok".
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Programs is how many programs with workers listen to the lane, including workers that drain.
	Programs int `json:"programs" doc:"Programs whose workers listen to the lane."`
}

// Stuck reports whether nodes wait that do not start until an operator acts.
func (h LaneHealth) Stuck() bool { return h.Nodes > 0 && h.State != "ok" }

// Paused reports whether the lane is paused.
func (l Lane) Paused() bool { return !l.PausedAt.IsZero() }

// LaneBlocked counts the nodes of a lane by the obstacle that they wait for.
type LaneBlocked struct {
	// Dependencies counts nodes that wait for upstreams; Budget and Quota, for room in a budget or under a limit;
	// Route, for a worker that has registered the activity and offers the capabilities; Operator, for the end of a
	// pause.
	Dependencies int `json:"dependencies"`
	Budget       int `json:"budget"`
	Quota        int `json:"quota"`
	Route        int `json:"route" doc:"No worker has registered the activity or offers the capabilities."`
	Operator     int `json:"operator"`
}

// Pause is a paused lane or a paused activity.
type Pause struct {
	// Lane or Activity is set, not both.
	Lane     string    `json:"lane,omitempty"`
	Activity string    `json:"activity,omitempty"`
	Since    time.Time `json:"since"`
	// By is the actor of the pause, as runtime.WithActor named it.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}
