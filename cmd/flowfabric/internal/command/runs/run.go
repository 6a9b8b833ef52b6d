package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func Run(a *shell.App) *cobra.Command {
	return a.Group("run", "Find, follow and change runs",
		runList(a), runCount(a), runShow(a), runGraph(a), runWhy(a), runWatch(a), runWait(a), runResult(a),
		runEvents(a), runLogs(a), runStream(a), runItems(a), runTurns(a), runDiff(a), runExport(a),
		runCancel(a), runRerun(a), runFork(a), runPause(a), runResume(a), runPriority(a), runMove(a),
		runPurge(a))
}

// lookRun returns an error if the run does not exist.
func lookRun(r *shell.Request) error {
	in := httpapi.GetRunInput{RunName: r.RunName(), GetRunInput: api.GetRunInput{Nodes: 1}}
	_, err := shell.Call(r, httpapi.GetRun, in)
	return err
}

// runView shows runs at a time, with the errors of those that failed.
func runView(now time.Time, errors map[httpapi.RunName]string) output.View[fabrictype.Run] {
	name := func(r fabrictype.Run) httpapi.RunName { return httpapi.RunName{Flow: r.Flow, Run: r.Run} }
	return output.View[fabrictype.Run]{
		Name: func(r fabrictype.Run) string { return wording.Path(name(r)) },
		Columns: []output.Column[fabrictype.Run]{
			{Name: "flow", Text: func(r fabrictype.Run) string { return r.Flow }},
			{Name: "run", Text: func(r fabrictype.Run) string { return r.Run }},
			{Name: "state", Text: stateText},
			{Name: "created", Text: func(r fabrictype.Run) string { return output.At(r.CreatedAt) }},
			{Name: "took", Text: func(r fabrictype.Run) string { return wording.Took(r.BeganAt, r.ClosedAt, now) }},
			{Name: "began", Wide: true, Text: func(r fabrictype.Run) string { return output.At(r.BeganAt) }},
			{Name: "ended", Wide: true, Text: func(r fabrictype.Run) string { return output.At(r.ClosedAt) }},
			{Name: "starts", Wide: true, Text: func(r fabrictype.Run) string { return output.At(r.StartsAt) }},
			{Name: "open", Text: func(r fabrictype.Run) string { return fmt.Sprintf("%d/%d", r.Nodes.Open, r.Nodes.All) }},
			{Name: "failed", Text: func(r fabrictype.Run) string { return r.FailedNode }},
			{Name: "error", Wide: len(errors) == 0, Text: func(r fabrictype.Run) string { return errors[name(r)] }},
			{Name: "key", Wide: true, Text: func(r fabrictype.Run) string { return r.Key }},
			{Name: "tags", Text: func(r fabrictype.Run) string { return output.Tags(r.Tags) }},
		},
	}
}

// errorsOf returns the errors of the failed ones among runs, for a table.
func errorsOf(r *shell.Request, runs []fabrictype.Run) (map[httpapi.RunName]string, error) {
	if !r.Out.ForPeople() {
		return nil, nil
	}
	failed := slices.DeleteFunc(slices.Clone(runs), func(run fabrictype.Run) bool { return run.FailedNode == "" })
	found, err := explained(r, failed)
	if httpclient.Code(err) == "not_in_contract" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	most := 60
	if r.Out.Wide() {
		most = 1000
	}
	texts := make(map[httpapi.RunName]string, len(found))
	for _, run := range found {
		texts[httpapi.RunName{Flow: run.Flow, Run: run.Run}] = wording.FirstLine(run.Message, most)
	}
	return texts, nil
}

func stateText(r fabrictype.Run) string {
	state := r.State
	if !r.PausedAt.IsZero() {
		state += ", paused"
	}
	if r.Queued {
		state += ", queued"
	}
	return string(state)
}

func runList(a *shell.App) *cobra.Command {
	var q *cliflag.Query
	var limit *cliflag.Limit
	var why bool
	c := a.Command(shell.Spec{
		Use: "list", Short: "Find runs, the newest first", Calls: []httpapi.Entry{httpapi.ListRuns, httpapi.ExplainRuns, httpapi.CompleteSearch},
		Example: "  flowfabric run list --flow orders --state failed --since 24h\n" +
			"  flowfabric run list --state failed -o name | xargs -n1 flowfabric run rerun",
		Columns: runView(time.Time{}, nil).ColumnNames(),
		Check: func([]string) error {
			return errors.Join(limit.Check(), q.Check(a.Now()))
		},
		Do: func(r *shell.Request) error {
			query := q.Query().Values()
			page := func(p api.Paging) httpapi.ListRunsInput {
				return httpapi.ListRunsInput{Paging: p, Query: query}
			}
			runs, more, err := shell.Pages(r, httpapi.ListRuns, limit.Most(r), page)
			if err != nil {
				return err
			}
			if why {
				err = explain(r, runs)
			} else {
				err = listRuns(r, runs)
			}
			r.SayMore(more)
			return err
		},
	})
	q = cliflag.DeclareQuery(c)
	a.CompleteFlag(c, "flow", "FLOW")
	a.CompleteFlag(c, "search", "SEARCH")
	limit = cliflag.DeclareLimit(c, 50)
	c.Flags().BoolVar(&why, "why", false, "show which node of each run needs attention most, and why")
	return c
}

