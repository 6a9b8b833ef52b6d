package runs

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/screen"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// redraw is the shortest time between two pictures of a run, and tick the longest.
const (
	redraw = 100 * time.Millisecond
	tick   = time.Second
)

func runWatch(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "watch FLOW RUN", Short: "Watch a run until it is over",
		Long: "Watches a run until it is over. A terminal shows the nodes in place; elsewhere each event is a line. " +
			"The exit code is 0 for a run that succeeded and 4 for any other.",
		Calls: []httpapi.Entry{httpapi.FollowRun, httpapi.GetRun}, Columns: eventView.ColumnNames(),
		Do: func(r *shell.Request) error {
			var d *fabrictype.RunDetail
			var err error
			if s := screen.New(r.Cmd.OutOrStdout(), r.Out.Mark); s != nil && r.Out.ForPeople() {
				d, err = watchOn(r, s)
			} else {
				stream := output.NewStream(r.Out, eventView)
				d, err = waitForEnd(r, stream.Print)
			}
			switch {
			case screen.Stopped(r, err):
				return nil
			case err != nil:
				return err
			case d.State != "succeeded":
				return notSuccessful(r.RunName(), string(d.State), d.FailedNode, reasonOf(d))
			}
			return nil
		},
	})
}

// watchOn draws a run whenever something happens in it, and every second while it runs.
func watchOn(r *shell.Request, s *screen.Screen) (*fabrictype.RunDetail, error) {
	happened, over := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		in := httpapi.FollowRunInput{RunName: r.RunName()}
		for _, err := range shell.Stream(r, httpapi.FollowRun, in) {
			if err != nil {
				over <- err
				return
			}
			select {
			case happened <- struct{}{}:
			default:
			}
		}
		over <- nil
	}()
	ended, closed := false, over
	for {
		d, err := DescribeRun(r, httpapi.GetRunInput{RunName: r.RunName()})
		if err != nil {
			return nil, err
		}
		if err := s.Draw(pictureOf(d, r.Now())); err != nil {
			return nil, err
		}
		if ended || d.State != "running" && d.OpenNodes == 0 {
			return d, nil
		}
		wait := time.NewTimer(tick)
		select {
		case <-happened:
			wait.Reset(redraw) // events at the same time are drawn once
			select {
			case <-wait.C:
			case <-r.Done():
			}
		case <-wait.C:
		case err := <-closed:
			if err != nil && httpclient.Code(err) != "events_lost" {
				return nil, err
			}
			closed, ended = nil, err == nil
		case <-r.Done():
		}
		wait.Stop()
		if r.Err() != nil {
			return nil, r.Err()
		}
	}
}

// marks show the states of nodes.
var marks = map[string]string{
	"completed": "✔", "failed": "✘", "active": "▶", "cancelled": "⊘", "expired": "⌛", "skipped": "-", "suspended": "⏸",
}

// pictureOf returns the lines that show a run.
func pictureOf(d *fabrictype.RunDetail, now time.Time) []string {
	lines := []string{fmt.Sprintf("%s of %s: %s, %d of %d nodes open, %s", d.Run, d.Flow, d.State, d.OpenNodes,
		len(d.Nodes), wording.Took(d.BeganAt, d.ClosedAt, now))}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	for _, n := range d.Nodes {
		mark := marks[string(n.State)]
		if mark == "" {
			mark = "·"
		}
		fmt.Fprintf(w, "%s %s\t%s\t%s\t%s\n", mark, output.Visible(n.Name), wording.State(n.State), lasted(n, now),
			output.Visible(progressText(n)))
	}
	_ = w.Flush() // to memory
	return append(lines, strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n")...)
}

func lasted(n fabrictype.Node, now time.Time) string {
	if n.StartedAt.IsZero() {
		return ""
	}
	return wording.Took(n.StartedAt, n.CompletedAt, now)
}

func progressText(n fabrictype.Node) string {
	switch {
	case n.Child != nil && n.Child.Open > 0:
		return childText(n)
	case n.State == "active" && (n.Percent > 0 || n.Message != ""):
		return fmt.Sprintf("%g%% %s", n.Percent, n.Message)
	default:
		return whyText(n)
	}
}

// childText says how many items of a map, or nodes of a child run, have ended.
func childText(n fabrictype.Node) string {
	done, all := n.Child.Total-n.Child.Open, n.Child.Total
	switch n.Kind {
	case fabrictype.KindMap:
		return fmt.Sprintf("%d of %s", done, wording.Counted(all, "item", "items"))
	case fabrictype.KindLoop:
		return fmt.Sprintf("turn %d: %d of %s", n.Generation, done, wording.Counted(all, "node", "nodes"))
	}
	return fmt.Sprintf("child run: %d of %s", done, wording.Counted(all, "node", "nodes"))
}
