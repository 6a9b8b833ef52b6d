package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func (a *App) scheduleCommand() *cobra.Command {
	return a.group("schedule", "Start runs by time",
		a.scheduleList(), a.scheduleShow(), a.scheduleCreate(), a.scheduleEdit(), a.schedulePause(), a.scheduleResume(),
		a.scheduleTrigger(), a.scheduleNext(), a.scheduleBackfill(), a.scheduleDelete())
}

var scheduleView = output.View[fabrictype.Schedule]{
	Name: func(s fabrictype.Schedule) string { return s.Name },
	Columns: []output.Column[fabrictype.Schedule]{
		{Name: "schedule", Text: func(s fabrictype.Schedule) string { return s.Name }},
		{Name: "flow", Text: func(s fabrictype.Schedule) string { return s.Flow }},
		{Name: "times", Text: timesText},
		{Name: "next", Text: func(s fabrictype.Schedule) string { return output.At(s.NextFire) }},
		{Name: "last run", Text: func(s fabrictype.Schedule) string { return s.LastRun }},
		{Name: "state", Text: func(s fabrictype.Schedule) string { return string(s.LastRunState) }},
		{Name: "paused", Text: func(s fabrictype.Schedule) string {
			if s.PausedAt.IsZero() {
				return ""
			}
			return "since " + output.At(s.PausedAt) + " " + s.PauseReason
		}},
		{Name: "overlap", Wide: true, Text: func(s fabrictype.Schedule) string { return string(s.Overlap) }},
		{
			Name: "started", Wide: true, Text: func(s fabrictype.Schedule) string { return strconv.FormatInt(s.Started, 10) },
		},
		{
			Name: "skipped", Wide: true, Text: func(s fabrictype.Schedule) string { return strconv.FormatInt(s.Skipped, 10) },
		},
		{
			Name: "missed", Wide: true, Text: func(s fabrictype.Schedule) string { return strconv.FormatInt(s.Missed, 10) },
		},
		{
			Name: "failed", Wide: true, Text: func(s fabrictype.Schedule) string { return strconv.FormatInt(s.Failed, 10) },
		},
	},
}

func timesText(s fabrictype.Schedule) string {
	if s.Cron == "" {
		return "every " + s.Every.String()
	}
	return s.Cron + " " + cmp.Or(s.TimeZone, "UTC")
}

func (a *App) scheduleList() *cobra.Command {
	return a.command(spec{
		use: "list", short: "Show the schedules", calls: []httpapi.Entry{httpapi.ListSchedules},
		columns: scheduleView.ColumnNames(),
		do: func(r *request) error {
			schedules, err := call(r, httpapi.ListSchedules, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.out, scheduleView, schedules.Items)
		},
	})
}

var fireView = output.View[fabrictype.ScheduleFire]{
	Name: func(f fabrictype.ScheduleFire) string { return f.Run },
	Columns: []output.Column[fabrictype.ScheduleFire]{
		{Name: "time", Text: func(f fabrictype.ScheduleFire) string { return output.At(f.At) }},
		{Name: "outcome", Text: func(f fabrictype.ScheduleFire) string { return string(f.Outcome) }},
		{Name: "count", Text: func(f fabrictype.ScheduleFire) string { return strconv.FormatInt(f.Count, 10) }},
		{Name: "run", Text: func(f fabrictype.ScheduleFire) string { return f.Run }},
		{Name: "reason", Text: func(f fabrictype.ScheduleFire) string { return f.Reason }},
	},
}

func (a *App) scheduleShow() *cobra.Command {
	return a.command(spec{
		use: "show SCHEDULE", short: "Show a schedule with its last fires", calls: []httpapi.Entry{httpapi.GetSchedule},
		do: func(r *request) error {
			s, err := call(r, httpapi.GetSchedule, httpapi.GetScheduleInput{ScheduleInput: r.schedule()})
			return printSchedule(r, s, err)
		},
	})
}

func (r *request) schedule() httpapi.ScheduleInput { return httpapi.ScheduleInput{Schedule: r.args[0]} }

