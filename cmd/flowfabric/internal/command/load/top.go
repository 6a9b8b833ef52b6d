package load

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/screen"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// load is the work of an engine at a moment.
type load struct {
	At        time.Time      `json:"at"`
	Runs      map[string]int `json:"runs"`
	Ended     int            `json:"ended_this_hour"`
	Eligible  int            `json:"eligible"`
	Active    int            `json:"active"`
	Delayed   int            `json:"delayed"`
	Suspended int            `json:"suspended"`
	Workers   int            `json:"workers"`
	Used      int            `json:"used"`
	Slots     int            `json:"slots"`
	lanes     []fabrictype.Lane
	workers   []fabrictype.Worker
}

var loadView = output.View[load]{
	Name: func(l load) string { return l.At.UTC().Format(time.RFC3339) },
	Columns: []output.Column[load]{
		{Name: "time", Text: func(l load) string { return output.At(l.At) }},
		{Name: "running", Text: func(l load) string { return strconv.Itoa(l.Runs["running"]) }},
		{Name: "ended this hour", Text: func(l load) string { return strconv.Itoa(l.Ended) }},
		{Name: "eligible", Text: func(l load) string { return strconv.Itoa(l.Eligible) }},
		{Name: "active", Text: func(l load) string { return strconv.Itoa(l.Active) }},
		{Name: "delayed", Text: func(l load) string { return strconv.Itoa(l.Delayed) }},
		{Name: "suspended", Text: func(l load) string { return strconv.Itoa(l.Suspended) }},
		{Name: "workers", Text: func(l load) string { return strconv.Itoa(l.Workers) }},
		{Name: "slots", Text: func(l load) string { return fmt.Sprintf("%d/%d", l.Used, l.Slots) }},
	},
}

func Top(a *shell.App) *cobra.Command {
	var every time.Duration
	var count int
	c := a.Command(shell.Spec{
		Use: "top", Follows: true, Short: "Watch the runs, lanes and workers of an engine",
		Long: "Watches runs, lanes and workers until it is stopped. A terminal shows them in place; other outputs " +
			"get one line for each interval.",
		Calls:   []httpapi.Entry{httpapi.CountRuns, httpapi.ListLanes, httpapi.ListWorkers},
		Columns: loadView.ColumnNames(),
		Check: func([]string) error {
			if every < 100*time.Millisecond {
				return fmt.Errorf("--interval %s: must be at least 100ms", every)
			}
			return errors.Join(shell.NotNegative("count", count))
		},
		Do: func(r *shell.Request) error {
			s := screen.New(r.Cmd.OutOrStdout(), r.Out.Mark)
			stream := output.NewStream(r.Out, loadView)
			for shown := 1; ; shown++ {
				l, err := loadOf(r)
				if screen.Stopped(r, err) {
					return nil
				}
				if err != nil {
					return err
				}
				if s != nil && r.Out.ForPeople() {
					err = s.Draw(loadPicture(l))
				} else {
					err = stream.Print(*l)
				}
				if err != nil || shown == count {
					return err
				}
				if !screen.Sleep(r, every) {
					return nil
				}
			}
		},
	})
	c.Flags().DurationVar(&every, "interval", 2*time.Second, "the time between two looks")
	c.Flags().IntVar(&count, "count", 0, "end after so many looks; 0 is never")
	return c
}

func loadOf(r *shell.Request) (*load, error) {
	l := &load{At: r.Now(), Runs: map[string]int{}}
	states, err := shell.Call(r, httpapi.CountRuns, httpapi.CountRunsInput{By: []string{"state"}})
	if err != nil {
		return nil, err
	}
	for _, n := range states.Items {
		l.Runs[string(n.State)] += n.Runs
	}
	hour := runtime.RunQuery{FinishedFrom: l.At.Truncate(time.Hour)}.Values()
	ended, err := shell.Call(r, httpapi.CountRuns, httpapi.CountRunsInput{By: []string{"hour"}, Query: hour})
	if err != nil {
		return nil, err
	}
	for _, n := range ended.Items {
		l.Ended += n.Ends
	}
	lanes, err := shell.Call(r, httpapi.ListLanes, httpapi.Empty{})
	if err != nil {
		return nil, err
	}
	workers, err := shell.Call(r, httpapi.ListWorkers, httpapi.Empty{})
	if err != nil {
		return nil, err
	}
	l.lanes, l.workers, l.Workers = lanes.Items, workers.Items, len(workers.Items)
	for _, lane := range l.lanes {
		l.Eligible, l.Active = l.Eligible+lane.Eligible, l.Active+lane.Active
		l.Delayed, l.Suspended = l.Delayed+lane.Delayed, l.Suspended+lane.Suspended
	}
	for _, w := range l.workers {
		l.Used, l.Slots = l.Used+w.Used, l.Slots+w.Slots
	}
	return l, nil
}

// loadPicture returns the lines that show the load.
func loadPicture(l *load) []string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  runs: %d running, %d ended this hour  workers: %d, slots %d/%d\n\n", output.At(l.At),
		l.Runs["running"],
		l.Ended, l.Workers, l.Used, l.Slots)
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "LANE\tELIGIBLE\tACTIVE\tDELAYED\tSUSPENDED\tPAUSED")
	for _, lane := range l.lanes {
		paused := ""
		if !lane.PausedAt.IsZero() {
			paused = "paused"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", output.Visible(lane.Name), lane.Eligible, lane.Active, lane.Delayed,
			lane.Suspended, paused)
	}
	_ = w.Flush() // to memory
	fmt.Fprintln(&b)
	w = tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "WORKER\tHOST\tSTATE\tUSED\tLANES")
	for _, worker := range l.workers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d/%d\t%s\n", output.Visible(worker.Instance), output.Visible(worker.Host),
			wording.WorkerState(worker),
			worker.Used, worker.Slots, output.Visible(strings.Join(worker.Lanes, ",")))
	}
	_ = w.Flush() // to memory
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}