// listRuns prints runs.
func listRuns(r *shell.Request, runs []fabrictype.Run) error {
	errors, err := errorsOf(r, runs)
	if err != nil {
		return err
	}
	return output.List(r.Out, runView(r.Now(), errors), runs)
}

var nowView = output.View[api.RunNow]{
	Name: func(n api.RunNow) string { return wording.Path(httpapi.RunName{Flow: n.Flow, Run: n.Run}) },
	Columns: []output.Column[api.RunNow]{
		{Name: "flow", Text: func(n api.RunNow) string { return n.Flow }},
		{Name: "run", Text: func(n api.RunNow) string { return n.Run }},
		{Name: "state", Text: func(n api.RunNow) string { return n.State }},
		{Name: "node", Text: func(n api.RunNow) string { return n.Node }},
		{Name: "why", Text: nowText},
		{Name: "remedy", Text: func(n api.RunNow) string {
			if n.Waiting == nil {
				return ""
			}
			return n.Waiting.Remedy
		}},
	},
}

// nowText returns the reason why the node waits, or the message of its progress.
func nowText(n api.RunNow) string {
	if n.Waiting == nil {
		return n.Message
	}
	return n.Waiting.Sentence
}

// explain prints the nodes of runs that run or wait at present.
func explain(r *shell.Request, runs []fabrictype.Run) error {
	all, err := explained(r, runs)
	if err != nil {
		return err
	}
	return output.List(r.Out, nowView, all)
}

// explained returns which nodes of runs run, wait or have failed at present.
func explained(r *shell.Request, runs []fabrictype.Run) ([]api.RunNow, error) {
	const most = 100 // of one request
	var all []api.RunNow
	for part := range slices.Chunk(runs, most) {
		in := httpapi.ExplainRunsInput{}
		for _, run := range part {
			in.Body.Runs = append(in.Body.Runs, api.RunNamed{Flow: run.Flow, Run: run.Run})
		}
		page, err := shell.Call(r, httpapi.ExplainRuns, in)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
	}
	return all, nil
}

// countView shows counts, by hours or for the whole time, of runs or of their ends.
func countView(hours, ends bool) output.View[fabrictype.RunCount] {
	return output.View[fabrictype.RunCount]{
		Name: func(n fabrictype.RunCount) string { return n.Flow },
		Columns: []output.Column[fabrictype.RunCount]{
			{Name: "hour", Wide: !hours, Text: func(n fabrictype.RunCount) string { return output.At(n.Hour) }},
			{Name: "flow", Text: func(n fabrictype.RunCount) string { return n.Flow }},
			{Name: "state", Text: func(n fabrictype.RunCount) string { return string(n.State) }},
			{Name: "runs", Wide: ends, Text: func(n fabrictype.RunCount) string { return strconv.Itoa(n.Runs) }},
			{Name: "ends", Wide: !ends, Text: func(n fabrictype.RunCount) string { return strconv.Itoa(n.Ends) }},
		},
	}
}

func runCount(a *shell.App) *cobra.Command {
	var q *cliflag.Query
	var hours int
	c := a.Command(shell.Spec{
		Use: "count", Short: "Count runs, or their ends, by flow and state", Calls: []httpapi.Entry{httpapi.CountRuns},
		Columns: countView(true, true).ColumnNames(),
		Check: func([]string) error {
			return errors.Join(shell.NotNegative("hours", hours), q.Check(a.Now()))
		},
		Do: func(r *shell.Request) error {
			query, by := q.Query(), []string{"flow", "state"}
			if hours > 0 {
				query.FinishedFrom = r.Now().Truncate(time.Hour).Add(-time.Duration(hours-1) * time.Hour)
				by = append(by, "hour")
			}
			counts, err := shell.Call(r, httpapi.CountRuns, httpapi.CountRunsInput{By: by, Query: query.Values()})
			if err != nil {
				return err
			}
			ends := hours > 0 || slices.ContainsFunc(counts.Items, func(n fabrictype.RunCount) bool { return n.Ends > 0 })
			return output.List(r.Out, countView(hours > 0, ends), counts.Items)
		},
	})
	q = cliflag.DeclareQuery(c)
	a.CompleteFlag(c, "flow", "FLOW")
	c.Flags().IntVar(&hours, "hours", 0,
		"count the ends of runs in each of the last N hours, at most 192; 0 counts the present runs")
	return c
}