func printSchedule(r *request, s *fabrictype.Schedule, err error) error {
	if err != nil {
		return err
	}
	if !r.out.ForPeople() {
		return r.out.Value(s, s.Name, "")
	}
	r.out.Say("schedule %s of flow %s: %s, overlap %s", s.Name, s.Flow, timesText(*s), s.Overlap)
	r.out.Say("  next %s, last %s", output.At(s.NextFire), output.At(s.LastFire))
	r.out.Say("  started %d, skipped %d, missed %d, failed %d, waiting %d", s.Started, s.Skipped, s.Missed, s.Failed,
		s.Waiting)
	if !s.PausedAt.IsZero() {
		r.out.Say("  paused since %s: %q", output.At(s.PausedAt), s.PauseReason)
	}
	if len(s.History) == 0 {
		return nil
	}
	return output.List(r.out, fireView, s.History)
}

// scheduleFlags are the flags of the settings of a schedule.
type scheduleFlags struct {
	input                          *jsonFlag
	cron, zone, overlap, fireField string
	every, jitter, catchUp         time.Duration
	starting, ending               *timeFlag
	queueLimit                     int
	tags                           tagFlag
}

func declareSchedule(c *cobra.Command) *scheduleFlags {
	f := &scheduleFlags{tags: tagFlag{}}
	flags := c.Flags()
	f.input = declareJSON(flags, "input", "the input of its runs")
	flags.StringVar(&f.cron, "cron", "", "five fields, or @hourly, @daily, @weekly, @monthly or @yearly")
	flags.StringVar(&f.zone, "time-zone", "", "the time zone of --cron, such as Europe/Berlin; UTC by default")
	flags.DurationVar(&f.every, "every", 0, "the interval")
	f.starting, f.ending = declareTime(flags, "starting", "the earliest fire"), declareTime(flags, "ending",
		"the latest fire")
	flags.DurationVar(&f.jitter, "jitter", 0, "the bound of the delay of each fire")
	flags.DurationVar(&f.catchUp, "catch-up", 0, "how far back missed fires are started; an hour by default")
	flags.StringVar(&f.overlap, "overlap", "",
		"the policy while the last run is open: skip, queue, cancel_previous or allow")
	flags.IntVar(&f.queueLimit, "queue-limit", 0, "how many fires wait with --overlap queue")
	flags.StringVar(&f.fireField, "fire-time-field", "", "the field of the input that gets the time of the fire")
	flags.Var(f.tags, "tag", "a tag of its runs; may be given several times")
	return f
}

// scheduleFlagNames are the names of the flags of the settings of a schedule.
var scheduleFlagNames = []string{
	"cron", "time-zone", "every", "starting", "ending", "jitter", "input", "catch-up", "overlap", "queue-limit",
	"fire-time-field", "tag",
}

func (f *scheduleFlags) check(now time.Time) error {
	var both error
	if f.cron != "" && f.every != 0 {
		both = errors.New("--cron and --every exclude each other")
	}
	return errors.Join(both, f.input.check("input"), notNegative("every", f.every), notNegative("jitter", f.jitter),
		notNegative("catch-up", f.catchUp), f.starting.parse("starting", now), f.ending.parse("ending", now))
}

func (a *App) scheduleCreate() *cobra.Command {
	var f *scheduleFlags
	var paused bool
	var reason string
	c := a.command(spec{
		use: "create SCHEDULE FLOW", short: "Create or replace a schedule of a published flow",
		example: "  flowfabric schedule create nightly report --cron '0 3 * * *' --time-zone Europe/Berlin",
		calls:   []httpapi.Entry{httpapi.SetSchedule},
		check: func([]string) error {
			err := f.check(a.Now())
			if f.cron == "" && f.every == 0 {
				err = errors.Join(err, errors.New("takes --cron or --every"))
			}
			return err
		},
		do: func(r *request) error {
			in := httpapi.SetScheduleInput{ScheduleInput: r.schedule()}
			b := &in.Body
			var err error
			if b.Input, err = f.input.read(r, "input"); err != nil {
				return err
			}
			b.Flow, b.Timing = r.args[1], f.timing()
			b.CatchUp, b.Overlap, b.QueueLimit = fabrictype.Duration{Duration: f.catchUp}, f.overlap, f.queueLimit
			b.Tags, b.FireTimeField, b.StartPaused, b.PauseReason = f.tags, f.fireField, paused, reason
			s, err := call(r, httpapi.SetSchedule, in)
			return printSchedule(r, s, err)
		},
	})
	f = declareSchedule(c)
	c.Flags().BoolVar(&paused, "paused", false, "create it paused")
	c.Flags().StringVar(&reason, "reason", "", "why, with --paused")
	return c
}

