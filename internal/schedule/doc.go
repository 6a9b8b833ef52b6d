// Package schedule stores schedules and starts the runs that they make due.
//
// # Types
//
//   - [Spec] is the declaration of a schedule and [State] its progress, both in their stored form.
//   - [Record] is a schedule as it was read: spec, state, version and the engine's time of the read. Its
//     methods are the state machine; they change the record in memory only.
//   - [Store] reads records and writes them if the stored version is still the one that was read.
//   - [Runner] takes the steps of due schedules for keepers, and of declared, triggered or deleted ones for
//     clients.
//
// # State machine
//
// A schedule is active, paused (State.PausedAt) or being deleted (State.Deleting). Its timetable yields times, of
// which State.Due is the next one. A time that is due, with its jitter, becomes a fire:
//
//	time of the timetable ──► missed     too old or too many to make up for, after a time without keepers
//	time or trigger       ──► skipped    the overlap policy or a bound has no room for it
//	                      ──► waiting    in State.Waiting
//	waiting               ──► starting   StartBefore and Plan are set; this is written before the submission
//	waiting               ──► skipped    by the overlap policy: a run is open, or a later fire replaces it
//	starting              ──► started    the run exists
//	                      ──► failed     the run can never be submitted
//
// Skipped, missed, started and failed are final: a counter and the history record them. A pause first settles the times
// that are due. Then it holds the timetable and its waiting fires back, not triggered fires, which get ahead of them. A
// schedule that is being deleted drops its waiting fires, completes the one that is starting, and is removed then.
//
// Each step reads the record, changes it and writes it; errorcode.ScheduleChanged means that another process
// was faster, and the step is repeated on a new read. If a process stops while a fire is starting, another one
// starts that fire after StartBefore. The run id follows from schedule and fire ([RunOf]) and the engine remembers
// started fires, so that a fire has one run however often it is submitted. Definition and input are stored by
// revision, so that a starting fire keeps those that it began with when the schedule changes.
//
// All times are read from the engine's clock. [FiredSpan] records which times have fired, so that a clock that is set
// back neither repeats nor blocks them.
//
// # Imports
//
// The package imports engine (session, backend, log events) and submit (compiling a flow, submitting and cancelling
// runs), and internal/timetable for the times. It imports neither keeper, which calls it, nor admission,
// contract or runtime. Contract mode has no schedules.
package schedule
