package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/describe"
	"github.com/flowfabric/flowfabric-go/runtime/why"
)

// commands are in the order of the help.
func commands() []command {
	return []command{
		{"token", "create|list|delete [NAME]", "manage the tokens of the HTTP API", prepareToken},
		{"start", "FLOW", "start a run of a published flow", prepareStart},
		{"runs", "", "find runs, the newest first", prepareRuns},
		{"counts", "", "count runs by flow and state", prepareCounts},
		{"feed", "", "follow what happens to all runs", prepareFeed},
		{"describe", "FLOW RUN", "show a run and its nodes, and why those that wait do", prepareDescribe},
		{"logs", "FLOW RUN NODE", "show what the attempts of a node logged", prepareLogs},
		{"waits", "[FLOW RUN]", "show the open waits of all runs, or of one", prepareWaits},
		{"timer", "FLOW RUN NODE", "move or end the sleep of a node", prepareTimer},
		{"turns", "FLOW RUN NODE", "show the turns of a loop", prepareTurns},
		{"cancel", "FLOW RUN", "cancel a run", prepareCancel},
		{"bulk", "start|preview|show|list|stop …", "act on all runs that a query selects", prepareBulk},
		{"rerun", "FLOW RUN", "run again what failed in a run that is over", prepareRerun},
		{"fork", "FLOW RUN", "start a run from another one, with results of it", prepareFork},
		{"diff", "FLOW RUN OTHER", "compare two runs", prepareDiff},
		{"purge", "FLOW RUN", "remove a run that is over", preparePurge},
		{"flows", "[NAME]", "show the flows that are published", prepareFlows},
		{"workers", "", "show the live workers and what they serve", prepareWorkers},
		{"drain", "INSTANCE", "let a worker take no more work", prepareDrain},
		{"lanes", "", "show what stands in each lane", prepareLanes},
		{"pauses", "", "show what is paused", preparePauses},
		{"pause", "lane|activity|run NAME…", "keep nodes from starting", preparePause},
		{"resume", "lane|activity|run NAME…", "end a pause", prepareResume},
		{"audit", "", "show who has changed what", prepareAudit},
		{"executions", "", "list executions of whatever tool, in no particular order", prepareExecutions},
		{"execution", "ID", "show one execution", prepareExecution},
		{"doctor", "", "find what can lose work or stop it, and how to set it right", prepareDoctor},
	}
}

// runView is a run as -json shows it.
type runView struct {
	Flow       string            `json:"flow"`
	Run        string            `json:"run"`
	FlowID     string            `json:"flow_id"`
	State      runtime.RunState  `json:"state"`
	Created    time.Time         `json:"created"`
	Starts     time.Time         `json:"starts,omitzero"`
	Key        string            `json:"key,omitempty"`
	Queued     bool              `json:"queued,omitempty"`
	Finished   time.Time         `json:"finished,omitzero"`
	Paused     time.Time         `json:"paused,omitzero"`
	FailedNode string            `json:"failed_node,omitempty"`
	Nodes      int               `json:"nodes"`
	Open       int               `json:"open"`
	Tags       map[string]string `json:"tags,omitempty"`
}

// tagFlag reads key=value, several times.
type tagFlag map[string]string

// String implements flag.Value.
func (t tagFlag) String() string { return tagsText(t) }

// Set implements flag.Value.
func (t tagFlag) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return fmt.Errorf("%q is not key=value", text)
	}
	t[key] = value
	return nil
}

