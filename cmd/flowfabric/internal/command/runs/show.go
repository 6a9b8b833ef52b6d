package runs

import (
	"fmt"
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
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// DescribeRun describes a run with all of its nodes.
func DescribeRun(r *shell.Request, in httpapi.GetRunInput) (*fabrictype.RunDetail, error) {
	var all *fabrictype.RunDetail
	for {
		d, err := shell.Call(r, httpapi.GetRun, in)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = d
		} else {
			all.Nodes = append(all.Nodes, d.Nodes...)
		}
		if in.Cursor = d.Next; in.Cursor == "" {
			all.Next = ""
			return all, nil
		}
	}
}

// nodeView shows nodes at a time.
func nodeView(now time.Time) output.View[fabrictype.Node] {
	return output.View[fabrictype.Node]{
		Name: func(n fabrictype.Node) string { return n.Name },
		Columns: []output.Column[fabrictype.Node]{
			{Name: "node", Text: func(n fabrictype.Node) string { return n.Name }},
			{Name: "kind", Wide: true, Text: func(n fabrictype.Node) string { return string(n.Kind) }},
			{Name: "activity", Text: func(n fabrictype.Node) string { return n.Activity }},
			{Name: "lane", Wide: true, Text: func(n fabrictype.Node) string { return n.Lane }},
			{Name: "state", Text: func(n fabrictype.Node) string { return wording.State(n.State) }},
			{Name: "attempts", Text: func(n fabrictype.Node) string { return strconv.Itoa(n.Attempts) }},
			{Name: "worker", Wide: true, Text: func(n fabrictype.Node) string { return n.Worker }},
			{Name: "started", Text: func(n fabrictype.Node) string { return output.At(n.StartedAt) }},
			{Name: "took", Text: func(n fabrictype.Node) string { return lasted(n, now) }},
			{Name: "completed", Wide: true, Text: func(n fabrictype.Node) string { return output.At(n.CompletedAt) }},
			{Name: "execution", Wide: true, Text: func(n fabrictype.Node) string { return n.ExecutionID }},
			{Name: "why", Text: whyText},
		},
	}
}

// whyText returns the reason why a node waits, or failed.
func whyText(n fabrictype.Node) string {
	text := ""
	if n.Waiting.Reason != "" {
		text = n.Waiting.String()
	}
	if n.Reason != "" {
		text = strings.TrimPrefix(text+"; "+n.Reason, "; ")
	}
	if n.Category != "" {
		text += " (" + n.Category + ")"
	}
	return text
}

func runShow(a *shell.App) *cobra.Command {
	in := httpapi.GetRunInput{}
	var bytes int
	var node string
	c := a.Command(shell.Spec{
		Use: "show FLOW RUN", Short: "Show a run and its nodes, and why those that wait do",
		Calls: []httpapi.Entry{httpapi.GetRun, httpapi.GetNode}, Columns: nodeView(time.Time{}).ColumnNames(),
		Check: func([]string) error { return shell.NotNegative("values", bytes) },
		Do: func(r *shell.Request) error {
			if node != "" {
				return showNode(r, httpapi.NodeName{RunName: r.RunName(), Node: node})
			}
			in.RunName, in.Values, in.Bytes = r.RunName(), bytes > 0, bytes
			d, err := DescribeRun(r, in)
			if err != nil {
				return err
			}
			return showRun(r, d)
		},
	})
	c.Flags().IntVar(&bytes, "values", 0, "show inputs and results, so many bytes of each")
	c.Flags().BoolVar(&in.Attempts, "attempts", false, "show the attempts of each node")
	c.Flags().StringVar(&node, "node", "", "show one node alone, with its whole values and its attempts")
	a.CompleteFlag(c, "node", "NODE")
	return c
}

func showRun(r *shell.Request, d *fabrictype.RunDetail) error {
	if !r.Out.ForPeople() {
		return r.Out.Value(d, wording.Path(httpapi.RunName{Flow: d.Flow, Run: d.Run}), "")
	}
	r.Out.Say("%s", summaryOf(d, r.Now()))
	sayValues(r.Out, "the run", d.Input, d.Result)
	if err := output.List(r.Out, nodeView(r.Now()), d.Nodes); err != nil {
		return err
	}
	for i := range d.Nodes {
		sayDetails(r, &d.Nodes[i])
	}
	return nil
}

