package api

import (
	"encoding/json"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// Operations of schedules.
var (
	ListSchedules = call[Empty, fabrictype.Page[fabrictype.Schedule]](Operation{
		Name: "list-schedules", Group: "schedules", Method: "GET", Path: "/schedules", Right: View, Effect: Reads,
		Summary: "List the schedules",
	})
	GetSchedule = call[GetScheduleInput, fabrictype.Schedule](Operation{
		Name: "get-schedule", Group: "schedules", Method: "GET", Path: "/schedules/{schedule}",
		Right: View, Effect: Reads,
		Summary: "Describe a schedule with its last fires",
	})
	ListFires = call[ListFiresInput, fabrictype.Page[time.Time]](Operation{
		Name: "list-fires", Group: "schedules", Method: "GET", Path: "/schedules/{schedule}/fires",
		Right: View, Effect: Reads,
		Summary: "List the next times of a schedule, or its next times with another timing",
	})
	SetSchedule = call[SetScheduleInput, fabrictype.Schedule](Operation{
		Name: "set-schedule", Group: "schedules", Method: "PUT", Path: "/schedules/{schedule}",
		Right: Operate, Effect: Changes,
		Summary: "Create a schedule of a published flow, or replace the one of that name",
	})
	EditSchedule = call[EditScheduleInput, fabrictype.Schedule](Operation{
		Name: "edit-schedule", Group: "schedules", Method: "PATCH", Path: "/schedules/{schedule}",
		Right: Operate, Effect: Changes,
		Summary: "Change the given settings of a schedule, and keep the others",
	})
	BackfillSchedule = call[BackfillScheduleInput, Backfilled](Operation{
		Name: "backfill-schedule", Group: "schedules", Method: "POST", Path: "/schedules/{schedule}/backfill",
		Right: Operate, Effect: Changes,
		Summary: "Start runs for past times of a schedule",
	})
	PauseSchedule = call[ScheduleReasonInput, Empty](Operation{
		Name: "pause-schedule", Group: "schedules", Method: "POST", Path: "/schedules/{schedule}/pause",
		Right: Operate, Effect: Changes,
		Summary: "Keep a schedule from firing",
	})
	ResumeSchedule = call[ScheduleInput, Empty](Operation{
		Name: "resume-schedule", Group: "schedules", Method: "POST", Path: "/schedules/{schedule}/resume",
		Right: Operate, Effect: Changes,
		Summary: "End the pause of a schedule",
	})
	TriggerSchedule = call[ScheduleInput, StartedRun](Operation{
		Name: "trigger-schedule", Group: "schedules", Method: "POST", Path: "/schedules/{schedule}/trigger",
		Right: Operate, Effect: Changes,
		Summary: "Start a run of a schedule now",
	})
	DeleteSchedule = call[ScheduleInput, Empty](Operation{
		Name: "delete-schedule", Group: "schedules", Method: "DELETE", Path: "/schedules/{schedule}",
		Right: Administer, Effect: Destroys,
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

// ListFiresInput selects how many times are listed.
type ListFiresInput struct {
	ScheduleInput
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"10" doc:"Most times; fewer if the schedule ends before."`
	// Cron or Every lists the times of another timing, of a schedule that need not be there.
	Cron       string              `query:"cron" doc:"List the times of this expression instead of the schedule's times."`
	TimeZone   string              `query:"time_zone" doc:"Time zone of cron."`
	Every      fabrictype.Duration `query:"every" doc:"List the times of this interval instead of the schedule's times."`
	StartingAt time.Time           `query:"starting_at" doc:"Earliest time of cron or every."`
	EndingAt   time.Time           `query:"ending_at" doc:"Latest time of cron or every."`
}

// Timing is when a schedule fires. Exactly one of Cron and Every is given.
type Timing struct {
	Cron       string              `json:"cron,omitempty" doc:"Expression of five fields, or @hourly, @daily, @weekly, @monthly, @yearly."`
	TimeZone   string              `json:"time_zone,omitempty" doc:"IANA name of the time zone of cron; UTC if it is absent."`
	Every      fabrictype.Duration `json:"every,omitzero" doc:"Interval between fires, at least 1s."`
	StartingAt time.Time           `json:"starting_at,omitzero" doc:"Earliest fire."`
	EndingAt   time.Time           `json:"ending_at,omitzero" doc:"Latest fire."`
	Jitter     fabrictype.Duration `json:"jitter,omitzero" doc:"Bound of the delay of each fire."`
}

// SetScheduleInput is a whole schedule.
type SetScheduleInput struct {
	ScheduleInput
	Body struct {
		Flow  string          `json:"flow" doc:"Name of a published flow."`
		Input json.RawMessage `json:"input,omitempty" doc:"Input of the runs, checked against the schema of the flow."`
		Timing
		CatchUp       fabrictype.Duration `json:"catch_up,omitzero" doc:"How far back missed fires are made up; 1h if it is absent."`
		Overlap       string              `json:"overlap,omitempty" doc:"Treatment of a fire while the last run is open: skip, queue, cancel_previous or allow; skip if it is absent."`
		QueueLimit    int                 `json:"queue_limit,omitempty" minimum:"0" doc:"Most fires that wait with overlap queue."`
		StartPaused   bool                `json:"start_paused,omitempty" doc:"A new schedule begins paused."`
		PauseReason   string              `json:"pause_reason,omitempty"`
		FireTimeField string              `json:"fire_time_field,omitempty" doc:"Field of the input that is set to the time of the fire."`
		Tags          map[string]string   `json:"tags,omitempty"`
	}
}

// EditScheduleInput has the changes of a schedule. Absent fields stay; a timing replaces the whole timing.
type EditScheduleInput struct {
	ScheduleInput
	Body struct {
		Timing        *Timing              `json:"timing,omitempty" doc:"Replaces the whole timetable of the schedule."`
		Input         json.RawMessage      `json:"input,omitempty"`
		CatchUp       *fabrictype.Duration `json:"catch_up,omitempty"`
		Overlap       *string              `json:"overlap,omitempty"`
		QueueLimit    *int                 `json:"queue_limit,omitempty"`
		FireTimeField *string              `json:"fire_time_field,omitempty"`
		Tags          map[string]string    `json:"tags,omitempty" doc:"Replaces all tags."`
	}
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
