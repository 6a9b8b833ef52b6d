package command

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
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func (a *App) runCommand() *cobra.Command {
	return a.group("run", "Find, follow and change runs",
		a.runList(), a.runCount(), a.runShow(), a.runGraph(), a.runWhy(), a.runWatch(), a.runWait(), a.runResult(),
		a.runEvents(), a.runLogs(), a.runStream(), a.runItems(), a.runTurns(), a.runDiff(), a.runExport(),
		a.runCancel(), a.runRerun(), a.runFork(), a.runPause(), a.runResume(), a.runPriority(), a.runMove(),
		a.runPurge())
}

// name returns the run that the first two arguments name.
func (r *request) name() httpapi.RunName { return httpapi.RunName{Flow: r.args[0], Run: r.args[1]} }

// path is a run as one argument.
func path(n httpapi.RunName) string { return n.Flow + "/" + n.Run }

// runText is a run in the words of a sentence.
func runText(n httpapi.RunName) string { return fmt.Sprintf("run %s of flow %s", n.Run, n.Flow) }

// lookRun returns a check that a run exists.
func (r *request) lookRun() error {
	_, err := call(r, httpapi.GetRun, httpapi.GetRunInput{RunName: r.name(), GetRunInput: api.GetRunInput{Nodes: 1}})
	return err
}