func showNode(r *shell.Request, name httpapi.NodeName) error {
	n, err := shell.Call(r, httpapi.GetNode, httpapi.GetNodeInput{NodeName: name, Values: true})
	if err != nil {
		return err
	}
	if !r.Out.ForPeople() {
		return r.Out.Value(n, n.Name, "")
	}
	r.Out.Say("node %q: %s", n.Name, wording.State(n.State))
	if text := whyText(*n); text != "" {
		r.Out.Say("  %s", text)
	}
	sayDetails(r, n)
	return nil
}

// summaryOf describes a run without its nodes.
func summaryOf(d *fabrictype.RunDetail, now time.Time) string {
	lines := []string{fmt.Sprintf("run %q of flow %s: %s, created %s", d.Run, d.Flow, d.State, output.At(d.CreatedAt))}
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
	add(!d.ClosedAt.IsZero(), "ended %s, took %s", output.At(d.ClosedAt), wording.Took(d.BeganAt, d.ClosedAt, now))
	open := d.ClosedAt.IsZero()
	add(!d.DeadlineAt.IsZero() && open, "expires %s", output.At(d.DeadlineAt))
	add(!d.FinallyDeadlineAt.IsZero() && open, "its finally nodes expire %s", output.At(d.FinallyDeadlineAt))
	add(d.Overdue.Duration > 0, "that is overdue by %s", d.Overdue.Round(time.Second))
	add(d.NoKeeper, "no keeper runs: work that is due by time waits for one")
	add(!d.PausedAt.IsZero(), "paused since %s by %s: %s", output.At(d.PausedAt), quoted(d.PausedBy),
		quoted(d.PauseReason))
	add(d.FailedNode != "", "node %s failed: %s", d.FailedNode, quoted(d.Reason))
	add(d.CancelReason != "" || d.CancelledBy != "", "cancelled by %s: %s", quoted(d.CancelledBy),
		quoted(d.CancelReason))
	if d.Reruns > 0 {
		add(true, "run again %s, the last time %s", wording.Counted(d.Reruns, "time", "times"), output.At(d.LastRerun.At))
	}
	return strings.Join(lines, "\n")
}

// quoted puts a text in quotes. The output escapes hidden characters in it, and so has the program that stored it.
func quoted(text string) string { return `"` + strings.ReplaceAll(text, "\n", `\n`) + `"` }

// sayDetails prints the values and attempts of a node, as far as they were requested.
func sayDetails(r *shell.Request, n *fabrictype.Node) {
	sayValues(r.Out, n.Name, n.Input, n.Result)
	for i := range n.History {
		sayAttempt(r.Out, n.Name, &n.History[i], r.Now())
	}
}

func sayAttempt(out *output.Writer, node string, a *fabrictype.Attempt, now time.Time) {
	worker := fmt.Sprintf("%q", a.Worker)
	if a.Build != nil {
		worker += " (build " + wording.Build(*a.Build) + ")"
	}
	text := fmt.Sprintf("%s: attempt %d by %s, %s, took %s: %s", node, a.Number, worker, output.At(a.Begun),
		wording.Took(a.Begun, a.Ended, now), a.Outcome)
	if a.Category != "" {
		text += " (" + a.Category + ")"
	}
	if a.Error != "" {
		text += ": " + quoted(a.Error)
	}
	out.Say("%s", text)
	stack := a.Stack
	if !out.Wide() {
		stack = ownFrames(stack)
	}
	for line := range strings.Lines(stack) {
		out.Say("    %s", strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    "))
	}
	if stack != a.Stack {
		out.Say("    … -o wide shows the frames of the library and of Go's runtime")
	}
}

// ownFrames returns the frames of a stack that belong to the user's program: from the panic to the library's call of
// the function of the activity. A stack without both is returned whole.
func ownFrames(stack string) string {
	const library = "github.com/flowfabric/flowfabric-go/activity.(*Activity"
	lines := strings.SplitAfter(stack, "\n")
	begin, end := 0, -1
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") {
			begin = i + 2 // after its place
		}
		if strings.HasPrefix(line, library) {
			end = i
			break
		}
	}
	for begin < end && strings.HasPrefix(lines[begin], "runtime.") { // of a fault such as a nil pointer
		begin += 2
	}
	if end <= begin {
		return stack
	}
	return strings.Join(lines[begin:end], "")
}

