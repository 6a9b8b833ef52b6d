package runs

import (
	"fmt"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/screen"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// follow prints the events of a stream until it ends, count of them are printed (0 is all), or the command is stopped,
// which is not a failure.
func follow[T any](r *shell.Request, view output.View[T], events iter.Seq2[T, error], count int) error {
	stream := output.NewStream(r.Out, view)
	printed := 0
	for e, err := range events {
		switch {
		case httpclient.Code(err) == "events_lost":
			return fmt.Errorf("%w; show the present state, or begin at another cursor", err)
		case screen.Stopped(r, err):
			return nil
		case err != nil:
			return err
		}
		if err := stream.Print(e); err != nil {
			return err
		}
		if printed++; printed == count {
			return nil
		}
	}
	return nil
}

// Widths of columns of streams, so that rows align with their head: of times, of the longest kinds of events, of
// ordinary names, and of ids that the engine chooses.
const timeWidth, kindWidth, nameWidth, idWidth = len("2006-01-02 15:04:05"), len("cancel requested"), 20, 36

var eventView = output.View[fabrictype.Event]{
	Name: func(e fabrictype.Event) string { return e.ID },
	Columns: []output.Column[fabrictype.Event]{
		{Name: "time", Least: timeWidth, Text: func(e fabrictype.Event) string { return output.At(e.At) }},
		{Name: "kind", Least: kindWidth, Text: func(e fabrictype.Event) string { return wording.Event(e.Kind) }},
		{Name: "node", Least: nameWidth, Text: func(e fabrictype.Event) string { return e.Node }},
		{Name: "attempt", Text: func(e fabrictype.Event) string { return wording.Number(e.Attempt) }},
		{Name: "detail", Text: func(e fabrictype.Event) string {
			if e.Kind == "progress" {
				return fmt.Sprintf("%g%% %s", e.Percent, e.Message)
			}
			return e.Detail
		}},
		{Name: "id", Wide: true, Text: func(e fabrictype.Event) string { return e.ID }},
	},
}

func runEvents(a *shell.App) *cobra.Command {
	in := httpapi.FollowRunInput{}
	var count int
	c := a.Command(shell.Spec{
		Use: "events FLOW RUN", Short: "Follow the events of a run until it is over", Calls: []httpapi.Entry{httpapi.FollowRun},
		Columns: eventView.ColumnNames(),
		Check:   func([]string) error { return shell.NotNegative("count", count) },
		Do: func(r *shell.Request) error {
			in.RunName = r.RunName()
			return follow(r, eventView, shell.Stream(r, httpapi.FollowRun, in), count)
		},
	})
	c.Flags().StringVar(&in.After, "cursor", "", "continue after the event with this id, which -o wide and json print")
	c.Flags().IntVar(&count, "count", 0, "end after this number of events; 0 means never")
	return c
}

var feedView = output.View[fabrictype.FeedEvent]{
	Name: func(e fabrictype.FeedEvent) string { return wording.Path(httpapi.RunName{Flow: e.Flow, Run: e.Run}) },
	Columns: []output.Column[fabrictype.FeedEvent]{
		{Name: "time", Least: timeWidth, Text: func(e fabrictype.FeedEvent) string { return output.At(e.At) }},
		{Name: "kind", Least: kindWidth, Text: func(e fabrictype.FeedEvent) string { return wording.Event(e.Kind) }},
		{Name: "flow", Least: nameWidth, Text: func(e fabrictype.FeedEvent) string { return e.Flow }},
		{Name: "run", Least: idWidth, Text: func(e fabrictype.FeedEvent) string { return e.Run }},
		{Name: "node", Least: nameWidth, Text: func(e fabrictype.FeedEvent) string { return e.Node }},
		{Name: "detail", Text: func(e fabrictype.FeedEvent) string { return e.Detail }},
		{Name: "cursor", Wide: true, Text: func(e fabrictype.FeedEvent) string { return e.Cursor }},
	},
}

func Feed(a *shell.App) *cobra.Command {
	in := httpapi.FollowFeedInput{}
	var kinds string
	var count int
	c := a.Command(shell.Spec{
		Use: "feed", Short: "Follow the events of all runs", Calls: []httpapi.Entry{httpapi.FollowFeed},
		Columns: feedView.ColumnNames(),
		Check:   func([]string) error { return shell.NotNegative("count", count) },
		Do: func(r *shell.Request) error {
			in.Kinds = cliflag.List(kinds)
			return follow(r, feedView, shell.Stream(r, httpapi.FollowFeed, in), count)
		},
	})
	c.Flags().StringVar(&in.Flow, "flow", "", "only events of this flow")
	a.CompleteFlag(c, "flow", "FLOW")
	c.Flags().StringVar(&kinds, "kind", "", "only these kinds, with commas, such as flow_failed,suspended")
	c.Flags().BoolVar(&in.Children, "children", false, "also events of child runs of maps and sub-flows")
	c.Flags().StringVar(&in.After, "cursor", "",
		"continue after the event with this cursor, which -o wide and json print")
	c.Flags().IntVar(&count, "count", 0, "end after this number of events; 0 means never")
	return c
}

var logView = output.View[fabrictype.LogLine]{
	Name: func(l fabrictype.LogLine) string { return l.Cursor },
	Columns: []output.Column[fabrictype.LogLine]{
		{Name: "time", Least: timeWidth, Text: func(l fabrictype.LogLine) string { return output.At(l.At) }},
		{Name: "attempt", Text: func(l fabrictype.LogLine) string { return strconv.Itoa(l.Attempt) }},
		{Name: "level", Text: func(l fabrictype.LogLine) string { return l.Level.String() }},
		{Name: "message", Text: func(l fabrictype.LogLine) string { return l.Message }},
		{Name: "attributes", Text: func(l fabrictype.LogLine) string { return string(l.Attrs) }},
		{Name: "cursor", Wide: true, Text: func(l fabrictype.LogLine) string { return l.Cursor }},
	},
}

func runLogs(a *shell.App) *cobra.Command {
	in := httpapi.FollowLogsInput{}
	var wait bool
	c := a.Command(shell.Spec{
		Use: "logs FLOW RUN NODE", Short: "Show the log lines of a node's attempts", Calls: []httpapi.Entry{httpapi.FollowLogs},
		Columns: logView.ColumnNames(),
		Check:   func([]string) error { return shell.NotNegative("attempt", in.Attempt) },
		Do: func(r *shell.Request) error {
			in.NodeName, in.Present = httpapi.NodeName{RunName: r.RunName(), Node: r.Args[2]}, !wait
			return follow(r, logView, shell.Stream(r, httpapi.FollowLogs, in), 0)
		},
	})
	c.Flags().BoolVarP(&wait, "follow", "f", false, "wait for further lines until the node has ended")
	c.Flags().IntVar(&in.Attempt, "attempt", 0, "only lines of this attempt; 0 is all")
	c.Flags().StringVar(&in.After, "cursor", "",
		"continue after the line with this cursor, which -o wide and json print")
	return c
}

var frameView = output.View[fabrictype.Frame]{
	Name: func(f fabrictype.Frame) string { return f.Cursor },
	Columns: []output.Column[fabrictype.Frame]{
		{Name: "time", Least: timeWidth, Text: func(f fabrictype.Frame) string { return output.At(f.At) }},
		{Name: "attempt", Text: func(f fabrictype.Frame) string { return strconv.Itoa(f.Attempt) }},
		{Name: "kind", Least: nameWidth, Text: func(f fabrictype.Frame) string { return f.Kind }},
		{Name: "payload", Text: func(f fabrictype.Frame) string {
			if f.JSON != nil {
				return string(f.JSON)
			}
			return string(f.Data)
		}},
		{Name: "cursor", Wide: true, Text: func(f fabrictype.Frame) string { return f.Cursor }},
	},
}

func runStream(a *shell.App) *cobra.Command {
	in := httpapi.FollowFramesInput{}
	var wait bool
	c := a.Command(shell.Spec{
		Use: "stream FLOW RUN NODE", Short: "Show the frames that a node's attempts emitted",
		Calls:   []httpapi.Entry{httpapi.FollowFrames},
		Columns: frameView.ColumnNames(),
		Do: func(r *shell.Request) error {
			in.NodeName, in.Present = httpapi.NodeName{RunName: r.RunName(), Node: r.Args[2]}, !wait
			return follow(r, frameView, shell.Stream(r, httpapi.FollowFrames, in), 0)
		},
	})
	c.Flags().BoolVarP(&wait, "follow", "f", false, "wait for further frames until the node has ended")
	c.Flags().StringVar(&in.After, "cursor", "",
		"continue after the frame with this cursor, which -o wide and json print")
	return c
}

var itemView = output.View[fabrictype.MapItem]{
	Name: func(i fabrictype.MapItem) string { return i.Name },
	Columns: []output.Column[fabrictype.MapItem]{
		{Name: "index", Text: func(i fabrictype.MapItem) string { return strconv.Itoa(i.Index) }},
		{Name: "state", Text: func(i fabrictype.MapItem) string { return string(i.State) }},
		{Name: "attempts", Text: func(i fabrictype.MapItem) string { return strconv.Itoa(i.Attempts) }},
		{Name: "result", Text: func(i fabrictype.MapItem) string {
			if i.Result == nil {
				return ""
			}
			return string(i.Result.JSON)
		}},
		{Name: "reason", Text: func(i fabrictype.MapItem) string { return i.Reason }},
	},
}

func runItems(a *shell.App) *cobra.Command {
	var limit *cliflag.Limit
	c := a.Command(shell.Spec{
		Use: "items FLOW RUN NODE", Short: "Show the items of a map", Calls: []httpapi.Entry{httpapi.ListItems},
		Columns: itemView.ColumnNames(),
		Check:   func([]string) error { return limit.Check() },
		Do: func(r *shell.Request) error {
			page := func(p api.Paging) httpapi.ListItemsInput {
				node := httpapi.NodeName{RunName: r.RunName(), Node: r.Args[2]}
				return httpapi.ListItemsInput{NodeName: node, Paging: p}
			}
			items, more, err := shell.Pages(r, httpapi.ListItems, limit.Most(r), page)
			if err != nil {
				return err
			}
			err = output.List(r.Out, itemView, items)
			r.SayMore(more)
			return err
		},
	})
	limit = cliflag.DeclareLimit(c, 100)
	return c
}

var turnView = output.View[fabrictype.ChildRun]{
	Name: func(t fabrictype.ChildRun) string { return wording.Path(httpapi.RunName{Flow: t.Flow, Run: t.Run}) },
	Columns: []output.Column[fabrictype.ChildRun]{
		{Name: "turn", Text: func(t fabrictype.ChildRun) string { return strconv.Itoa(t.Turn) }},
		{Name: "flow", Text: func(t fabrictype.ChildRun) string { return t.Flow }},
		{Name: "run", Text: func(t fabrictype.ChildRun) string { return t.Run }},
		{Name: "state", Text: func(t fabrictype.ChildRun) string { return string(t.State) }},
	},
}

func runTurns(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "turns FLOW RUN NODE", Short: "Show the turns of a loop", Calls: []httpapi.Entry{httpapi.ListTurns},
		Columns: turnView.ColumnNames(),
		Do: func(r *shell.Request) error {
			in := httpapi.NodeInput{NodeName: httpapi.NodeName{RunName: r.RunName(), Node: r.Args[2]}}
			turns, err := shell.Call(r, httpapi.ListTurns, in)
			if err != nil {
				return err
			}
			return output.List(r.Out, turnView, turns.Items)
		},
	})
}

