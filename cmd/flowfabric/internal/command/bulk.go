package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func (a *App) bulkCommand() *cobra.Command {
	return a.group("bulk", "Act on all runs that a query selects",
		a.bulkStart(), a.bulkPreview(), a.bulkShow(), a.bulkList(), a.bulkStop())
}

// bulkFlags are the flags of jobs and their actions.
type bulkFlags struct {
	reason, from, signal string
	payload              *jsonFlag
	all, everyRun        bool
	priority             int
	id                   string
	rate                 float64
	most                 int
	query                *queryFlags
}

func (a *App) declareBulk(c *cobra.Command) *bulkFlags {
	f := &bulkFlags{}
	flags := c.Flags()
	flags.StringVar(&f.reason, "reason", "", "why, of cancel, cancel-pending and pause")
	flags.StringVar(&f.from, "from", "", "of rerun: run this node again, and all that depends on it")
	flags.BoolVar(&f.all, "all", false, "of rerun: run all nodes again")
	flags.IntVar(&f.priority, "priority", 0, "of priority: the new one")
	flags.StringVar(&f.signal, "signal", "", "of signal: its name")
	f.payload = declareJSON(flags, "payload", "of signal: its payload, in JSON")
	flags.BoolVar(&f.everyRun, "every-run", false, "act on every run, where no flag selects runs")
	flags.StringVar(&f.id, "id", "", "the id of the job: starting it again has no further effect")
	flags.Float64Var(&f.rate, "rate", 0, "the maximum of runs per second; 0 means no maximum")
	flags.IntVar(&f.most, "most", 0, "the maximum of runs; 0 means all")
	f.query = declareQuery(flags)
	a.completeFlag(c, "flow", "FLOW")
	return f
}

// actions are the names of actions.
var actions = []string{"cancel", "cancel-pending", "rerun", "purge", "pause", "resume", "priority", "signal"}

// action returns the action of the job, by its name.
func (f *bulkFlags) action(name string, payload json.RawMessage) (fabrictype.BulkAction, error) {
	switch name {
	case "cancel":
		return fabrictype.BulkAction{Kind: fabrictype.BulkCancel, Reason: f.reason}, nil
	case "cancel-pending":
		return fabrictype.BulkAction{Kind: fabrictype.BulkCancelPending, Reason: f.reason}, nil
	case "rerun":
		switch {
		case f.all && f.from != "":
			return fabrictype.BulkAction{}, errors.New("--all and --from exclude each other")
		case f.all:
			return fabrictype.BulkAction{Kind: fabrictype.BulkRerun, Scope: fabrictype.RerunAll}, nil
		case f.from != "":
			return fabrictype.BulkAction{Kind: fabrictype.BulkRerun, Scope: fabrictype.RerunFrom(f.from)}, nil
		}
		return fabrictype.BulkAction{Kind: fabrictype.BulkRerun, Scope: fabrictype.RerunFailed}, nil
	case "purge":
		return fabrictype.BulkAction{Kind: fabrictype.BulkPurge}, nil
	case "pause":
		return fabrictype.BulkAction{Kind: fabrictype.BulkPause, Reason: f.reason}, nil
	case "resume":
		return fabrictype.BulkAction{Kind: fabrictype.BulkResume}, nil
	case "priority":
		return fabrictype.BulkAction{Kind: fabrictype.BulkPriority, Priority: f.priority}, nil
	case "signal":
		return fabrictype.BulkAction{Kind: fabrictype.BulkSignal, Signal: f.signal, Payload: payload}, nil
	}
	return fabrictype.BulkAction{}, fmt.Errorf("ACTION %q: must be %s", name, strings.Join(actions, ", "))
}

func (f *bulkFlags) check(a *App, args []string) error {
	_, err := f.action(args[0], nil)
	if len(f.query.query(a.Now()).Values()) == 0 && !f.everyRun {
		err = errors.Join(err, errors.New("no flag selects runs: give --every-run to act on every run"))
	}
	return errors.Join(err, f.query.check(a.Now()), f.payload.check("payload"), notNegative("rate", f.rate),
		notNegative("most", f.most))
}

func (f *bulkFlags) input(r *request) (in httpapi.BulkInput, err error) {
	payload, err := f.payload.read(r, "payload")
	if err != nil {
		return in, err
	}
	b := &in.Body
	b.Query, b.EveryRun = f.query.query(r.Now()).Values().Encode(), f.everyRun
	b.ID, b.Rate, b.Most = f.id, f.rate, f.most
	b.Action, err = f.action(r.args[0], payload)
	return in, err
}

var jobView = output.View[fabrictype.BulkJob]{
	Name: func(j fabrictype.BulkJob) string { return j.ID },
	Columns: []output.Column[fabrictype.BulkJob]{
		{Name: "id", Text: func(j fabrictype.BulkJob) string { return j.ID }},
		{Name: "state", Text: func(j fabrictype.BulkJob) string { return string(j.State) }},
		{Name: "action", Text: func(j fabrictype.BulkJob) string { return actionText(j.Action) }},
		{Name: "query", Text: func(j fabrictype.BulkJob) string { return j.Query }},
		{Name: "actor", Wide: true, Text: func(j fabrictype.BulkJob) string { return j.Actor }},
		{Name: "created", Text: func(j fabrictype.BulkJob) string { return output.At(j.CreatedAt) }},
		{Name: "closed", Text: func(j fabrictype.BulkJob) string { return output.At(j.ClosedAt) }},
		{Name: "done", Text: func(j fabrictype.BulkJob) string { return strconv.Itoa(j.Progress.Done) }},
		{Name: "skipped", Text: func(j fabrictype.BulkJob) string { return strconv.Itoa(j.Progress.Skipped) }},
		{Name: "failed", Text: func(j fabrictype.BulkJob) string { return strconv.Itoa(j.Progress.Failed) }},
	},
}

