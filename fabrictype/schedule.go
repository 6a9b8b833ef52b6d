package fabrictype

import "time"

// Schedule is the state of a schedule at one moment.
type Schedule struct {
	Name string `json:"name"`
	Flow string `json:"flow"`
	// Cron and TimeZone, or Every, and the fields below are the fields of runtime.ScheduleConfig with defaults applied.
	Cron     string   `json:"cron,omitempty"`
	TimeZone string   `json:"time_zone,omitempty"`
	Every    Duration `json:"every,omitzero"`
	// StartingAt and EndingAt are zero for a timetable without the bound.
	StartingAt time.Time     `json:"starting_at,omitzero"`
	EndingAt   time.Time     `json:"ending_at,omitzero"`
	Jitter     Duration      `json:"jitter,omitzero"`
	CatchUp    Duration      `json:"catch_up,omitzero"`
	Overlap    OverlapPolicy `json:"overlap,omitempty"`
	// QueueLimit is 0 unless Overlap is OverlapQueue.
	QueueLimit int               `json:"queue_limit,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	// PausedAt and PauseReason describe the pause; PausedAt is zero when the schedule is not paused.
	PausedAt    time.Time `json:"paused_at,omitzero"`
	PauseReason string    `json:"pause_reason,omitempty"`
	// NextFire is the time of the next fire, before jitter; zero when there is none. A paused schedule does not fire at
	// that time: it is the first one from now on that its timetable has.
	NextFire time.Time `json:"next_fire,omitzero"`
	// LastFire is the time of the last fire, whatever its outcome; zero when there was none.
	LastFire time.Time `json:"last_fire,omitzero"`
	// LastRun is the id of the run that was started last, and LastRunFlow its flow; empty when there was none.
	LastRun     string `json:"last_run,omitempty"`
	LastRunFlow string `json:"last_run_flow,omitempty"`
	// LastRunState is the state of that run; empty when there was none or it was purged.
	LastRunState RunState `json:"last_run_state,omitempty"`
	// Backfills are those that are not finished, in order.
	Backfills []Backfill `json:"backfills,omitempty"`
	// Waiting is the number of fires whose runs have not been started yet.
	Waiting int `json:"waiting,omitempty" doc:"Fires whose runs have not been started yet."`
	// Started, Skipped, Missed and Failed count fires by outcome.
	Started int64 `json:"started"`
	Skipped int64 `json:"skipped"`
	Missed  int64 `json:"missed"`
	Failed  int64 `json:"failed"`
	// History has the last fires, the newest first, at most 50. A list of schedules omits it.
	History []ScheduleFire `json:"history,omitempty"`
	// Input is the input of its runs, as it was encoded. Only the operation get-schedule of the HTTP API sets it, if
	// the request includes values; in Go, ScheduleRef.Input returns it.
	Input *Value `json:"input,omitempty" doc:"Input of its runs, of get-schedule with values."`
}

// ScheduleFire is one fire of a schedule, or several consecutive fires that were missed.
type ScheduleFire struct {
	// At is the time of the fire. If Count is more than 1, it is the time of the first fire and Until the time of the
	// last one.
	At    time.Time `json:"at"`
	Until time.Time `json:"until,omitzero"`
	// Count is the number of fires; 1 unless several were missed.
	Count int64 `json:"count"`
	// DoneAt is when the outcome was determined.
	DoneAt  time.Time   `json:"done_at,omitzero"`
	Outcome FireOutcome `json:"outcome"`
	// Flow and Run identify the run that was started; empty if none was.
	Flow string `json:"flow,omitempty"`
	Run  string `json:"run,omitempty"`
	// Reason is why no run was started.
	Reason string `json:"reason,omitempty"`
	// Triggered reports whether ScheduleRef.Trigger caused the fire.
	Triggered bool `json:"triggered,omitempty"`
	// Backfilled reports whether ScheduleRef.Backfill caused the fire.
	Backfilled bool `json:"backfilled,omitempty"`
}

// Backfill is a past interval whose times a schedule starts later.
type Backfill struct {
	// From and Until are the first and the last time that are started, both inclusive, in the past by the engine's
	// clock. In a Schedule, From is the next time that will be.
	From  time.Time `json:"from" doc:"The next time."`
	Until time.Time `json:"until"`
	// Overlap is OverlapQueue, by which each run starts when the one before has ended, or OverlapAllow, by which all
	// start at once. Only the runs of the backfill count. Defaults to OverlapQueue.
	Overlap OverlapPolicy `json:"overlap"`
}
