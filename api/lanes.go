package api

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// Operations of lanes and activities.
var (
	ListLanes = call[Empty, fabrictype.Page[fabrictype.Lane]](Operation{
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
	ListPauses = call[Empty, fabrictype.Page[fabrictype.Pause]](Operation{
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