// actionText shows an action in a cell.
func actionText(a fabrictype.BulkAction) string {
	parts := []string{string(a.Kind), string(a.Scope), a.Signal}
	if a.Kind == fabrictype.BulkPriority {
		parts = append(parts, strconv.Itoa(a.Priority))
	}
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

func (a *App) bulkStart() *cobra.Command {
	var f *bulkFlags
	c := a.command(spec{
		use: "start ACTION", short: "Begin a job that acts on all runs that the flags select",
		long: "Begins a job that acts on all runs that the flags select: " + strings.Join(actions, ", ") +
			". Keepers run it. --dry-run previews it.",
		example: "  flowfabric bulk start rerun --flow orders --state failed --since 24h --yes",
		calls:   []httpapi.Entry{httpapi.StartBulkJob, httpapi.PreviewBulkJob},
		check:   func(args []string) error { return f.check(a, args) },
		do: func(r *request) error {
			in, err := f.input(r)
			if err != nil {
				return err
			}
			if r.flags.dryRun {
				return preview(r, in)
			}
			what := "start the job: " + actionText(in.Body.Action) + " of the runs with " + in.Body.Query
			if err := r.confirm(what); err != nil {
				return err
			}
			j, err := call(r, httpapi.StartBulkJob, in)
			return printJob(r, j, err)
		},
	})
	f = a.declareBulk(c)
	c.ValidArgsFunction = cobra.FixedCompletions(actions, cobra.ShellCompDirectiveNoFileComp)
	return c
}

func printJob(r *request, j *fabrictype.BulkJob, err error) error {
	if err != nil {
		return err
	}
	if !r.out.ForPeople() {
		return r.out.Value(j, j.ID, "")
	}
	if err := output.List(r.out, jobView, []fabrictype.BulkJob{*j}); err != nil {
		return err
	}
	for _, failure := range j.Progress.Failures {
		r.out.Say("failed: %s %s: %s", failure.Flow, failure.Run, failure.Error)
	}
	return nil
}

func (a *App) bulkPreview() *cobra.Command {
	var f *bulkFlags
	c := a.command(spec{
		use: "preview ACTION", short: "Count the runs that a job would handle; changes nothing",
		calls: []httpapi.Entry{httpapi.PreviewBulkJob},
		check: func(args []string) error { return f.check(a, args) },
		do: func(r *request) error {
			in, err := f.input(r)
			if err != nil {
				return err
			}
			return preview(r, in)
		},
	})
	f = a.declareBulk(c)
	c.ValidArgsFunction = cobra.FixedCompletions(actions, cobra.ShellCompDirectiveNoFileComp)
	return c
}

var sampleView = output.View[fabrictype.Run]{
	Name: func(r fabrictype.Run) string { return path(httpapi.RunName{Flow: r.Flow, Run: r.Run}) },
	Columns: []output.Column[fabrictype.Run]{
		{Name: "flow", Text: func(r fabrictype.Run) string { return r.Flow }},
		{Name: "run", Text: func(r fabrictype.Run) string { return r.Run }},
		{Name: "state", Text: func(r fabrictype.Run) string { return string(r.State) }},
		{Name: "created", Text: func(r fabrictype.Run) string { return output.At(r.CreatedAt) }},
	},
}

func preview(r *request, in httpapi.BulkInput) error {
	p, err := call(r, httpapi.PreviewBulkJob, in)
	if err != nil {
		return err
	}
	if r.out.Names() {
		return output.List(r.out, sampleView, p.Sample)
	}
	if !r.out.ForPeople() {
		return r.out.Value(p, "", "")
	}
	more := ""
	if p.More {
		more = "at least "
	}
	r.out.Say("%s%s %s, among them:", more, counted(p.Runs, "run", "runs"), compact(p.States))
	return output.List(r.out, sampleView, p.Sample)
}

func (a *App) bulkShow() *cobra.Command {
	return a.command(spec{
		use: "show JOB", short: "Show a job with its progress", calls: []httpapi.Entry{httpapi.GetBulkJob},
		columns: jobView.ColumnNames(),
		do: func(r *request) error {
			j, err := call(r, httpapi.GetBulkJob, httpapi.BulkJobInput{Job: r.args[0]})
			return printJob(r, j, err)
		},
	})
}

func (a *App) bulkList() *cobra.Command {
	return a.command(spec{
		use: "list", short: "Show the jobs", calls: []httpapi.Entry{httpapi.ListBulkJobs}, columns: jobView.ColumnNames(),
		do: func(r *request) error {
			jobs, err := call(r, httpapi.ListBulkJobs, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.out, jobView, jobs.Items)
		},
	})
}

func (a *App) bulkStop() *cobra.Command {
	return a.command(spec{
		use: "stop JOB", short: "Stop a job", calls: []httpapi.Entry{httpapi.StopBulkJob, httpapi.GetBulkJob},
		do: func(r *request) error {
			in := httpapi.BulkJobInput{Job: r.args[0]}
			if _, err := call(r, httpapi.StopBulkJob, in); err != nil {
				return err
			}
			j, err := call(r, httpapi.GetBulkJob, in)
			if err != nil {
				return err
			}
			what := string(j.State)
			if j.State == fabrictype.BulkCompleted {
				what = "completed before, nothing was stopped"
			}
			return r.done(what, r.args[0], nil)
		},
	})
}