// queryFlags declares the flags that select runs. It returns the query, and a check of the flags.
func queryFlags(flags *flag.FlagSet) (query func() runtime.RunQuery, check func() error) {
	tags := tagFlag{}
	name := flags.String("flow", "", "only runs of this flow")
	state := flags.String("state", "", "only these states, with commas: running, succeeded, failed, cancelled, expired")
	since := within(flags, "since", "only runs that were started within this `duration`, such as 90m or 24h")
	finished := within(flags, "finished", "only runs that ended within this `duration`, the last ones first")
	text := flags.String("text", "", "only runs whose id or flow's name contains this")
	order := flags.String("sort", "", "-created (the newest first), created, -finished or finished")
	flags.Var(tags, "tag", "only runs with this tag, key=value; may be given several times")
	query = func() runtime.RunQuery {
		query := runtime.RunQuery{Flow: *name, Tags: tags, Text: *text, Sort: runtime.RunSort(*order)}
		for text := range strings.SplitSeq(*state, ",") {
			if text = strings.TrimSpace(text); text != "" {
				query.States = append(query.States, runtime.RunState(text))
			}
		}
		if *since > 0 {
			query.CreatedFrom = time.Now().Add(-*since)
		}
		if *finished > 0 {
			query.FinishedFrom = time.Now().Add(-*finished)
		}
		return query
	}
	return query, func() error { return errors.Join(notNegative("", 0, since, finished), query().Check()) }
}

func prepareRuns(flags *flag.FlagSet) action {
	query, selects := queryFlags(flags)
	limit := flags.Int("limit", 50, "at most so many; 0 is all")
	check := need(nil, func() error { return notNegative("limit", *limit) }, selects)
	return action{check, func(ctx context.Context, s *session, out *output, _ []string) error {
		return printRuns(ctx, s, out, query(), *limit)
	}}
}

// notNegative checks the flags by which lists are bounded.
func notNegative(name string, number int, spans ...*time.Duration) error {
	if number < 0 {
		return fmt.Errorf("%w: -%s %d: must not be negative", errUsage, name, number)
	}
	for _, span := range spans {
		if *span < 0 {
			return fmt.Errorf("%w: %s is not a time before now: must not be negative", errUsage, *span)
		}
	}
	return nil
}

func printRuns(ctx context.Context, s *session, out *output, query runtime.RunQuery, limit int) error {
	out.head("flow", "run", "state", "created", "finished", "open", "failed node", "tags")
	count := 0
	for r, err := range s.client.Runs(ctx, query) {
		if err != nil {
			return err
		}
		if count++; limit > 0 && count > limit {
			out.say("There are more; -limit shows them.")
			return nil
		}
		state := string(r.State)
		if !r.PausedAt.IsZero() {
			state += ", paused"
		}
		if r.Queued {
			state += ", queued"
		}
		out.row(runView{
			r.Flow, r.Run, string(r.FlowID), r.State, r.CreatedAt, r.StartsAt, r.Key, r.Queued, r.ClosedAt, r.PausedAt,
			r.FailedNode, r.Nodes.All, r.Nodes.Open, r.Tags,
		}, r.Flow, r.Run, state, at(r.CreatedAt), at(r.ClosedAt), fmt.Sprintf("%d/%d", r.Nodes.Open, r.Nodes.All),
			r.FailedNode, tagsText(r.Tags))
	}
	return nil
}

