package api

import (
	"encoding/json"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// ListFiresInput selects how many times are listed.
type ListFiresInput struct {
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

// EditScheduleInput has the changes of a schedule. Absent fields stay; a timing replaces the whole timing.
type EditScheduleInput struct {
	Timing        *Timing              `json:"timing,omitempty" doc:"Replaces the whole timetable of the schedule."`
	Input         json.RawMessage      `json:"input,omitempty"`
	CatchUp       *fabrictype.Duration `json:"catch_up,omitempty"`
	Overlap       *string              `json:"overlap,omitempty"`
	QueueLimit    *int                 `json:"queue_limit,omitempty"`
	FireTimeField *string              `json:"fire_time_field,omitempty"`
	Tags          map[string]string    `json:"tags,omitempty" doc:"Replaces all tags."`
}