// ended is how a run ended.
type ended struct {
	Flow   string `json:"flow"`
	Run    string `json:"run"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

func runWait(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "wait FLOW RUN", Short: "Wait for the end of a run",
		Long: "Waits for the end of a run. The exit code is 0 for a run that succeeded and 4 for any other; " +
			"--timeout bounds the wait, with exit code 5.",
		Calls: []httpapi.Entry{httpapi.FollowRun, httpapi.GetRun},
		Do: func(r *shell.Request) error {
			d, err := waitForEnd(r, nil)
			if err != nil {
				return err
			}
			if d.State != "succeeded" {
				return notSuccessful(r.RunName(), string(d.State), d.FailedNode, reasonOf(d))
			}
			return r.Out.Value(ended{d.Flow, d.Run, string(d.State), ""}, wording.Path(r.RunName()), string(d.State))
		},
	})
}

func reasonOf(d *fabrictype.RunDetail) string {
	if d.Reason != "" {
		return d.Reason
	}
	return d.CancelReason
}

// waitForEnd returns a run that is over. It passes the events until then to see, if that is set.
func waitForEnd(r *shell.Request, see func(fabrictype.Event) error) (*fabrictype.RunDetail, error) {
	for {
		events := shell.Stream(r, httpapi.FollowRun, httpapi.FollowRunInput{RunName: r.RunName()})
		for e, err := range events {
			if httpclient.Code(err) == "events_lost" {
				break
			}
			if err != nil {
				return nil, err
			}
			if see != nil {
				if err := see(e); err != nil {
					return nil, err
				}
			}
		}
		d, err := DescribeRun(r, httpapi.GetRunInput{RunName: r.RunName()})
		if err != nil || d.State != "running" {
			return d, err
		}
	}
}
