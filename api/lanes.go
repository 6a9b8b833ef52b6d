package api

import "time"

// Operations of lanes and activities.
var (
	ListLanes = call[Empty, Page[Lane]](Operation{
		Name: "list-lanes", Group: "lanes", Method: "GET", Path: "/lanes", Right: View, Effect: Reads,
		Summary: "List the lanes with the work that waits in them",
	})
	GetLaneQueue = call[LaneQueueInput, LaneQueue](Operation{
		Name: "get-lane-queue", Group: "lanes", Method: "GET", Path: "/lanes/{lane}/queue", Right: View, Effect: Reads,
		Summary: "Show which nodes workers take next from a lane, and why",
	})
	GetLaneHistory = call[LaneInput, LaneHistory](Operation{
		Name: "get-lane-history", Group: "lanes", Method: "GET", Path: "/lanes/{lane}/history",
		Right: View, Effect: Reads,
		Summary: "Show how many nodes waited and ran in a lane during the last hour",
	})
	ListPauses = call[Empty, Page[Pause]](Operation{
		Name: "list-pauses", Group: "lanes", Method: "GET", Path: "/pauses", Right: View, Effect: Reads,
		Summary: "List the paused lanes and activities",
	})
	PauseLane = call[LaneReasonInput, Empty](Operation{
		Name: "pause-lane", Group: "lanes", Method: "POST", Path: "/lanes/{lane}/pause",
		Right: Operate, Effect: Changes,
		Summary: "Keep workers from claiming from a lane",
	})
	ResumeLane = call[LaneInput, Empty](Operation{
		Name: "resume-lane", Group: "lanes", Method: "POST", Path: "/lanes/{lane}/resume",
		Right: Operate, Effect: Changes,
		Summary: "End the pause of a lane",
	})
	PauseActivity = call[ActivityReasonInput, Empty](Operation{
		Name: "pause-activity", Group: "lanes", Method: "POST", Path: "/activities/{activity}/pause",
		Right: Operate, Effect: Changes,
		Summary: "Keep an activity from starting",
	})
	ResumeActivity = call[ActivityInput, Empty](Operation{
		Name: "resume-activity", Group: "lanes", Method: "POST", Path: "/activities/{activity}/resume",
		Right: Operate, Effect: Changes,
		Summary: "End the pause of an activity",
	})
)

func laneOperations() []Entry {
	return []Entry{
		ListLanes, GetLaneQueue, GetLaneHistory, ListPauses, PauseLane, ResumeLane, PauseActivity, ResumeActivity,
	}
}

// LaneInput names the lane that an operation is about.
type LaneInput struct {
	Lane string `path:"lane" doc:"Name of the lane."`
}

// LaneReasonInput names a lane and a reason.
type LaneReasonInput struct {
	Lane string `path:"lane" doc:"Name of the lane."`
	Body struct {
		Reason string `json:"reason,omitempty"`
	}
}

// ActivityInput names the activity that an operation is about.
type ActivityInput struct {
	Activity string `path:"activity" doc:"Name of the activity."`
}

// ActivityReasonInput names an activity and a reason.
type ActivityReasonInput struct {
	Activity string `path:"activity" doc:"Name of the activity."`
	Body     struct {
		Reason string `json:"reason,omitempty"`
	}
}

// Lane is the state of a lane.
type Lane struct {
	Name        string      `json:"name"`
	PausedAt    time.Time   `json:"paused_at,omitzero"`
	PausedBy    string      `json:"paused_by,omitempty"`
	PauseReason string      `json:"pause_reason,omitempty"`
	Eligible    int         `json:"eligible" doc:"Nodes that wait for a worker."`
	Delayed     int         `json:"delayed"`
	Active      int         `json:"active"`
	Suspended   int         `json:"suspended"`
	Blocked     LaneBlocked `json:"blocked"`
	Oldest      time.Time   `json:"oldest,omitzero" doc:"Creation of the oldest node that waits for a worker."`
}

// LaneBlocked counts nodes by the reason for which they wait.
type LaneBlocked struct {
	Dependencies int `json:"dependencies"`
	Budget       int `json:"budget"`
	Quota        int `json:"quota"`
	Route        int `json:"route" doc:"No worker has registered the activity or offers the capabilities."`
	Operator     int `json:"operator"`
}

// Pause is a paused lane or activity.
type Pause struct {
	Lane     string    `json:"lane,omitempty"`
	Activity string    `json:"activity,omitempty"`
	Since    time.Time `json:"since"`
	By       string    `json:"by,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// LaneHistory has the numbers of waiting and running nodes of a lane during the last hour, or since the server began.
type LaneHistory struct {
	Samples []LaneSample `json:"samples" doc:"The oldest first; none of a lane that the server has not met."`
}

// LaneSample is the state of a lane at a time.
type LaneSample struct {
	At       time.Time `json:"at"`
	Eligible int       `json:"eligible" doc:"Nodes that wait for a worker."`
	HeldBack int       `json:"held_back" doc:"Nodes that something holds back: a time, limit, budget or pause."`
	Active   int       `json:"active" doc:"Nodes that run."`
	Started  int64     `json:"started" doc:"Attempts that workers have reported since the sample before."`
}