func Start(a *shell.App) *cobra.Command {
	tags := cliflag.Tags{}
	var input, memo *cliflag.JSON
	var at *cliflag.Time
	var id string
	var priority int
	var delay, deadline time.Duration
	var wait, each bool
	var arrival *arrivalFlags
	var signal *startSignalFlags
	c := a.Command(shell.Spec{
		Use: "start FLOW", Short: "Start a run of a published flow",
		Example: "  flowfabric start demo-order --id 4711 --input '{\"customer\":\"Ada\",\"items\":[\"book\"]}'\n" +
			"  flowfabric start report --input @input.json --wait\n" +
			"  flowfabric start import --key customer-7 --when-taken queue --input '{}'\n" +
			"  flowfabric start import --each --input @inputs.json",
		Long:  "Starts a run of a published flow and prints its id. The same id and input again is the same run.",
		Calls: []httpapi.Entry{httpapi.StartRun, httpapi.StartRuns, httpapi.GetResult},
		Check: func([]string) error {
			return errors.Join(input.Check("input"), memo.Check("memo"), at.Parse("at", a.Now()),
				shell.NotNegative("delay", delay), shell.NotNegative("deadline", deadline), arrival.check(), signal.check(),
				exclusive(each, "each", wait || signal.name != "" || id != "", "--wait, --signal and --id"))
		},
		Do: func(r *shell.Request) error {
			in := httpapi.StartRunInput{Flow: r.Args[0]}
			var err error
			if in.Body.Input, err = input.Read(r, "input"); err != nil {
				return err
			}
			if in.Body.Memo, err = memo.Read(r, "memo"); err != nil {
				return err
			}
			in.Body.ID, in.Body.Tags, in.Body.StartAt = id, tags, at.Time
			in.Body.Delay = fabrictype.Duration{Duration: delay}
			in.Body.Deadline = fabrictype.Duration{Duration: deadline}
			if r.Cmd.Flags().Changed("priority") {
				in.Body.Priority = &priority
			}
			arrival.fill(&in.Body.NewRun)
			if in.Body.Signal, err = signal.read(r); err != nil {
				return err
			}
			if each {
				return startEach(r, in.Flow, in.Body.NewRun)
			}
			run, err := shell.Call(r, httpapi.StartRun, in)
			if err != nil {
				return err
			}
			name := httpapi.RunName{Flow: run.Flow, Run: run.Run}
			if wait {
				return printResult(r, name, true)
			}
			return r.Out.Value(run, wording.Path(name), run.Run)
		},
	})
	flags := c.Flags()
	input, memo = cliflag.DeclareJSON(flags, "input", "the input"), cliflag.DeclareJSON(flags, "memo", "a note for people")
	at = cliflag.DeclareTime(flags, "at", "when the run begins")
	flags.StringVar(&id, "id", "", "the id of the run; a random one by default")
	flags.IntVar(&priority, "priority", 0, "the priority of its nodes")
	cliflag.DeclareDuration(flags, &delay, "delay", 0, "begin after this time")
	cliflag.DeclareDuration(flags, &deadline, "deadline", 0, "the maximum time from start to end, instead of the flow's")
	flags.BoolVar(&wait, "wait", false, "wait for the end, and print the result")
	flags.BoolVar(&each, "each", false, "the input is a list: start a run for each of its elements")
	flags.Var(tags, "tag", "a tag of the run; may be given several times")
	arrival, signal = declareArrival(flags), declareStartSignal(flags)
	return c
}

// exclusive returns an error for a flag that does not go with others that are set.
func exclusive(set bool, flag string, others bool, names string) error {
	if set && others {
		return fmt.Errorf("--%s: it does not go with %s", flag, names)
	}
	return nil
}

// startsAtATime is how many runs one call starts.
const startsAtATime = 1000