// nodeView is a node as -json shows it.
type nodeView struct {
	Node      string            `json:"node"`
	Activity  string            `json:"activity,omitempty"`
	Lane      string            `json:"lane,omitempty"`
	State     runtime.NodeState `json:"state"`
	Why       string            `json:"why,omitempty"`
	Waiting   *why.Explanation  `json:"waiting,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Attempts  int               `json:"attempts"`
	Worker    string            `json:"worker,omitempty"`
	Execution string            `json:"execution"`
	Started   time.Time         `json:"started,omitzero"`
	Completed time.Time         `json:"completed,omitzero"`
	Overdue   float64           `json:"overdue_seconds,omitempty"`
	valuesView
	History []describe.Attempt `json:"history,omitempty"`
}

func prepareDescribe(flags *flag.FlagSet) action {
	values := flags.Int("values", 0, "show inputs and results, so many bytes of each")
	attempts := flags.Bool("attempts", false, "show the attempts of each node")
	node := flags.String("node", "", "show one node alone, with its whole values and its attempts")
	options := func() (opts []describe.Option) {
		if *values != 0 {
			opts = append(opts, describe.Values(*values))
		}
		if *attempts {
			opts = append(opts, describe.Attempts())
		}
		return opts
	}
	return action{need([]string{"FLOW", "RUN"}), func(ctx context.Context, s *session, out *output, args []string) error {
		run := s.client.Run(args[0], args[1])
		if *node != "" {
			n, err := run.DescribeNode(ctx, *node)
			if err != nil {
				return err
			}
			printNode(out, n)
			return nil
		}
		d, err := describeAll(ctx, run, options())
		if err != nil {
			return err
		}
		if out.lines {
			out.row(describeView(d))
			return nil
		}
		out.say("%s", summaryOf(d))
		sayValues(out, "the run", d.Input, d.Result)
		out.head("node", "activity", "state", "attempts", "started", "completed", "why")
		for _, n := range d.Nodes {
			text := n.Waiting.String()
			if n.Reason != "" {
				text = strings.TrimPrefix(text+"; "+n.Reason, "; ")
			}
			out.row(nil, n.Name, n.Activity, string(n.State), strconv.Itoa(n.Attempts), at(n.StartedAt),
				at(n.CompletedAt), text)
		}
		for i := range d.Nodes {
			sayDetails(out, &d.Nodes[i])
		}
		return nil
	}}
}

// runDescription is a run with its nodes as -json shows it.
type runDescription struct {
	runView
	FailureReason string    `json:"failure_reason,omitempty"`
	CancelReason  string    `json:"cancel_reason,omitempty"`
	CancelledBy   string    `json:"cancelled_by,omitempty"`
	PausedBy      string    `json:"paused_by,omitempty"`
	PauseReason   string    `json:"pause_reason,omitempty"`
	Deadline      time.Time `json:"deadline,omitzero"`
	Overdue       float64   `json:"overdue_seconds,omitempty"`
	NoKeeper      bool      `json:"no_keeper,omitempty"`
	Reruns        int       `json:"reruns,omitempty"`
	ForkedFrom    string    `json:"forked_from,omitempty"`
	valuesView
	Details []nodeView `json:"details"`
}

func describeView(d *runtime.RunDescription) runDescription {
	view := runDescription{
		runView: runView{
			Flow: d.Flow, Run: d.Run, FlowID: string(d.FlowID), State: d.State, Created: d.CreatedAt,
			Starts: d.StartsAt, Key: d.Key, Queued: d.QueuePlace > 0,
			Finished: d.ClosedAt, Paused: d.PausedAt, FailedNode: d.FailedNode, Nodes: len(d.Nodes), Open: d.OpenNodes,
		},
		FailureReason: d.FailureReason, CancelReason: d.CancelReason, CancelledBy: d.CancelledBy,
		PausedBy: d.PausedBy, PauseReason: d.PauseReason, Deadline: d.DeadlineAt, Overdue: d.Overdue.Seconds(), NoKeeper: d.NoKeeper,
		Reruns: d.Reruns, ForkedFrom: d.ForkedFrom, valuesView: valuesView{d.Input, d.Result}, Details: []nodeView{},
	}
	for i := range d.Nodes {
		view.Details = append(view.Details, viewNode(&d.Nodes[i]))
	}
	return view
}

func viewNode(n *runtime.NodeDescription) nodeView {
	var waiting *why.Explanation
	if n.Waiting.Reason != "" {
		waiting = &n.Waiting
	}
	return nodeView{
		n.Name, n.Activity, n.Lane, n.State, n.Why, waiting, n.Reason, n.Attempts, string(n.Worker),
		string(n.ExecutionID), n.StartedAt, n.CompletedAt, n.Overdue.Seconds(),
		valuesView{n.Input, n.Result}, n.History,
	}
}

// summaryOf returns the view of a run without its nodes.
func summaryOf(d *runtime.RunDescription) string {
	lines := []string{fmt.Sprintf("run %q of flow %s: %s, created %s", d.Run, d.Flow, d.State, at(d.CreatedAt))}
	add := func(set bool, format string, args ...any) {
		if set {
			lines = append(lines, fmt.Sprintf("  "+format, args...))
		}
	}
	add(d.StartedBy != "", "started by %q", d.StartedBy)
	add(d.Memo != nil, "memo %s", d.Memo)
	add(d.ForkedFrom != "", "fork of run %q, with %d results of it", d.ForkedFrom, d.KeptNodes)
	add(d.Key != "", "key %q", d.Key)
	add(d.QueuePlace > 0, "number %d in the queue of its key", d.QueuePlace)
	add(!d.ClosedAt.IsZero(), "ended %s", at(d.ClosedAt))
	add(!d.DeadlineAt.IsZero() && d.ClosedAt.IsZero(), "expires %s", at(d.DeadlineAt))
	add(d.Overdue > 0, "that is overdue by %s", d.Overdue.Round(time.Second))
	add(d.NoKeeper, "no keeper is seen: what is due by time waits for one")
	add(!d.PausedAt.IsZero(), "paused since %s by %q: %q", at(d.PausedAt), d.PausedBy, d.PauseReason)
	add(d.FailedNode != "", "node %s failed: %q", d.FailedNode, d.FailureReason)
	add(d.CancelReason != "" || d.CancelledBy != "", "cancelled by %q: %q", d.CancelledBy, d.CancelReason)
	add(d.Reruns > 0, "run again %d times, the last time %s", d.Reruns, at(d.LastRerun.At))
	return strings.Join(lines, "\n")
}

func prepareCancel(flags *flag.FlagSet) action {
	reason := flags.String("reason", "cancelled by an operator", "why, for the record")
	by := flags.String("by", "flowfabric", "who asks for it, for the record")
	pending := flags.Bool("pending", false, "let running nodes end by themselves")
	return action{need([]string{"FLOW", "RUN"}), func(ctx context.Context, s *session, out *output, args []string) error {
		run := s.client.Run(args[0], args[1])
		cancel := run.Cancel
		if *pending {
			cancel = run.CancelPending
		}
		return done(out, "cancelled", cancel(ctx, *reason, runtime.WithActor(*by)))
	}}
}

// done prints that an operation succeeded.
func done(out *output, what string, err error) error {
	if err == nil {
		out.row(map[string]string{"done": what}, what)
	}
	return err
}

func prepareRerun(flags *flag.FlagSet) action {
	from := flags.String("from", "", "run this node again, and all that depends on it")
	whole := flags.Bool("all", false, "run all nodes again")
	by := flags.String("by", "flowfabric", "who asks for it, for the record")
	exclusive := func() error {
		if *whole && *from != "" {
			return fmt.Errorf("%w: -all and -from exclude each other", errUsage)
		}
		return nil
	}
	return action{need([]string{"FLOW", "RUN"}, exclusive), func(ctx context.Context, s *session, out *output, args []string) error {
		scope := runtime.RerunFailed()
		switch {
		case *whole:
			scope = runtime.RerunAll()
		case *from != "":
			scope = runtime.RerunFrom(*from)
		}
		return done(out, "runs again", s.client.Run(args[0], args[1]).Rerun(ctx, scope, runtime.WithActor(*by)))
	}}
}

func preparePurge(*flag.FlagSet) action {
	return action{need([]string{"FLOW", "RUN"}), func(ctx context.Context, s *session, out *output, args []string) error {
		return done(out, "purged", s.client.Run(args[0], args[1]).Purge(ctx))
	}}
}

// within declares a flag for a duration, 0 by default. Its error says what a duration looks like.
func within(flags *flag.FlagSet, name, usage string) *time.Duration {
	d := new(time.Duration)
	flags.Func(name, usage, func(text string) (err error) {
		if *d, err = time.ParseDuration(text); err != nil {
			return errors.New("give a duration such as 90m or 24h")
		}
		return nil
	})
	return d
}