// timing is when the schedule fires, by the flags.
func (f *scheduleFlags) timing() api.Timing {
	return api.Timing{
		Cron: f.cron, TimeZone: f.zone, Every: fabrictype.Duration{Duration: f.every}, StartingAt: f.starting.time,
		EndingAt: f.ending.time, Jitter: fabrictype.Duration{Duration: f.jitter},
	}
}

// changedTiming is the timing of a schedule with the changes of the flags; nil if they change nothing.
func (f *scheduleFlags) changedTiming(r *request) (*api.Timing, error) {
	given := r.cmd.Flags().Changed
	changed := false
	for _, name := range []string{"cron", "time-zone", "every", "starting", "ending", "jitter"} {
		changed = changed || given(name)
	}
	if !changed {
		return nil, nil
	}
	s, err := call(r, httpapi.GetSchedule, httpapi.GetScheduleInput{ScheduleInput: r.schedule()})
	if err != nil {
		return nil, err
	}
	t := api.Timing{
		Cron: s.Cron, TimeZone: s.TimeZone, Every: s.Every, StartingAt: s.StartingAt, EndingAt: s.EndingAt,
		Jitter: s.Jitter,
	}
	if given("cron") {
		t.Cron, t.Every = f.cron, fabrictype.Duration{}
	}
	if given("every") {
		t.Cron, t.TimeZone, t.Every = "", "", fabrictype.Duration{Duration: f.every}
	}
	if given("time-zone") {
		t.TimeZone = f.zone
	}
	if given("starting") {
		t.StartingAt = f.starting.time
	}
	if given("ending") {
		t.EndingAt = f.ending.time
	}
	if given("jitter") {
		t.Jitter = fabrictype.Duration{Duration: f.jitter}
	}
	return &t, nil
}

func (a *App) scheduleEdit() *cobra.Command {
	var f *scheduleFlags
	var c *cobra.Command
	c = a.command(spec{
		use: "edit SCHEDULE", short: "Change parts of a schedule",
		calls: []httpapi.Entry{httpapi.EditSchedule, httpapi.GetSchedule},
		check: func([]string) error {
			if !slices.ContainsFunc(scheduleFlagNames, c.Flags().Changed) {
				return errors.New("takes at least one of --" + strings.Join(scheduleFlagNames, ", --"))
			}
			return f.check(a.Now())
		},
		do: func(r *request) error {
			in := httpapi.EditScheduleInput{ScheduleInput: r.schedule()}
			b, given := &in.Body, r.cmd.Flags().Changed
			var err error
			if b.Input, err = f.input.read(r, "input"); err != nil {
				return err
			}
			if b.Timing, err = f.changedTiming(r); err != nil {
				return err
			}
			b.Overlap = ifGiven(given("overlap"), f.overlap)
			b.CatchUp = ifGiven(given("catch-up"), fabrictype.Duration{Duration: f.catchUp})
			b.QueueLimit = ifGiven(given("queue-limit"), f.queueLimit)
			b.FireTimeField = ifGiven(given("fire-time-field"), f.fireField)
			if given("tag") {
				b.Tags = f.tags
			}
			s, err := call(r, httpapi.EditSchedule, in)
			return printSchedule(r, s, err)
		},
	})
	f = declareSchedule(c)
	return c
}

func ifGiven[T any](given bool, value T) *T {
	if !given {
		return nil
	}
	return &value
}

func (a *App) schedulePause() *cobra.Command {
	var reason string
	c := a.command(spec{
		use: "pause SCHEDULE", short: "Keep a schedule from firing", calls: []httpapi.Entry{httpapi.PauseSchedule},
		do: func(r *request) error {
			in := httpapi.ScheduleReasonInput{Schedule: r.args[0]}
			in.Body.Reason = reason
			_, err := call(r, httpapi.PauseSchedule, in)
			return r.done("paused", r.args[0], err)
		},
	})
	declareReason(c, &reason)
	return c
}

