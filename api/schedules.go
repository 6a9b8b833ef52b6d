package api

import "time"

// Operations of schedules.
var (
	ListSchedules = call[Empty, Page[Schedule]](Operation{
		Name: "list-schedules", Group: "schedules", Method: "GET", Path: "/schedules", Right: View, Effect: Reads,
		Summary: "List the schedules",
	})
	GetSchedule = call[ScheduleInput, Schedule](Operation{
		Name: "get-schedule", Group: "schedules", Method: "GET", Path: "/schedules/{schedule}",
		Right: View, Effect: Reads,
		Summary: "Describe a schedule with its last fires",
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
	return []Entry{ListSchedules, GetSchedule, PauseSchedule, ResumeSchedule, TriggerSchedule, DeleteSchedule}
}

// ScheduleInput names the schedule that an operation is about.
type ScheduleInput struct {
	Schedule string `path:"schedule" doc:"Name of the schedule."`
}

// ScheduleReasonInput names a schedule and a reason.
type ScheduleReasonInput struct {
	Schedule string `path:"schedule" doc:"Name of the schedule."`
	Body     struct {
		Reason string `json:"reason,omitempty"`
	}
}

// Schedule is the state of a schedule.
type Schedule struct {
	Name         string            `json:"name"`
	Flow         string            `json:"flow"`
	Cron         string            `json:"cron,omitempty"`
	TimeZone     string            `json:"time_zone,omitempty"`
	Every        Duration          `json:"every,omitzero"`
	StartingAt   time.Time         `json:"starting_at,omitzero"`
	EndingAt     time.Time         `json:"ending_at,omitzero"`
	Jitter       Duration          `json:"jitter,omitzero"`
	CatchUp      Duration          `json:"catch_up,omitzero"`
	Overlap      string            `json:"overlap,omitempty"`
	QueueLimit   int               `json:"queue_limit,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at,omitzero"`
	PausedAt     time.Time         `json:"paused_at,omitzero"`
	PauseReason  string            `json:"pause_reason,omitempty"`
	NextFire     time.Time         `json:"next_fire,omitzero"`
	LastFire     time.Time         `json:"last_fire,omitzero"`
	LastRun      string            `json:"last_run,omitempty"`
	LastRunFlow  string            `json:"last_run_flow,omitempty"`
	LastRunState string            `json:"last_run_state,omitempty"`
	Waiting      int               `json:"waiting,omitempty" doc:"Fires whose runs have not been started yet."`
	Started      int64             `json:"started"`
	Skipped      int64             `json:"skipped"`
	Missed       int64             `json:"missed"`
	Failed       int64             `json:"failed"`
	Upcoming     []time.Time       `json:"upcoming,omitempty" doc:"The next ten times of get-schedule, without jitter."`
	History      []Fire            `json:"history,omitempty"`
}

// Fire is a fire of a schedule, or several in a row that were missed.
type Fire struct {
	At        time.Time `json:"at"`
	Until     time.Time `json:"until,omitzero"`
	Count     int64     `json:"count"`
	DoneAt    time.Time `json:"done_at,omitzero"`
	Outcome   string    `json:"outcome"`
	Flow      string    `json:"flow,omitempty"`
	Run       string    `json:"run,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Triggered bool      `json:"triggered,omitempty"`
}