func sayValues(out *output.Writer, what string, input, result *fabrictype.Value) {
	if input != nil {
		out.Say("%s: input %s", what, valueText(input))
	}
	if result != nil {
		out.Say("%s: result %s", what, valueText(result))
	}
}

// reason is why a node waits.
type reason struct {
	Node   string `json:"node"`
	State  string `json:"state"`
	Why    string `json:"why"`
	Remedy string `json:"remedy,omitempty"`
}

var reasonView = output.View[reason]{
	Name: func(n reason) string { return n.Node },
	Columns: []output.Column[reason]{
		{Name: "node", Text: func(n reason) string { return n.Node }},
		{Name: "state", Text: func(n reason) string { return wording.State(fabrictype.NodeState(n.State)) }},
		{Name: "why", Text: func(n reason) string { return n.Why }},
		{Name: "remedy", Text: func(n reason) string { return n.Remedy }},
	},
}

func runWhy(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "why FLOW RUN [NODE]", Short: "Show why the nodes of a run wait, and the remedies",
		Calls:   []httpapi.Entry{httpapi.GetRun},
		Columns: reasonView.ColumnNames(),
		Do: func(r *shell.Request) error {
			d, err := DescribeRun(r, httpapi.GetRunInput{RunName: r.RunName()})
			if err != nil {
				return err
			}
			var reasons []reason
			found := len(r.Args) < 3
			for _, n := range d.Nodes {
				if len(r.Args) == 3 && n.Name != r.Args[2] {
					continue
				}
				found = true
				if len(r.Args) < 3 && n.State == fabrictype.NodeSkipped {
					continue
				}
				if text := whyText(n); text != "" {
					line := reason{Node: n.Name, State: string(n.State), Why: text}
					if n.Waiting.Reason != "" {
						line.Why = strings.TrimPrefix(n.Waiting.Sentence+"; "+n.Reason, "; ")
						line.Why, line.Remedy = strings.TrimSuffix(line.Why, "; "), n.Waiting.Remedy
					}
					reasons = append(reasons, line)
				}
			}
			if !found {
				return &api.Problem{
					Status: 404, Code: "node_not_found",
					Detail: fmt.Sprintf("%s has no node %q", wording.Run(r.RunName()), r.Args[2]),
				}
			}
			return output.List(r.Out, reasonView, reasons)
		},
	})
}

func runGraph(a *shell.App) *cobra.Command {
	var format string
	c := a.Command(shell.Spec{
		Use: "graph FLOW RUN", Short: "Draw the graph of a run", Calls: []httpapi.Entry{httpapi.GetRunGraph, httpapi.GetRunLayout},
		Check: func([]string) error { return cliflag.CheckDrawing(format) },
		Do: func(r *shell.Request) error {
			if format == cliflag.LayoutGraph {
				in := httpapi.GetRunLayoutInput{RunName: r.RunName(), States: true}
				l, err := shell.Call(r, httpapi.GetRunLayout, in)
				if err != nil {
					return err
				}
				return r.Out.Value(l, wording.Path(r.RunName()), wording.Compact(l))
			}
			d, err := shell.Call(r, httpapi.GetRunGraph, httpapi.GetRunGraphInput{RunName: r.RunName(), Format: format})
			if err != nil {
				return err
			}
			return r.Out.Value(d, wording.Path(r.RunName()), d.Text)
		},
	})
	cliflag.DeclareDrawing(c, &format)
	return c
}

// attemptOf is an attempt with its node.
type attemptOf struct {
	Node string `json:"node"`
	fabrictype.Attempt

	now time.Time
}

var attemptView = output.View[attemptOf]{
	Name: func(a attemptOf) string { return a.Node },
	Columns: []output.Column[attemptOf]{
		{Name: "node", Text: func(a attemptOf) string { return a.Node }},
		{Name: "attempt", Text: func(a attemptOf) string { return strconv.Itoa(a.Number) }},
		{Name: "worker", Text: func(a attemptOf) string { return a.Worker }},
		{Name: "build", Wide: true, Text: func(a attemptOf) string {
			if a.Build == nil {
				return ""
			}
			return wording.Build(*a.Build)
		}},
		{Name: "begun", Text: func(a attemptOf) string { return output.At(a.Begun) }},
		{Name: "took", Text: func(a attemptOf) string { return wording.Took(a.Begun, a.Ended, a.now) }},
		{Name: "ended", Wide: true, Text: func(a attemptOf) string { return output.At(a.Ended) }},
		{Name: "outcome", Text: func(a attemptOf) string { return string(a.Outcome) }},
		{Name: "category", Text: func(a attemptOf) string { return a.Category }},
		{Name: "error", Text: func(a attemptOf) string { return a.Error }},
	},
}

