package httpapi

import (
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of schedules.
var (
	ListSchedules = call[Empty, fabrictype.Page[fabrictype.Schedule]](Operation{
		Name: "list-schedules", Group: "schedules", Method: "GET", Path: "/schedules", Right: api.View, Effect: Reads,
		Summary: "List the schedules",
	})
	GetSchedule = call[GetScheduleInput, fabrictype.Schedule](Operation{
		Name: "get-schedule", Group: "schedules", Method: "GET", Path: "/schedules/{schedule}",
		Right: api.View, Effect: Reads,
		Summary: "Describe a schedule with its last fires",
	})
	ListFires = call[ListFiresInput, fabrictype.Page[time.Time]](Operation{
		Name: "list-fires", Group: "schedules", Method: "GET", Path: "/schedules/{schedule}/fires",
		Right: api.View, Effect: Reads,
		Summary: "List the next times of a schedule, or its next times with another timing",
	})
	SetSchedule = call[SetScheduleInput, fabrictype.Schedule](Operation{
		Name: "set-schedule", Group: "schedules", Method: "PUT", Path: "/schedules/{schedule}",
		Right: api.Operate, Effect: Changes,
		Summary: "Create a schedule of a published flow, or replace the one of that name",
	})
	EditSchedule = call[EditScheduleInput, fabrictype.Schedule](Operation{
		Name: "edit-schedule", Group: "schedules", Method: "PATCH", Path: "/schedules/{schedule}",
		Right: api.Operate, Effect: Changes,
		Summary: "Change the given settings of a schedule, and keep the others",
	})
	BackfillSchedule = call[BackfillScheduleInput, Backfilled](Operation{
		Name: "backfill-schedule", Group: "schedules", Method: "POST", Path: "/schedules/{schedule}/backfill",
		Right: api.Operate, Effect: Changes,
		Summary: "Start runs for past times of a schedule",
	})
	PauseSchedule = call[ScheduleReasonInput, Empty](Operation{
		Name: "pause-schedule", Group: "schedules", Method: "POST", Path: "/schedules/{schedule}/pause",
		Right: api.Operate, Effect: Changes,
		Summary: "Keep a schedule from firing",
	})
	ResumeSchedule = call[ScheduleInput, Empty](Operation{
		Name: "resume-schedule", Group: "schedules", Method: "POST", Path: "/schedules/{schedule}/resume",
		Right: api.Operate, Effect: Changes,
		Summary: "End the pause of a schedule",
	})
	TriggerSchedule = call[ScheduleInput, api.StartedRun](Operation{
		Name: "trigger-schedule", Group: "schedules", Method: "POST", Path: "/schedules/{schedule}/trigger",
		Right: api.Operate, Effect: Changes,
		Summary: "Start a run of a schedule now",
	})
	DeleteSchedule = call[ScheduleInput, Empty](Operation{
		Name: "delete-schedule", Group: "schedules", Method: "DELETE", Path: "/schedules/{schedule}",
		Right: api.Administer, Effect: Destroys,
		Summary: "Delete a schedule; its runs stay",
	})
)

func scheduleOperations() []Entry {
	return []Entry{
		ListSchedules, GetSchedule, ListFires, SetSchedule, EditSchedule, BackfillSchedule, PauseSchedule,
		ResumeSchedule, TriggerSchedule, DeleteSchedule,
	}
}

// ScheduleInput names the schedule that an operation is about.
type ScheduleInput struct {
	Schedule string `path:"schedule" doc:"Name of the schedule."`
}

// GetScheduleInput selects how much of a schedule is described.
type GetScheduleInput struct {
	ScheduleInput
	Values bool `query:"values" doc:"With the input of its runs, whole; requires the right payloads:read."`
}

// ScheduleReasonInput names a schedule and a reason.
type ScheduleReasonInput struct {
	Schedule string `path:"schedule" doc:"Name of the schedule."`
	Body     struct {
		Reason string `json:"reason,omitempty"`
	}
}

// ListFiresInput is the input of an operation with parameters.
type ListFiresInput struct {
	ScheduleInput
	api.ListFiresInput
}

// SetScheduleInput is the input of an operation with a body.
type SetScheduleInput struct {
	ScheduleInput
	Body struct{ api.SetScheduleInput }
}

// EditScheduleInput is the input of an operation with a body.
type EditScheduleInput struct {
	ScheduleInput
	Body struct{ api.EditScheduleInput }
}

// BackfillScheduleInput is a past interval.
type BackfillScheduleInput struct {
	ScheduleInput
	Body struct {
		From    time.Time `json:"from" doc:"First time, inclusive."`
		Until   time.Time `json:"until" doc:"Last time, inclusive, in the past."`
		Overlap string    `json:"overlap,omitempty" enum:"queue,allow" doc:"queue: each run starts when the one before has ended, which is the default; allow: all at once."`
	}
}

// Backfilled is the result of a backfill.
type Backfilled struct {
	Times int `json:"times" doc:"Times of the interval whose runs keepers start."`
}