var runView = output.View[fabrictype.Run]{
	Name: func(r fabrictype.Run) string { return path(httpapi.RunName{Flow: r.Flow, Run: r.Run}) },
	Columns: []output.Column[fabrictype.Run]{
		{Name: "flow", Text: func(r fabrictype.Run) string { return r.Flow }},
		{Name: "run", Text: func(r fabrictype.Run) string { return r.Run }},
		{Name: "state", Text: stateText},
		{Name: "created", Text: func(r fabrictype.Run) string { return output.At(r.CreatedAt) }},
		{Name: "ended", Text: func(r fabrictype.Run) string { return output.At(r.ClosedAt) }},
		{Name: "starts", Wide: true, Text: func(r fabrictype.Run) string { return output.At(r.StartsAt) }},
		{Name: "open", Text: func(r fabrictype.Run) string { return fmt.Sprintf("%d/%d", r.Nodes.Open, r.Nodes.All) }},
		{Name: "failed", Text: func(r fabrictype.Run) string { return r.FailedNode }},
		{Name: "key", Wide: true, Text: func(r fabrictype.Run) string { return r.Key }},
		{Name: "tags", Text: func(r fabrictype.Run) string { return output.Tags(r.Tags) }},
	},
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

func (a *App) runList() *cobra.Command {
	var q *queryFlags
	var limit *limitFlag
	var why bool
	c := a.command(spec{
		use: "list", short: "Find runs, the newest first", calls: []httpapi.Entry{httpapi.ListRuns, httpapi.ExplainRuns},
		example: "  flowfabric run list --flow orders --state failed --since 24h\n" +
			"  flowfabric run list --state failed -o name | xargs -n1 flowfabric run rerun",
		columns: runView.ColumnNames(),
		check: func([]string) error {
			return errors.Join(limit.check(), q.check(a.Now()))
		},
		do: func(r *request) error {
			query := q.query(r.Now()).Values()
			runs, more, err := pages(r, httpapi.ListRuns, limit.most(r), func(p api.Paging) httpapi.ListRunsInput {
				return httpapi.ListRunsInput{Paging: p, Query: query}
			})
			if err != nil {
				return err
			}
			if why {
				err = explain(r, runs)
			} else {
				err = output.List(r.out, runView, runs)
			}
			r.sayMore(more)
			return err
		},
	})
	q = declareQuery(c.Flags())
	a.completeFlag(c, "flow", "FLOW")
	limit = declareLimit(c, 50)
	c.Flags().BoolVar(&why, "why", false, "show which node of each run needs attention most, and why")
	return c
}

var nowView = output.View[api.RunNow]{
	Name: func(n api.RunNow) string { return path(httpapi.RunName{Flow: n.Flow, Run: n.Run}) },
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
func explain(r *request, runs []fabrictype.Run) error {
	const most = 100 // of one request
	var all []api.RunNow
	for part := range slices.Chunk(runs, most) {
		in := httpapi.ExplainRunsInput{}
		for _, run := range part {
			in.Body.Runs = append(in.Body.Runs, api.RunNamed{Flow: run.Flow, Run: run.Run})
		}
		page, err := call(r, httpapi.ExplainRuns, in)
		if err != nil {
			return err
		}
		all = append(all, page.Items...)
	}
	return output.List(r.out, nowView, all)
}

var countView = output.View[fabrictype.RunCount]{
	Name: func(n fabrictype.RunCount) string { return n.Flow },
	Columns: []output.Column[fabrictype.RunCount]{
		{Name: "hour", Text: func(n fabrictype.RunCount) string { return output.At(n.Hour) }},
		{Name: "flow", Text: func(n fabrictype.RunCount) string { return n.Flow }},
		{Name: "state", Text: func(n fabrictype.RunCount) string { return string(n.State) }},
		{Name: "runs", Text: func(n fabrictype.RunCount) string { return strconv.Itoa(n.Runs) }},
	},
}

func (a *App) runCount() *cobra.Command {
	var q *queryFlags
	var hours int
	c := a.command(spec{
		use: "count", short: "Count runs by flow and state", calls: []httpapi.Entry{httpapi.CountRuns},
		columns: countView.ColumnNames(),
		check: func([]string) error {
			return errors.Join(notNegative("hours", hours), q.check(a.Now()))
		},
		do: func(r *request) error {
			query, by := q.query(r.Now()), []string{"flow", "state"}
			if hours > 0 {
				query.FinishedFrom = r.Now().Truncate(time.Hour).Add(-time.Duration(hours-1) * time.Hour)
				by = append(by, "hour")
			}
			counts, err := call(r, httpapi.CountRuns, httpapi.CountRunsInput{By: by, Query: query.Values()})
			if err != nil {
				return err
			}
			return output.List(r.out, countView, counts.Items)
		},
	})
	q = declareQuery(c.Flags())
	a.completeFlag(c, "flow", "FLOW")
	c.Flags().IntVar(&hours, "hours", 0,
		"count the runs that ended in each of the last N hours, at most 192; 0 counts the present runs")
	return c
}

func (a *App) startCommand() *cobra.Command {
	tags := tagFlag{}
	var input, memo *jsonFlag
	var at *timeFlag
	var id string
	var priority int
	var delay, deadline time.Duration
	var wait, each bool
	var arrival *arrivalFlags
	var signal *startSignalFlags
	c := a.command(spec{
		use: "start FLOW", short: "Start a run of a published flow",
		example: "  flowfabric start demo-order --id 4711 --input '{\"customer\":\"Ada\",\"items\":[\"book\"]}'\n" +
			"  flowfabric start report --input @input.json --wait\n" +
			"  flowfabric start import --key customer-7 --when-taken queue --input '{}'\n" +
			"  flowfabric start import --each --input @inputs.json",
		long:  "Starts a run of a published flow and prints its id. The same id and input again is the same run.",
		calls: []httpapi.Entry{httpapi.StartRun, httpapi.StartRuns, httpapi.GetResult},
		check: func([]string) error {
			return errors.Join(input.check("input"), memo.check("memo"), at.parse("at", a.Now()),
				notNegative("delay", delay), notNegative("deadline", deadline), arrival.check(), signal.check(),
				exclusive(each, "each", wait || signal.name != "" || id != "", "--wait, --signal and --id"))
		},
		do: func(r *request) error {
			in := httpapi.StartRunInput{Flow: r.args[0]}
			var err error
			if in.Body.Input, err = input.read(r, "input"); err != nil {
				return err
			}
			if in.Body.Memo, err = memo.read(r, "memo"); err != nil {
				return err
			}
			in.Body.ID, in.Body.Tags, in.Body.StartAt = id, tags, at.time
			in.Body.Delay = fabrictype.Duration{Duration: delay}
			in.Body.Deadline = fabrictype.Duration{Duration: deadline}
			if r.cmd.Flags().Changed("priority") {
				in.Body.Priority = &priority
			}
			arrival.fill(&in.Body.NewRun)
			if in.Body.Signal, err = signal.read(r); err != nil {
				return err
			}
			if each {
				return startEach(r, in.Flow, in.Body.NewRun)
			}
			run, err := call(r, httpapi.StartRun, in)
			if err != nil {
				return err
			}
			name := httpapi.RunName{Flow: run.Flow, Run: run.Run}
			if wait {
				return printResult(r, name, true)
			}
			return r.out.Value(run, path(name), run.Run)
		},
	})
	flags := c.Flags()
	input, memo = declareJSON(flags, "input", "the input"), declareJSON(flags, "memo", "a note for people")
	at = declareTime(flags, "at", "when the run begins")
	flags.StringVar(&id, "id", "", "the id of the run; a random one by default")
	flags.IntVar(&priority, "priority", 0, "the priority of its nodes")
	flags.DurationVar(&delay, "delay", 0, "begin after this time")
	flags.DurationVar(&deadline, "deadline", 0, "the maximum time from start to end, instead of the flow's")
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
func startEach(r *request, flow string, like api.NewRun) error {
	var inputs []json.RawMessage
	if err := json.Unmarshal(like.Input, &inputs); err != nil {
		return usage("--input: must be a list with --each")
	}
	var outcomes []api.StartOutcome
	for page := range slices.Chunk(inputs, startsAtATime) {
		in := httpapi.StartRunsInput{Flow: flow}
		for _, input := range page {
			run := like
			run.Input = input
			in.Body.Runs = append(in.Body.Runs, run)
		}
		started, err := call(r, httpapi.StartRuns, in)
		if err != nil {
			return err
		}
		outcomes = append(outcomes, started.Runs...)
	}
	if err := output.List(r.out, outcomeView, outcomes); err != nil {
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
	Name: func(o api.StartOutcome) string { return path(httpapi.RunName{Flow: o.Flow, Run: o.Run}) },
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
func printResult(r *request, name httpapi.RunName, wait bool) error {
	in := httpapi.GetResultInput{RunName: name}
	if wait {
		in.Wait = fabrictype.Duration{Duration: resultWait}
	}
	for {
		result, err := call(r, httpapi.GetResult, in)
		if err != nil {
			return err
		}
		switch result.State {
		case "running":
			if !wait {
				return fmt.Errorf("%s is running: give --wait to wait for its end", runText(name))
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
			return r.out.Value(v, path(name), text)
		default:
			return notSuccessful(name, result.State, result.FailedNode, result.Reason)
		}
	}
}

func notSuccessful(name httpapi.RunName, state, node, reason string) error {
	text := fmt.Sprintf("%s: %s", runText(name), state)
	if node != "" {
		text += " at node " + node
	}
	if reason != "" {
		text += ": " + reason
	}
	return fmt.Errorf("%w: %s", errRunFailed, text)
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

func (a *App) runResult() *cobra.Command {
	var wait bool
	c := a.command(spec{
		use: "result FLOW RUN", short: "Print the result of a run", calls: []httpapi.Entry{httpapi.GetResult},
		do: func(r *request) error { return printResult(r, r.name(), wait) },
	})
	c.Flags().BoolVar(&wait, "wait", false, "wait for the end")
	return c
}

func (a *App) runExport() *cobra.Command {
	var file string
	c := a.command(spec{
		use: "export FLOW RUN", short: "Write a run with its values as lines of JSON",
		long: "Writes a run with its inputs and results as lines of JSON, which package runcheck reads: a test can " +
			"check that a new version of a program could carry it on. Keep the file as the values in it deserve.",
		calls: []httpapi.Entry{httpapi.ExportRun},
		do: func(r *request) error {
			run, err := call(r, httpapi.ExportRun, httpapi.RunInput{RunName: r.name()})
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
			_, err = fmt.Fprint(r.cmd.OutOrStdout(), text.String())
			return err
		},
	})
	c.Flags().StringVarP(&file, "file", "f", "", "the `file` to write; the standard output by default")
	return c
}
