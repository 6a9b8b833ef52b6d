package load

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
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func Schedule(a *shell.App) *cobra.Command {
	return a.Group("schedule", "Start runs by time",
		scheduleList(a), scheduleShow(a), scheduleCreate(a), scheduleEdit(a), schedulePause(a), scheduleResume(a),
		scheduleTrigger(a), scheduleNext(a), scheduleBackfill(a), scheduleDelete(a))
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

func scheduleList(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "list", Short: "Show the schedules", Calls: []httpapi.Entry{httpapi.ListSchedules},
		Columns: scheduleView.ColumnNames(),
		Do: func(r *shell.Request) error {
			schedules, err := shell.Call(r, httpapi.ListSchedules, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.Out, scheduleView, schedules.Items)
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

func scheduleShow(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "show SCHEDULE", Short: "Show a schedule with its last fires", Calls: []httpapi.Entry{httpapi.GetSchedule},
		Do: func(r *shell.Request) error {
			s, err := shell.Call(r, httpapi.GetSchedule, httpapi.GetScheduleInput{ScheduleInput: scheduleName(r)})
			return printSchedule(r, s, err)
		},
	})
}

func scheduleName(r *shell.Request) httpapi.ScheduleInput {
	return httpapi.ScheduleInput{Schedule: r.Args[0]}
}

func printSchedule(r *shell.Request, s *fabrictype.Schedule, err error) error {
	if err != nil {
		return err
	}
	if !r.Out.ForPeople() {
		return r.Out.Value(s, s.Name, "")
	}
	r.Out.Say("schedule %s of flow %s: %s, overlap %s", s.Name, s.Flow, timesText(*s), s.Overlap)
	r.Out.Say("  next %s, last %s", output.At(s.NextFire), output.At(s.LastFire))
	r.Out.Say("  started %d, skipped %d, missed %d, failed %d, waiting %d", s.Started, s.Skipped, s.Missed, s.Failed,
		s.Waiting)
	if !s.PausedAt.IsZero() {
		r.Out.Say("  paused since %s: %q", output.At(s.PausedAt), s.PauseReason)
	}
	if len(s.History) == 0 {
		return nil
	}
	return output.List(r.Out, fireView, s.History)
}

// scheduleFlags are the flags of the settings of a schedule.
type scheduleFlags struct {
	input                          *cliflag.JSON
	cron, zone, overlap, fireField string
	every, jitter, catchUp         time.Duration
	starting, ending               *cliflag.Time
	queueLimit                     int
	tags                           cliflag.Tags
}

func declareSchedule(c *cobra.Command) *scheduleFlags {
	f := &scheduleFlags{tags: cliflag.Tags{}}
	flags := c.Flags()
	f.input = cliflag.DeclareJSON(flags, "input", "the input of its runs")
	flags.StringVar(&f.cron, "cron", "", "five fields, or @hourly, @daily, @weekly, @monthly or @yearly")
	flags.StringVar(&f.zone, "time-zone", "", "the time zone of --cron, such as Europe/Berlin; UTC by default")
	cliflag.DeclareDuration(flags, &f.every, "every", 0, "the interval")
	f.starting, f.ending = cliflag.DeclareTime(flags, "starting", "the earliest fire"), cliflag.DeclareTime(flags, "ending",
		"the latest fire")
	cliflag.DeclareDuration(flags, &f.jitter, "jitter", 0, "the bound of the delay of each fire")
	cliflag.DeclareDuration(flags, &f.catchUp, "catch-up", 0, "how far back missed fires are started; an hour by default")
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
	return errors.Join(both, f.input.Check("input"), shell.NotNegative("every", f.every), shell.NotNegative("jitter", f.jitter),
		shell.NotNegative("catch-up", f.catchUp), f.starting.Parse("starting", now), f.ending.Parse("ending", now))
}

func scheduleCreate(a *shell.App) *cobra.Command {
	var f *scheduleFlags
	var paused bool
	var reason string
	c := a.Command(shell.Spec{
		Use: "create SCHEDULE FLOW", Short: "Create or replace a schedule of a published flow",
		Example: "  flowfabric schedule create nightly report --cron '0 3 * * *' --time-zone Europe/Berlin",
		Calls:   []httpapi.Entry{httpapi.SetSchedule},
		Check: func([]string) error {
			err := f.check(a.Now())
			if f.cron == "" && f.every == 0 {
				err = errors.Join(err, errors.New("takes --cron or --every"))
			}
			return err
		},
		Do: func(r *shell.Request) error {
			in := httpapi.SetScheduleInput{ScheduleInput: scheduleName(r)}
			b := &in.Body
			var err error
			if b.Input, err = f.input.Read(r, "input"); err != nil {
				return err
			}
			b.Flow, b.Timing = r.Args[1], f.timing()
			b.CatchUp, b.Overlap, b.QueueLimit = fabrictype.Duration{Duration: f.catchUp}, f.overlap, f.queueLimit
			b.Tags, b.FireTimeField, b.StartPaused, b.PauseReason = f.tags, f.fireField, paused, reason
			s, err := shell.Call(r, httpapi.SetSchedule, in)
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
		Cron: f.cron, TimeZone: f.zone, Every: fabrictype.Duration{Duration: f.every}, StartingAt: f.starting.Time,
		EndingAt: f.ending.Time, Jitter: fabrictype.Duration{Duration: f.jitter},
	}
}

// changedTiming is the timing of a schedule with the changes of the flags; nil if they change nothing.
func (f *scheduleFlags) changedTiming(r *shell.Request) (*api.Timing, error) {
	given := r.Cmd.Flags().Changed
	changed := false
	for _, name := range []string{"cron", "time-zone", "every", "starting", "ending", "jitter"} {
		changed = changed || given(name)
	}
	if !changed {
		return nil, nil
	}
	s, err := shell.Call(r, httpapi.GetSchedule, httpapi.GetScheduleInput{ScheduleInput: scheduleName(r)})
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
		t.StartingAt = f.starting.Time
	}
	if given("ending") {
		t.EndingAt = f.ending.Time
	}
	if given("jitter") {
		t.Jitter = fabrictype.Duration{Duration: f.jitter}
	}
	return &t, nil
}

func scheduleEdit(a *shell.App) *cobra.Command {
	var f *scheduleFlags
	var c *cobra.Command
	c = a.Command(shell.Spec{
		Use: "edit SCHEDULE", Short: "Change parts of a schedule",
		Calls: []httpapi.Entry{httpapi.EditSchedule, httpapi.GetSchedule},
		Check: func([]string) error {
			if !slices.ContainsFunc(scheduleFlagNames, c.Flags().Changed) {
				return errors.New("takes at least one of --" + strings.Join(scheduleFlagNames, ", --"))
			}
			return f.check(a.Now())
		},
		Do: func(r *shell.Request) error {
			in := httpapi.EditScheduleInput{ScheduleInput: scheduleName(r)}
			b, given := &in.Body, r.Cmd.Flags().Changed
			var err error
			if b.Input, err = f.input.Read(r, "input"); err != nil {
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
			s, err := shell.Call(r, httpapi.EditSchedule, in)
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

func schedulePause(a *shell.App) *cobra.Command {
	var reason string
	c := a.Command(shell.Spec{
		Use: "pause SCHEDULE", Short: "Keep a schedule from firing", Calls: []httpapi.Entry{httpapi.PauseSchedule},
		Do: func(r *shell.Request) error {
			in := httpapi.ScheduleReasonInput{Schedule: r.Args[0]}
			in.Body.Reason = reason
			_, err := shell.Call(r, httpapi.PauseSchedule, in)
			return r.PrintDone("paused", r.Args[0], err)
		},
	})
	cliflag.DeclareReason(c, &reason)
	return c
}

func scheduleResume(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "resume SCHEDULE", Short: "End the pause of a schedule", Calls: []httpapi.Entry{httpapi.ResumeSchedule},
		Do: func(r *shell.Request) error {
			_, err := shell.Call(r, httpapi.ResumeSchedule, scheduleName(r))
			return r.PrintDone("resumed", r.Args[0], err)
		},
	})
}

func scheduleTrigger(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "trigger SCHEDULE", Short: "Start a run of a schedule now", Calls: []httpapi.Entry{httpapi.TriggerSchedule},
		Do: func(r *shell.Request) error {
			run, err := shell.Call(r, httpapi.TriggerSchedule, scheduleName(r))
			if err != nil {
				return err
			}
			return r.Out.Value(run, wording.Path(httpapi.RunName{Flow: run.Flow, Run: run.Run}), run.Run)
		},
	})
}

var fireTimeView = output.View[time.Time]{
	Name: func(t time.Time) string { return t.Format(time.RFC3339) },
	Columns: []output.Column[time.Time]{
		{Name: "time", Text: output.At},
	},
}

func scheduleNext(a *shell.App) *cobra.Command {
	var count int
	c := a.Command(shell.Spec{
		Use: "next SCHEDULE", Short: "Show the next times of a schedule", Calls: []httpapi.Entry{httpapi.ListFires},
		Columns: fireTimeView.ColumnNames(),
		Check: func([]string) error {
			if count < 1 || count > 1000 {
				return fmt.Errorf("--count %d: must be 1 to 1000", count)
			}
			return nil
		},
		Do: func(r *shell.Request) error {
			times, err := shell.Call(r, httpapi.ListFires, httpapi.ListFiresInput{
				ScheduleInput: scheduleName(r), ListFiresInput: api.ListFiresInput{Limit: count},
			})
			if err != nil {
				return err
			}
			return output.List(r.Out, fireTimeView, times.Items)
		},
	})
	c.Flags().IntVar(&count, "count", 10, "how many")
	return c
}

func scheduleBackfill(a *shell.App) *cobra.Command {
	var from, until *cliflag.Time
	var overlap string
	c := a.Command(shell.Spec{
		Use: "backfill SCHEDULE", Short: "Start runs for times of a schedule that have passed",
		Example: "  flowfabric schedule backfill nightly --from 2026-11-01 --until 2026-11-07",
		Calls:   []httpapi.Entry{httpapi.BackfillSchedule},
		Check: func([]string) error {
			var missing error
			if from.Text == "" || until.Text == "" {
				missing = errors.New("takes --from and --until")
			}
			return errors.Join(missing, from.Parse("from", a.Now()), until.Parse("until", a.Now()))
		},
		Do: func(r *shell.Request) error {
			in := httpapi.BackfillScheduleInput{ScheduleInput: scheduleName(r)}
			in.Body.From, in.Body.Until, in.Body.Overlap = from.Time, until.Last(), overlap
			b, err := shell.Call(r, httpapi.BackfillSchedule, in)
			if err != nil {
				return err
			}
			return r.Out.Value(b, r.Args[0], wording.Counted(b.Times, "time", "times"))
		},
	})
	from, until = cliflag.DeclareSince(c.Flags(), "from", "the first time"), cliflag.DeclareUntil(c.Flags(), "until", "the last time")
	c.Flags().StringVar(&overlap, "overlap", "", "queue, one after the other, or allow, all at once; queue by default")
	return c
}

func scheduleDelete(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "delete SCHEDULE", Short: "Delete a schedule; its runs stay", Calls: []httpapi.Entry{httpapi.DeleteSchedule},
		Do: func(r *shell.Request) error {
			look := func() error {
				_, err := shell.Call(r, httpapi.GetSchedule, httpapi.GetScheduleInput{ScheduleInput: scheduleName(r)})
				return err
			}
			return r.Destroy("delete schedule "+r.Args[0], look, func() error {
				_, err := shell.Call(r, httpapi.DeleteSchedule, scheduleName(r))
				return r.PrintDone("deleted", r.Args[0], err)
			})
		},
	})
}
