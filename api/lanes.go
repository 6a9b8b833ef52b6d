package api

import (
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// LaneSample is the state of a lane at a time.
type LaneSample struct {
	At       time.Time `json:"at"`
	Eligible int       `json:"eligible" doc:"Nodes that wait for a worker."`
	HeldBack int       `json:"held_back" doc:"Nodes that something holds back: a time, limit, budget or pause."`
	Active   int       `json:"active" doc:"Nodes that run."`
	Started  int64     `json:"started" doc:"Attempts that workers have reported since the sample before."`
}

// LimitSettings are all settings of a limit.
type LimitSettings struct {
	AtMost int                 `json:"at_most,omitempty" minimum:"0" doc:"Functions that begin within any time of the length per; 0 sets no bound."`
	Per    fabrictype.Duration `json:"per,omitzero"`
	AtOnce int                 `json:"at_once,omitempty" minimum:"0" doc:"Executions at a time; 0 sets no bound."`
}

// BudgetSettings are all settings of a budget. Absent ones are removed.
type BudgetSettings struct {
	Hard       map[string]int64    `json:"hard,omitempty" doc:"Hard limit of each dimension; 0 is none."`
	Soft       map[string]int64    `json:"soft,omitempty" doc:"Soft limit of each dimension; 0 is none."`
	ResetEvery fabrictype.Duration `json:"reset_every,omitzero" doc:"Interval after which the usage becomes 0; never if absent."`
	Effect     string              `json:"effect,omitempty" doc:"Effect of a hard limit: fail, block or cancel; fail if absent."`
}

// BudgetSample is how much was spent of a budget at a time.
type BudgetSample struct {
	At    time.Time        `json:"at"`
	Spent map[string]int64 `json:"spent" doc:"By dimension."`
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
