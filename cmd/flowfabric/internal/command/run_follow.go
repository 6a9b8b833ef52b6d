package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// follow prints the events of a stream until it ends, count of them are printed (0 is all), or the command is stopped,
// which is not a failure.
func follow[T any](r *request, view output.View[T], events iter.Seq2[T, error], count int) error {
	stream := output.NewStream(r.out, view)
	printed := 0
	for e, err := range events {
		switch {
		case httpclient.Code(err) == "events_lost":
			return fmt.Errorf("%w; show the present state, or begin at another cursor", err)
		case stopped(r, err):
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

// stopped reports whether an error means that the user interrupted the command.
func stopped(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// Widths of columns of streams, so that rows align with their head: of times, of the longest kinds of events, of
// ordinary names, and of ids that the engine chooses.
const timeWidth, kindWidth, nameWidth, idWidth = len("2006-01-02 15:04:05"), len("waiting_children"), 16, 36

var eventView = output.View[fabrictype.Event]{
	Name: func(e fabrictype.Event) string { return e.ID },
	Columns: []output.Column[fabrictype.Event]{
		{Name: "time", Least: timeWidth, Text: func(e fabrictype.Event) string { return output.At(e.At) }},
		{Name: "kind", Least: kindWidth, Text: func(e fabrictype.Event) string { return string(e.Kind) }},
		{Name: "node", Least: nameWidth, Text: func(e fabrictype.Event) string { return e.Node }},
		{Name: "attempt", Text: func(e fabrictype.Event) string { return numberText(e.Attempt) }},
		{Name: "detail", Text: func(e fabrictype.Event) string {
			if e.Kind == "progress" {
				return fmt.Sprintf("%g%% %s", e.Percent, e.Message)
			}
			return e.Detail
		}},
		{Name: "id", Wide: true, Text: func(e fabrictype.Event) string { return e.ID }},
	},
}

// numberText shows a number; zero is nothing.
func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func (a *App) runEvents() *cobra.Command {
	in := httpapi.FollowRunInput{}
	var count int
	c := a.command(spec{
		use: "events FLOW RUN", short: "Follow the events of a run until it is over", calls: []httpapi.Entry{httpapi.FollowRun},
		columns: eventView.ColumnNames(),
		check:   func([]string) error { return notNegative("count", count) },
		do: func(r *request) error {
			in.RunName = r.name()
			return follow(r, eventView, stream(r, httpapi.FollowRun, in), count)
		},
	})
	c.Flags().StringVar(&in.After, "cursor", "", "continue after the event with this id, which -o wide and json print")
	c.Flags().IntVar(&count, "count", 0, "end after this number of events; 0 means never")
	return c
}

var feedView = output.View[fabrictype.FeedEvent]{
	Name: func(e fabrictype.FeedEvent) string { return path(httpapi.RunName{Flow: e.Flow, Run: e.Run}) },
	Columns: []output.Column[fabrictype.FeedEvent]{
		{Name: "time", Least: timeWidth, Text: func(e fabrictype.FeedEvent) string { return output.At(e.At) }},
		{Name: "kind", Least: kindWidth, Text: func(e fabrictype.FeedEvent) string { return string(e.Kind) }},
		{Name: "flow", Least: nameWidth, Text: func(e fabrictype.FeedEvent) string { return e.Flow }},
		{Name: "run", Least: idWidth, Text: func(e fabrictype.FeedEvent) string { return e.Run }},
		{Name: "node", Least: nameWidth, Text: func(e fabrictype.FeedEvent) string { return e.Node }},
		{Name: "detail", Text: func(e fabrictype.FeedEvent) string { return e.Detail }},
		{Name: "cursor", Wide: true, Text: func(e fabrictype.FeedEvent) string { return e.Cursor }},
	},
}

func (a *App) feedCommand() *cobra.Command {
	in := httpapi.FollowFeedInput{}
	var kinds string
	var count int
	c := a.command(spec{
		use: "feed", short: "Follow the events of all runs", calls: []httpapi.Entry{httpapi.FollowFeed},
		columns: feedView.ColumnNames(),
		check:   func([]string) error { return notNegative("count", count) },
		do: func(r *request) error {
			in.Kinds = list(kinds)
			return follow(r, feedView, stream(r, httpapi.FollowFeed, in), count)
		},
	})
	c.Flags().StringVar(&in.Flow, "flow", "", "only events of this flow")
	a.completeFlag(c, "flow", "FLOW")
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

func (a *App) runLogs() *cobra.Command {
	in := httpapi.FollowLogsInput{}
	var wait bool
	c := a.command(spec{
		use: "logs FLOW RUN NODE", short: "Show the log lines of a node's attempts", calls: []httpapi.Entry{httpapi.FollowLogs},
		columns: logView.ColumnNames(),
		check:   func([]string) error { return notNegative("attempt", in.Attempt) },
		do: func(r *request) error {
			in.NodeName, in.Present = httpapi.NodeName{RunName: r.name(), Node: r.args[2]}, !wait
			return follow(r, logView, stream(r, httpapi.FollowLogs, in), 0)
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

func (a *App) runStream() *cobra.Command {
	in := httpapi.FollowFramesInput{}
	var wait bool
	c := a.command(spec{
		use: "stream FLOW RUN NODE", short: "Show the frames that a node's attempts emitted",
		calls:   []httpapi.Entry{httpapi.FollowFrames},
		columns: frameView.ColumnNames(),
		do: func(r *request) error {
			in.NodeName, in.Present = httpapi.NodeName{RunName: r.name(), Node: r.args[2]}, !wait
			return follow(r, frameView, stream(r, httpapi.FollowFrames, in), 0)
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

func (a *App) runItems() *cobra.Command {
	var limit *limitFlag
	c := a.command(spec{
		use: "items FLOW RUN NODE", short: "Show the items of a map", calls: []httpapi.Entry{httpapi.ListItems},
		columns: itemView.ColumnNames(),
		check:   func([]string) error { return limit.check() },
		do: func(r *request) error {
			items, more, err := pages(r, httpapi.ListItems, limit.most(r), func(p api.Paging) httpapi.ListItemsInput {
				return httpapi.ListItemsInput{NodeName: httpapi.NodeName{RunName: r.name(), Node: r.args[2]}, Paging: p}
			})
			if err != nil {
				return err
			}
			err = output.List(r.out, itemView, items)
			r.sayMore(more)
			return err
		},
	})
	limit = declareLimit(c, 100)
	return c
}

var turnView = output.View[fabrictype.Turn]{
	Name: func(t fabrictype.Turn) string { return path(httpapi.RunName{Flow: t.Flow, Run: t.Run}) },
	Columns: []output.Column[fabrictype.Turn]{
		{Name: "turn", Text: func(t fabrictype.Turn) string { return strconv.Itoa(t.Number) }},
		{Name: "flow", Text: func(t fabrictype.Turn) string { return t.Flow }},
		{Name: "run", Text: func(t fabrictype.Turn) string { return t.Run }},
		{Name: "state", Text: func(t fabrictype.Turn) string { return string(t.State) }},
	},
}

func (a *App) runTurns() *cobra.Command {
	return a.command(spec{
		use: "turns FLOW RUN NODE", short: "Show the turns of a loop", calls: []httpapi.Entry{httpapi.ListTurns},
		columns: turnView.ColumnNames(),
		do: func(r *request) error {
			in := httpapi.NodeInput{NodeName: httpapi.NodeName{RunName: r.name(), Node: r.args[2]}}
			turns, err := call(r, httpapi.ListTurns, in)
			if err != nil {
				return err
			}
			return output.List(r.out, turnView, turns.Items)
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

func (a *App) runWait() *cobra.Command {
	return a.command(spec{
		use: "wait FLOW RUN", short: "Wait for the end of a run",
		long: "Waits for the end of a run. The exit code is 0 for a run that succeeded and 4 for any other; " +
			"--timeout bounds the wait, with exit code 5.",
		calls: []httpapi.Entry{httpapi.FollowRun, httpapi.GetRun},
		do: func(r *request) error {
			d, err := waitForEnd(r, nil)
			if err != nil {
				return err
			}
			if d.State != "succeeded" {
				return notSuccessful(r.name(), string(d.State), d.FailedNode, reasonOf(d))
			}
			return r.out.Value(ended{d.Flow, d.Run, string(d.State), ""}, path(r.name()), string(d.State))
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
func waitForEnd(r *request, see func(fabrictype.Event) error) (*fabrictype.RunDetail, error) {
	for {
		events := stream(r, httpapi.FollowRun, httpapi.FollowRunInput{RunName: r.name()})
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
		d, err := describeRun(r, httpapi.GetRunInput{RunName: r.name()})
		if err != nil || d.State != "running" {
			return d, err
		}
	}
}

// compact is a JSON text for a cell.
func compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}
