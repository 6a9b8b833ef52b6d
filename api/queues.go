package api

import "time"

// LaneQueueInput selects how much of the queue of a lane is shown.
type LaneQueueInput struct {
	LaneInput
	Places int `query:"places" minimum:"1" maximum:"50" default:"20" doc:"Most places of each partition."`
}

// LaneQueue has the nodes that wait for a worker in a lane.
type LaneQueue struct {
	Lane       string           `json:"lane"`
	Waiting    int              `json:"waiting" doc:"Nodes that wait for a worker."`
	Partitions []PartitionQueue `json:"partitions" doc:"One on a single server. Workers of a cluster take the partitions in turn; the order is exact within each."`
}

// PartitionQueue has the nodes that wait in one partition of a lane.
type PartitionQueue struct {
	Partition int           `json:"partition"`
	Waiting   int           `json:"waiting"`
	Paused    bool          `json:"paused,omitempty"`
	Turns     []LaneTurn    `json:"turns,omitempty" doc:"Fairness keys, by whose turn comes first; absent while none has one, and for callers who may not read payloads."`
	Next      []QueuedPlace `json:"next" doc:"The first nodes in the order of claims, as far as nothing with precedence arrives."`
}

// LaneTurn is a fairness key of which nodes wait.
type LaneTurn struct {
	Key     string `json:"key" doc:"Empty for nodes of flows without fairness keys."`
	Waiting int    `json:"waiting"`
}

// QueuedPlace is a node that waits for a worker.
type QueuedPlace struct {
	NodeOfRun
	Rule     string    `json:"rule" enum:"age,priority,turn,longest_wait" doc:"The rule that gives the node its place."`
	Key      string    `json:"key,omitempty" doc:"Fairness key."`
	Priority int       `json:"priority"`
	Since    time.Time `json:"since" doc:"Time of creation, by which its age counts."`
}

// NodeOfRun names a node of a run. Flow, run and node are absent for executions outside of runs and of other
// namespaces.
type NodeOfRun struct {
	Execution string `json:"execution"`
	Flow      string `json:"flow,omitempty"`
	Run       string `json:"run,omitempty"`
	Node      string `json:"node,omitempty"`
	Activity  string `json:"activity,omitempty"`
}

// LimitUseInput selects how much of the use of a limit is shown.
type LimitUseInput struct {
	LimitInput
	Most int `query:"most" minimum:"1" maximum:"500" default:"50" doc:"Most nodes of each list."`
}

// LimitUse is who holds places of a limit, and who waits for one.
type LimitUse struct {
	Holding int         `json:"holding" doc:"Nodes that hold a place on their own."`
	Waiting int         `json:"waiting"`
	Holders []PlaceUse  `json:"holders" doc:"Those that have held a place longest."`
	Queue   []PlaceUse  `json:"queue" doc:"Those that get the next places, in their order."`
	Pools   []PlacePool `json:"pools,omitempty" doc:"Places that workers hold for several of their nodes in turn."`
}

// PlaceUse is a node that holds a place of a limit, or waits for one.
type PlaceUse struct {
	NodeOfRun
	Since    time.Time `json:"since,omitzero" doc:"When it got its place; of a node that waits, when it was created."`
	Priority int       `json:"priority,omitempty"`
}

// PlacePool is the places of a limit that a worker holds.
type PlacePool struct {
	Worker string    `json:"worker"`
	Places int       `json:"places"`
	Since  time.Time `json:"since,omitzero"`
}

// BudgetUseInput selects how much of the use of a budget is shown.
type BudgetUseInput struct {
	BudgetInput
	Most int `query:"most" minimum:"1" maximum:"500" default:"50" doc:"Most nodes of each list."`
}

// BudgetUse is who uses a budget at present. The engine keeps how much was spent, not by whom.
type BudgetUse struct {
	Reserving int           `json:"reserving" doc:"Reservations that are open."`
	Waiting   int           `json:"waiting" doc:"Nodes that wait until the budget has room."`
	Reserved  []Reservation `json:"reserved" doc:"The largest reservations."`
	Queue     []PlaceUse    `json:"queue" doc:"Nodes that wait, those with the highest priority first."`
}

// Reservation is a part of a budget that a node has reserved.
type Reservation struct {
	NodeOfRun
	Dimension string `json:"dimension"`
	Amount    int64  `json:"amount"`
}