// startEach starts a run for each element of a list of inputs. It fails if one of them was not started.
func startEach(r *shell.Request, flow string, like api.NewRun) error {
	var inputs []json.RawMessage
	if err := json.Unmarshal(like.Input, &inputs); err != nil {
		return shell.Usage("--input: must be a list with --each")
	}
	var outcomes []api.StartOutcome
	for page := range slices.Chunk(inputs, startsAtATime) {
		in := httpapi.StartRunsInput{Flow: flow}
		for _, input := range page {
			run := like
			run.Input = input
			in.Body.Runs = append(in.Body.Runs, run)
		}
		started, err := shell.Call(r, httpapi.StartRuns, in)
		if err != nil {
			return err
		}
		outcomes = append(outcomes, started.Runs...)
	}
	if err := output.List(r.Out, outcomeView, outcomes); err != nil {
		return err
	}
	failed := 0
	for _, o := range outcomes {
		if o.Problem != nil {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d runs were not started", failed, len(outcomes))
	}
	return nil
}

var outcomeView = output.View[api.StartOutcome]{
	Name: func(o api.StartOutcome) string { return wording.Path(httpapi.RunName{Flow: o.Flow, Run: o.Run}) },
	Columns: []output.Column[api.StartOutcome]{
		{Name: "run", Text: func(o api.StartOutcome) string { return o.Run }},
		{Name: "existed", Text: func(o api.StartOutcome) string { return strconv.FormatBool(o.Existed) }},
		{Name: "problem", Text: func(o api.StartOutcome) string {
			if o.Problem == nil {
				return ""
			}
			return o.Problem.Error()
		}},
	},
}

// resultWait is how long one request waits for the end of a run.
const resultWait = 30 * time.Second

// resultView is a result as JSON.
type resultView struct {
	Flow   string            `json:"flow"`
	Run    string            `json:"run"`
	State  string            `json:"state"`
	Result json.RawMessage   `json:"result,omitempty"`
	Value  *fabrictype.Value `json:"value,omitempty"`
}

// printResult prints the result of a run, or fails if the run did. It waits for the end if it may.
func printResult(r *shell.Request, name httpapi.RunName, wait bool) error {
	in := httpapi.GetResultInput{RunName: name}
	if wait {
		in.Wait = fabrictype.Duration{Duration: resultWait}
	}
	for {
		result, err := shell.Call(r, httpapi.GetResult, in)
		if err != nil {
			return err
		}
		switch result.State {
		case "running":
			if !wait {
				return fmt.Errorf("%s is running: give --wait to wait for its end", wording.Run(name))
			}
		case "succeeded":
			v := resultView{Flow: name.Flow, Run: name.Run, State: result.State}
			text := ""
			if result.Value != nil {
				v.Result, text = result.Value.JSON, valueText(result.Value)
				if result.Value.JSON == nil {
					v.Value = result.Value
				}
			}
			return r.Out.Value(v, wording.Path(name), text)
		default:
			return notSuccessful(name, result.State, result.FailedNode, result.Reason)
		}
	}
}

func notSuccessful(name httpapi.RunName, state, node, reason string) error {
	text := fmt.Sprintf("%s: %s", wording.Run(name), state)
	if node != "" {
		text += " at node " + node
	}
	if reason != "" {
		text += ": " + reason
	}
	return fmt.Errorf("%w: %s", shell.ErrRunFailed, text)
}

// valueText shows a value.
func valueText(v *fabrictype.Value) string {
	switch {
	case v.JSON != nil:
		return string(v.JSON)
	case v.Truncated:
		return fmt.Sprintf("%d bytes (%s), which begin with %q", v.Size, v.Codec, v.Text+string(v.Data))
	default:
		return fmt.Sprintf("%d bytes (%s): %q", v.Size, v.Codec, v.Text+string(v.Data))
	}
}

func runResult(a *shell.App) *cobra.Command {
	var wait bool
	c := a.Command(shell.Spec{
		Use: "result FLOW RUN", Short: "Print the result of a run", Calls: []httpapi.Entry{httpapi.GetResult},
		Do: func(r *shell.Request) error { return printResult(r, r.RunName(), wait) },
	})
	c.Flags().BoolVar(&wait, "wait", false, "wait for the end")
	return c
}

func runExport(a *shell.App) *cobra.Command {
	var file string
	c := a.Command(shell.Spec{
		Use: "export FLOW RUN", Short: "Write a run with its values as lines of JSON",
		Long: "Writes a run with its inputs and results as lines of JSON, which package runcheck reads: a test can " +
			"check that a new version of a program could carry it on. Keep the file as the values in it deserve.",
		Calls: []httpapi.Entry{httpapi.ExportRun},
		Do: func(r *shell.Request) error {
			run, err := shell.Call(r, httpapi.ExportRun, httpapi.RunInput{RunName: r.RunName()})
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, line := range run.Lines {
				text.Write(line)
				text.WriteByte('\n')
			}
			if file != "" {
				return os.WriteFile(file, []byte(text.String()), 0o600)
			}
			_, err = fmt.Fprint(r.Cmd.OutOrStdout(), text.String())
			return err
		},
	})
	c.Flags().StringVarP(&file, "file", "f", "", "the `file` to write; the standard output by default")
	return c
}
