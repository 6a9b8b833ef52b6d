package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func Bulk(a *shell.App) *cobra.Command {
	return a.Group("bulk", "Act on all runs that a query selects",
		bulkStart(a), bulkPreview(a), bulkShow(a), bulkList(a), bulkStop(a))
}

// bulkFlags are the flags of jobs and their actions.
type bulkFlags struct {
	reason, from, signal string
	payload              *cliflag.JSON
	all, everyRun        bool
	priority             int
	id                   string
	rate                 float64
	most                 int
	query                *cliflag.Query
}

func declareBulk(a *shell.App, c *cobra.Command) *bulkFlags {
	f := &bulkFlags{}
	flags := c.Flags()
	flags.StringVar(&f.reason, "reason", "", "why, of cancel, cancel-pending and pause")
	flags.StringVar(&f.from, "from", "", "of rerun: run this node again, and all that depends on it")
	flags.BoolVar(&f.all, "all", false, "of rerun: run all nodes again")
	flags.IntVar(&f.priority, "priority", 0, "of priority: the new one")
	flags.StringVar(&f.signal, "signal", "", "of signal: its name")
	f.payload = cliflag.DeclareJSON(flags, "payload", "of signal: its payload, in JSON")
	flags.BoolVar(&f.everyRun, "every-run", false, "act on every run, where no flag selects runs")
	flags.StringVar(&f.id, "id", "", "the id of the job: starting it again has no further effect")
	flags.Float64Var(&f.rate, "rate", 0, "the maximum of runs per second; 0 means no maximum")
	flags.IntVar(&f.most, "most", 0, "the maximum of runs; 0 means all")
	f.query = cliflag.DeclareQuery(c)
	a.CompleteFlag(c, "flow", "FLOW")
	a.CompleteFlag(c, "search", "SEARCH")
	return f
}

// Actions are the names of actions.
var Actions = []string{"cancel", "cancel-pending", "rerun", "purge", "pause", "resume", "priority", "signal"}

// action returns the action of the job, by its name.
func (f *bulkFlags) action(name string, payload json.RawMessage) (fabrictype.BulkAction, error) {
	switch name {
	case "cancel":
		return fabrictype.BulkAction{Kind: "cancel", Reason: f.reason}, nil
	case "cancel-pending":
		return fabrictype.BulkAction{Kind: "cancel_pending", Reason: f.reason}, nil
	case "rerun":
		switch {
		case f.all && f.from != "":
			return fabrictype.BulkAction{}, errors.New("--all and --from exclude each other")
		case f.all:
			return fabrictype.BulkAction{Kind: "rerun", Scope: fabrictype.RerunAll}, nil
		case f.from != "":
			return fabrictype.BulkAction{Kind: "rerun", Scope: fabrictype.RerunFrom(f.from)}, nil
		}
		return fabrictype.BulkAction{Kind: "rerun", Scope: fabrictype.RerunFailed}, nil
	case "purge":
		return fabrictype.BulkAction{Kind: "purge"}, nil
	case "pause":
		return fabrictype.BulkAction{Kind: "pause", Reason: f.reason}, nil
	case "resume":
		return fabrictype.BulkAction{Kind: "resume"}, nil
	case "priority":
		return fabrictype.BulkAction{Kind: "priority", Priority: f.priority}, nil
	case "signal":
		return fabrictype.BulkAction{Kind: "signal", Signal: f.signal, Payload: payload}, nil
	}
	return fabrictype.BulkAction{}, fmt.Errorf("ACTION %q: must be %s", name, strings.Join(Actions, ", "))
}

func (f *bulkFlags) check(a *shell.App, args []string) error {
	_, err := f.action(args[0], nil)
	err = errors.Join(err, f.query.Check(a.Now()))
	if len(f.query.Query().Values()) == 0 && !f.everyRun {
		err = errors.Join(err, errors.New("no flag selects runs: give --every-run to act on every run"))
	}
	return errors.Join(err, f.payload.Check("payload"), shell.NotNegative("rate", f.rate),
		shell.NotNegative("most", f.most))
}