func Attempts(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "attempts FLOW RUN [NODE]", Short: "Show the attempts of a run's nodes, or of one",
		Calls: []httpapi.Entry{httpapi.GetRun, httpapi.GetNode}, Columns: attemptView.ColumnNames(),
		Do: func(r *shell.Request) error {
			nodes, err := nodesOf(r, false)
			if err != nil {
				return err
			}
			var attempts []attemptOf
			for _, n := range nodes {
				for _, attempt := range n.History {
					attempts = append(attempts, attemptOf{n.Name, attempt, r.Now()})
				}
			}
			return output.List(r.Out, attemptView, attempts)
		},
	})
}

// nodesOf returns the node that the third argument names, or all, with their attempts, and their values if wanted.
func nodesOf(r *shell.Request, values bool) ([]fabrictype.Node, error) {
	if len(r.Args) == 3 {
		n, err := shell.Call(r, httpapi.GetNode,
			httpapi.GetNodeInput{NodeName: httpapi.NodeName{RunName: r.RunName(), Node: r.Args[2]}, Values: values})
		if err != nil {
			return nil, err
		}
		return []fabrictype.Node{*n}, nil
	}
	d, err := DescribeRun(r, httpapi.GetRunInput{
		RunName:     r.RunName(),
		GetRunInput: api.GetRunInput{Attempts: true, Values: values, Bytes: describe.MaxValueBytes},
	})
	if err != nil {
		return nil, err
	}
	if values {
		return append([]fabrictype.Node{{Input: d.Input, Result: d.Result}}, d.Nodes...), nil
	}
	return d.Nodes, nil
}

// nodeValue is a value of a run or a node.
type nodeValue struct {
	Node  string            `json:"node,omitempty"`
	Kind  string            `json:"kind"`
	Value *fabrictype.Value `json:"value"`
}

var valueView = output.View[nodeValue]{
	Name: func(v nodeValue) string { return v.Node },
	Columns: []output.Column[nodeValue]{
		{Name: "node", Text: func(v nodeValue) string { return v.Node }},
		{Name: "kind", Text: func(v nodeValue) string { return v.Kind }},
		{Name: "value", Text: func(v nodeValue) string { return valueText(v.Value) }},
	},
}

func Values(a *shell.App) *cobra.Command {
	var key string
	c := a.Command(shell.Spec{
		Use: "values FLOW RUN [NODE]", Short: "Show the inputs and results of a run and its nodes, or of one",
		Calls:   []httpapi.Entry{httpapi.GetRun, httpapi.GetNode, httpapi.GetLiveValue},
		Columns: valueView.ColumnNames(),
		Check: func(args []string) error {
			if key != "" && len(args) < 3 {
				return fmt.Errorf("--key %q: needs a NODE", key)
			}
			return nil
		},
		Do: func(r *shell.Request) error {
			if key != "" {
				node := httpapi.NodeName{RunName: r.RunName(), Node: r.Args[2]}
				in := httpapi.LiveValueInput{NodeName: node, Key: key}
				v, err := shell.Call(r, httpapi.GetLiveValue, in)
				if err != nil {
					return err
				}
				return r.Out.Value(v, v.Key, string(v.JSON))
			}
			nodes, err := nodesOf(r, true)
			if err != nil {
				return err
			}
			var values []nodeValue
			for _, n := range nodes {
				if n.Input != nil {
					values = append(values, nodeValue{n.Name, "input", n.Input})
				}
				if n.Result != nil {
					values = append(values, nodeValue{n.Name, "result", n.Result})
				}
			}
			return output.List(r.Out, valueView, values)
		},
	})
	c.Flags().StringVar(&key, "key", "", "the value that the function of NODE has published by this key")
	return c
}
