package httpapi

import (
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of lanes and activities.
var (
	ListLanes = call[Empty, fabrictype.Page[fabrictype.Lane]](Operation{
		Name: "list-lanes", Group: "lanes", Method: "GET", Path: "/lanes", Right: api.View, Effect: Reads,
		Summary: "List the lanes with the work that waits in them",
	})
	GetLaneQueue = call[LaneQueueInput, api.LaneQueue](Operation{
		Name: "get-lane-queue", Group: "lanes", Method: "GET", Path: "/lanes/{lane}/queue", Right: api.View, Effect: Reads,
		Summary: "Show which nodes workers take next from a lane, and why",
	})
	GetLaneHistory = call[LaneInput, LaneHistory](Operation{
		Name: "get-lane-history", Group: "lanes", Method: "GET", Path: "/lanes/{lane}/history",
		Right: api.View, Effect: Reads,
		Summary: "Show how many nodes waited and ran in a lane during the last hour",
	})
	ListPauses = call[Empty, fabrictype.Page[fabrictype.Pause]](Operation{
		Name: "list-pauses", Group: "lanes", Method: "GET", Path: "/pauses", Right: api.View, Effect: Reads,
		Summary: "List the paused lanes and activities",
	})
	PauseLane = call[LaneReasonInput, Empty](Operation{
		Name: "pause-lane", Group: "lanes", Method: "POST", Path: "/lanes/{lane}/pause",
		Right: api.Operate, Effect: Changes,
		Summary: "Keep workers from claiming from a lane",
	})
	ResumeLane = call[LaneInput, Empty](Operation{
		Name: "resume-lane", Group: "lanes", Method: "POST", Path: "/lanes/{lane}/resume",
		Right: api.Operate, Effect: Changes,
		Summary: "End the pause of a lane",
	})
	PauseActivity = call[ActivityReasonInput, Empty](Operation{
		Name: "pause-activity", Group: "lanes", Method: "POST", Path: "/activities/{activity}/pause",
		Right: api.Operate, Effect: Changes,
		Summary: "Keep an activity from starting",
	})
	ResumeActivity = call[ActivityInput, Empty](Operation{
		Name: "resume-activity", Group: "lanes", Method: "POST", Path: "/activities/{activity}/resume",
		Right: api.Operate, Effect: Changes,
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
	Samples []api.LaneSample `json:"samples" doc:"The oldest first; none of a lane that the server has not met."`
}

// Operations of workers.
var (
	ListWorkers = call[Empty, fabrictype.Page[fabrictype.Worker]](Operation{
		Name: "list-workers", Group: "workers", Method: "GET", Path: "/workers", Right: api.View, Effect: Reads,
		Summary: "List the live workers",
	})
	DrainWorker = call[WorkerInput, Empty](Operation{
		Name: "drain-worker", Group: "workers", Method: "POST", Path: "/workers/{worker}/drain",
		Right: api.Operate, Effect: Destroys,
		Summary: "Let a worker take no more work",
	})
)

func workerOperations() []Entry { return []Entry{ListWorkers, DrainWorker} }

// WorkerInput names the worker that an operation is about.
type WorkerInput struct {
	Worker string `path:"worker" doc:"Instance of the worker."`
}

// LaneQueueInput selects how much of the queue of a lane is shown.
type LaneQueueInput struct {
	LaneInput
	Places int `query:"places" minimum:"1" maximum:"50" default:"20" doc:"Most places of each partition."`
}

// LimitUseInput selects how much of the use of a limit is shown.
type LimitUseInput struct {
	LimitInput
	Most int `query:"most" minimum:"1" maximum:"500" default:"50" doc:"Most nodes of each list."`
}

// BudgetUseInput selects how much of the use of a budget is shown.
type BudgetUseInput struct {
	BudgetInput
	Most int `query:"most" minimum:"1" maximum:"500" default:"50" doc:"Most nodes of each list."`
}