func (f *bulkFlags) input(r *shell.Request) (in httpapi.BulkInput, err error) {
	payload, err := f.payload.Read(r, "payload")
	if err != nil {
		return in, err
	}
	b := &in.Body
	b.Query, b.EveryRun = f.query.Query().Values().Encode(), f.everyRun
	b.ID, b.Rate, b.Most = f.id, f.rate, f.most
	b.Action, err = f.action(r.Args[0], payload)
	return in, err
}

var jobView = output.View[fabrictype.BulkJob]{
	Name: func(j fabrictype.BulkJob) string { return j.ID },
	Columns: []output.Column[fabrictype.BulkJob]{
		{Name: "id", Text: func(j fabrictype.BulkJob) string { return j.ID }},
		{Name: "state", Text: func(j fabrictype.BulkJob) string { return string(j.State) }},
		{Name: "action", Text: func(j fabrictype.BulkJob) string { return actionText(j.Action) }},
		{Name: "runs", Text: func(j fabrictype.BulkJob) string {
			return cmp.Or(strings.TrimSpace(selected(j.Query)), "all")
		}},
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
	parts := []string{a.Kind, string(a.Scope), a.Signal}
	if a.Kind == "priority" {
		parts = append(parts, strconv.Itoa(a.Priority))
	}
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

func bulkStart(a *shell.App) *cobra.Command {
	var f *bulkFlags
	c := a.Command(shell.Spec{
		Use: "start ACTION", Short: "Begin a job that acts on all runs that the flags select",
		Long: "Begins a job that acts on all runs that the flags select: " + strings.Join(Actions, ", ") +
			". Keepers run it. --dry-run previews it.",
		Example: "  flowfabric bulk start rerun --flow orders --state failed --since 24h --yes",
		Calls:   []httpapi.Entry{httpapi.StartBulkJob, httpapi.PreviewBulkJob},
		Check:   func(args []string) error { return f.check(a, args) },
		Do: func(r *shell.Request) error {
			in, err := f.input(r)
			if err != nil {
				return err
			}
			if r.Flags.DryRun {
				return preview(r, in)
			}
			what := "start the job: " + actionText(in.Body.Action) + " all runs" + selected(in.Body.Query)
			if err := r.Confirm(what); err != nil {
				return err
			}
			j, err := shell.Call(r, httpapi.StartBulkJob, in)
			return printJob(r, j, err)
		},
	})
	f = declareBulk(a, c)
	c.ValidArgsFunction = cobra.FixedCompletions(Actions, cobra.ShellCompDirectiveNoFileComp)
	return c
}

func printJob(r *shell.Request, j *fabrictype.BulkJob, err error) error {
	if err != nil {
		return err
	}
	if !r.Out.ForPeople() {
		return r.Out.Value(j, j.ID, "")
	}
	if err := output.List(r.Out, jobView, []fabrictype.BulkJob{*j}); err != nil {
		return err
	}
	for _, failure := range j.Progress.Failures {
		r.Out.Say("failed: %s %s: %s", failure.Flow, failure.Run, failure.Error)
	}
	return nil
}

func bulkPreview(a *shell.App) *cobra.Command {
	var f *bulkFlags
	c := a.Command(shell.Spec{
		Use: "preview ACTION", Short: "Count the runs that a job would handle; changes nothing",
		Calls: []httpapi.Entry{httpapi.PreviewBulkJob},
		Check: func(args []string) error { return f.check(a, args) },
		Do: func(r *shell.Request) error {
			in, err := f.input(r)
			if err != nil {
				return err
			}
			return preview(r, in)
		},
	})
	f = declareBulk(a, c)
	c.ValidArgsFunction = cobra.FixedCompletions(Actions, cobra.ShellCompDirectiveNoFileComp)
	return c
}

var sampleView = output.View[fabrictype.Run]{
	Name: func(r fabrictype.Run) string { return wording.Path(httpapi.RunName{Flow: r.Flow, Run: r.Run}) },
	Columns: []output.Column[fabrictype.Run]{
		{Name: "flow", Text: func(r fabrictype.Run) string { return r.Flow }},
		{Name: "run", Text: func(r fabrictype.Run) string { return r.Run }},
		{Name: "state", Text: func(r fabrictype.Run) string { return string(r.State) }},
		{Name: "created", Text: func(r fabrictype.Run) string { return output.At(r.CreatedAt) }},
	},
}

func preview(r *shell.Request, in httpapi.BulkInput) error {
	p, err := shell.Call(r, httpapi.PreviewBulkJob, in)
	if err != nil {
		return err
	}
	if r.Out.Names() {
		return output.List(r.Out, sampleView, p.Sample)
	}
	if !r.Out.ForPeople() {
		return r.Out.Value(p, "", "")
	}
	r.Out.Say("%s", previewText(in, p))
	if len(p.Sample) == 0 {
		return nil
	}
	return output.List(r.Out, sampleView, p.Sample)
}

// previewText says in words how many runs a job would handle.
func previewText(in httpapi.BulkInput, p *fabrictype.BulkPreview) string {
	runs := wording.Counted(p.Runs, "run", "runs")
	switch {
	case p.Runs == 0:
		return "There are no runs" + selected(in.Body.Query) + "."
	case p.More:
		runs = "at least " + runs
	}
	var states []string
	for _, state := range slices.Sorted(maps.Keys(p.States)) {
		states = append(states, strconv.Itoa(p.States[state])+" "+string(state))
	}
	text := fmt.Sprintf("The job would %s %s%s", strings.ReplaceAll(actionText(in.Body.Action), "_", " "), runs, selected(in.Body.Query))
	if len(states) > 1 {
		text += ": " + strings.Join(states, ", ")
	}
	if len(p.Sample) < p.Runs {
		return text + ". Some of them:"
	}
	return text + ":"
}

// selected says in words which runs a query selects, to follow the word runs.
func selected(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return " with " + query
	}
	var q runtime.RunQuery
	if err := q.ReadValues(values); err != nil {
		return " with " + query
	}
	var parts []string
	add := func(set bool, format string, args ...any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(q.Flow != "", "of flow %s", q.Flow)
	add(len(q.States) > 0, "in state %s", strings.Join(wording.Names(q.States, func(s fabrictype.RunState) string {
		return string(s)
	}), " or "))
	add(!q.CreatedFrom.IsZero(), "started since %s", output.At(q.CreatedFrom))
	add(!q.CreatedBefore.IsZero(), "started before %s", output.At(q.CreatedBefore))
	add(!q.FinishedFrom.IsZero(), "ended since %s", output.At(q.FinishedFrom))
	add(!q.FinishedBefore.IsZero(), "ended before %s", output.At(q.FinishedBefore))
	for _, key := range slices.Sorted(maps.Keys(q.Tags)) {
		add(true, "with tag %s=%s", key, q.Tags[key])
	}
	add(q.Text != "", "whose id or flow has %q", q.Text)
	add(q.Key != "", "with key %q", q.Key)
	add(q.Queued, "in the queue of their key")
	add(q.Children, "with their child runs")
	if len(parts) == 0 {
		return ""
	}
	return " " + strings.Join(parts, ", ")
}

func bulkShow(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "show JOB", Short: "Show a job with its progress", Calls: []httpapi.Entry{httpapi.GetBulkJob},
		Columns: jobView.ColumnNames(),
		Do: func(r *shell.Request) error {
			j, err := shell.Call(r, httpapi.GetBulkJob, httpapi.BulkJobInput{Job: r.Args[0]})
			return printJob(r, j, err)
		},
	})
}

func bulkList(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "list", Short: "Show the jobs", Calls: []httpapi.Entry{httpapi.ListBulkJobs}, Columns: jobView.ColumnNames(),
		Do: func(r *shell.Request) error {
			jobs, err := shell.Call(r, httpapi.ListBulkJobs, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.Out, jobView, jobs.Items)
		},
	})
}

func bulkStop(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "stop JOB", Short: "Stop a job", Calls: []httpapi.Entry{httpapi.StopBulkJob, httpapi.GetBulkJob},
		Do: func(r *shell.Request) error {
			in := httpapi.BulkJobInput{Job: r.Args[0]}
			if _, err := shell.Call(r, httpapi.StopBulkJob, in); err != nil {
				return err
			}
			j, err := shell.Call(r, httpapi.GetBulkJob, in)
			if err != nil {
				return err
			}
			what := string(j.State)
			if j.State == fabrictype.BulkCompleted {
				what = "completed before, nothing was stopped"
			}
			return r.PrintDone(what, r.Args[0], nil)
		},
	})
}