func (a *App) scheduleResume() *cobra.Command {
	return a.command(spec{
		use: "resume SCHEDULE", short: "End the pause of a schedule", calls: []httpapi.Entry{httpapi.ResumeSchedule},
		do: func(r *request) error {
			_, err := call(r, httpapi.ResumeSchedule, r.schedule())
			return r.done("resumed", r.args[0], err)
		},
	})
}

func (a *App) scheduleTrigger() *cobra.Command {
	return a.command(spec{
		use: "trigger SCHEDULE", short: "Start a run of a schedule now", calls: []httpapi.Entry{httpapi.TriggerSchedule},
		do: func(r *request) error {
			run, err := call(r, httpapi.TriggerSchedule, r.schedule())
			if err != nil {
				return err
			}
			return r.out.Value(run, path(httpapi.RunName{Flow: run.Flow, Run: run.Run}), run.Run)
		},
	})
}

var fireTimeView = output.View[time.Time]{
	Name: func(t time.Time) string { return t.Format(time.RFC3339) },
	Columns: []output.Column[time.Time]{
		{Name: "time", Text: output.At},
	},
}

func (a *App) scheduleNext() *cobra.Command {
	var count int
	c := a.command(spec{
		use: "next SCHEDULE", short: "Show the next times of a schedule", calls: []httpapi.Entry{httpapi.ListFires},
		columns: fireTimeView.ColumnNames(),
		check: func([]string) error {
			if count < 1 || count > 1000 {
				return fmt.Errorf("--count %d: must be 1 to 1000", count)
			}
			return nil
		},
		do: func(r *request) error {
			times, err := call(r, httpapi.ListFires, httpapi.ListFiresInput{
				ScheduleInput: r.schedule(), ListFiresInput: api.ListFiresInput{Limit: count},
			})
			if err != nil {
				return err
			}
			return output.List(r.out, fireTimeView, times.Items)
		},
	})
	c.Flags().IntVar(&count, "count", 10, "how many")
	return c
}

func (a *App) scheduleBackfill() *cobra.Command {
	var from, until *timeFlag
	var overlap string
	c := a.command(spec{
		use: "backfill SCHEDULE", short: "Start runs for times of a schedule that have passed",
		example: "  flowfabric schedule backfill nightly --from 2026-11-01 --until 2026-11-07",
		calls:   []httpapi.Entry{httpapi.BackfillSchedule},
		check: func([]string) error {
			var missing error
			if from.text == "" || until.text == "" {
				missing = errors.New("takes --from and --until")
			}
			return errors.Join(missing, from.parse("from", a.Now()), until.parse("until", a.Now()))
		},
		do: func(r *request) error {
			in := httpapi.BackfillScheduleInput{ScheduleInput: r.schedule()}
			in.Body.From, in.Body.Until, in.Body.Overlap = from.time, until.time, overlap
			b, err := call(r, httpapi.BackfillSchedule, in)
			if err != nil {
				return err
			}
			return r.out.Value(b, r.args[0], counted(b.Times, "time", "times"))
		},
	})
	from, until = declareTime(c.Flags(), "from", "the first time"), declareTime(c.Flags(), "until", "the last time")
	c.Flags().StringVar(&overlap, "overlap", "", "queue, one after the other, or allow, all at once; queue by default")
	return c
}

func (a *App) scheduleDelete() *cobra.Command {
	return a.command(spec{
		use: "delete SCHEDULE", short: "Delete a schedule; its runs stay", calls: []httpapi.Entry{httpapi.DeleteSchedule},
		do: func(r *request) error {
			look := func() error {
				_, err := call(r, httpapi.GetSchedule, httpapi.GetScheduleInput{ScheduleInput: r.schedule()})
				return err
			}
			return r.destroy("delete schedule "+r.args[0], look, func() error {
				_, err := call(r, httpapi.DeleteSchedule, r.schedule())
				return r.done("deleted", r.args[0], err)
			})
		},
	})
}
