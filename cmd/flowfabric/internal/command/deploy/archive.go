package deploy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func Archive(a *shell.App) *cobra.Command {
	return a.Group("archive", "Keep runs that are over in files, and read them", archiveWrite(a), archiveList(a),
		archiveShow(a))
}

func archiveWrite(a *shell.App) *cobra.Command {
	var purgeAfter time.Duration
	var rescan bool
	c := a.Command(shell.Spec{
		Use: "write DIRECTORY", Short: "Add the runs that are over to an archive", EngineOnly: true,
		Long: "Adds all runs of the namespace that are over to the archive in a directory, unless it has them. With " +
			"--purge-after it then purges runs that are in the archive. It can be interrupted and repeated. Keep the " +
			"directory as the values of the runs in it deserve.",
		Example: "  flowfabric archive write /var/lib/runs --purge-after 168h --yes",
		Check:   func([]string) error { return shell.NotNegative("purge-after", purgeAfter) },
		Do: func(r *shell.Request) error {
			if purgeAfter > 0 {
				err := r.Confirm(fmt.Sprintf("purge the archived runs that ended more than %s ago", purgeAfter))
				if err != nil {
					return err
				}
			}
			client, err := runtime.NewClient(r.Session.Engine)
			if err != nil {
				return err
			}
			defer client.Close()
			where, err := a.Where()
			if err != nil {
				return err
			}
			if where.Actor != "" {
				client = client.As(where.Actor)
			}
			report, err := archive.Write(r, client, archive.Config{
				Dir: r.Args[0], PurgeAfter: purgeAfter, Rescan: rescan,
			})
			text := fmt.Sprintf("archived: %d, already archived: %d, changed in between: %d, purged: %d",
				report.Archived, report.Known, report.Changed, report.Purged)
			if err != nil {
				return fmt.Errorf("%w (%s)", err, text)
			}
			return r.Out.Value(report, strconv.Itoa(report.Archived), text)
		},
	})
	cliflag.DeclareDuration(c.Flags(), &purgeAfter, "purge-after", 0, "purge archived runs whose end is longer ago; 0 purges none")
	c.Flags().BoolVar(&rescan, "rescan", false, "look also at runs that ended long before the last end that was seen")
	c.Flags().BoolVarP(&a.Flags.Yes, "yes", "y", false, "do not ask")
	return c
}

var entryView = output.View[archive.Entry]{
	Name: func(e archive.Entry) string { return e.Flow + "/" + e.Run },
	Columns: []output.Column[archive.Entry]{
		{Name: "flow", Text: func(e archive.Entry) string { return e.Flow }},
		{Name: "run", Text: func(e archive.Entry) string { return e.Run }},
		{Name: "state", Text: func(e archive.Entry) string { return string(e.State) }},
		{Name: "created", Text: func(e archive.Entry) string { return output.At(e.CreatedAt) }},
		{Name: "closed", Text: func(e archive.Entry) string { return output.At(e.ClosedAt) }},
		{Name: "nodes", Text: func(e archive.Entry) string { return strconv.Itoa(e.Nodes) }},
		{Name: "failed node", Text: func(e archive.Entry) string { return e.FailedNode }},
	},
}

func archiveList(a *shell.App) *cobra.Command {
	var flow string
	var limit *cliflag.Limit
	c := a.Standalone(shell.Spec{
		Use: "list DIRECTORY", Short: "Show the runs of an archive; needs no engine", Columns: entryView.ColumnNames(),
		Check: func([]string) error { return limit.Check() },
		Do: func(r *shell.Request) error {
			kept, err := archive.Open(r.Args[0])
			if err != nil {
				return err
			}
			var entries []archive.Entry
			var damage error
			limit := limit.Most(r)
			for e, err := range kept.Entries(flow) {
				if err != nil {
					damage = errors.Join(damage, err)
					continue
				}
				if limit > 0 && len(entries) == limit {
					defer r.SayMore(true)
					break
				}
				entries = append(entries, e)
			}
			return errors.Join(output.List(r.Out, entryView, entries), damage)
		},
	})
	c.Flags().StringVar(&flow, "flow", "", "the runs of this flow alone")
	limit = cliflag.DeclareLimit(c, 100)
	return c
}

var archivedNodeView = output.View[fabrictype.Node]{
	Name: func(n fabrictype.Node) string { return n.Name },
	Columns: []output.Column[fabrictype.Node]{
		{Name: "node", Text: func(n fabrictype.Node) string { return n.Name }},
		{Name: "activity", Text: func(n fabrictype.Node) string { return n.Activity }},
		{Name: "state", Text: func(n fabrictype.Node) string { return string(n.State) }},
		{Name: "attempts", Text: func(n fabrictype.Node) string { return strconv.Itoa(n.Attempts) }},
		{Name: "reason", Text: func(n fabrictype.Node) string { return n.Reason }},
		{Name: "input", Wide: true, Text: func(n fabrictype.Node) string { return storedText(n.Input) }},
		{Name: "result", Text: func(n fabrictype.Node) string { return storedText(n.Result) }},
	},
}

// storedText shows a value; a value that is not JSON by its size.
func storedText(v *fabrictype.Value) string {
	switch {
	case v == nil:
		return ""
	case v.Codec == "json" && !v.Truncated:
		return string(v.Bytes())
	}
	return fmt.Sprintf("%d bytes (%s)", v.Size, v.Codec)
}

func archiveShow(a *shell.App) *cobra.Command {
	var events, logs bool
	c := a.Standalone(shell.Spec{
		Use: "show DIRECTORY FLOW RUN", Short: "Show a run of an archive; needs no engine",
		Long: "Shows the last archived end of a run with its nodes and their results. -o json prints all that the " +
			"archive has: definition, values, events and logs.",
		Columns: archivedNodeView.ColumnNames(),
		Do: func(r *shell.Request) error {
			kept, err := archive.Open(r.Args[0])
			if err != nil {
				return err
			}
			run, damage := kept.Run(r.Args[1], r.Args[2])
			if run == nil {
				return damage
			}
			if r.Out.ForPeople() {
				err = showArchived(r, run, events, logs)
			} else {
				err = r.Out.Value(run, run.Flow+"/"+run.Run, "")
			}
			return errors.Join(err, damage)
		},
	})
	c.Flags().BoolVar(&events, "events", false, "show the events of the run, too")
	c.Flags().BoolVar(&logs, "logs", false, "show the log lines of its activities, too")
	return c
}

func showArchived(r *shell.Request, run *archive.Run, events, logs bool) error {
	d := run.Description()
	r.Out.Say("%s of flow %s: %s, from %s to %s", run.Run, run.Flow, run.State, output.At(run.CreatedAt),
		output.At(run.ClosedAt))
	if d.Reason != "" {
		r.Out.Say("failed at %s: %s", d.FailedNode, d.Reason)
	}
	if d.Input != nil {
		r.Out.Say("input: %s", storedText(d.Input))
	}
	if d.Result != nil {
		r.Out.Say("result: %s", storedText(d.Result))
	}
	if err := output.List(r.Out, archivedNodeView, d.Nodes); err != nil {
		return err
	}
	if events {
		if run.EventsLost {
			r.Out.Say("The engine had dropped events of the run when it was archived.")
		}
		for _, e := range run.Events {
			r.Out.Say("%s", eventText(e))
		}
	}
	for _, n := range d.Nodes {
		for _, l := range run.Logs[n.Name] {
			if logs {
				r.Out.Say("%s", strings.Join(strings.Fields(fmt.Sprint(output.At(l.At), " ", n.Name, " ", l.Level, " ",
					l.Message, " ", string(l.Attrs))), " "))
			}
		}
	}
	return nil
}

// eventText shows an event on one line.
func eventText(e fabrictype.Event) string {
	text := output.At(e.At) + " " + string(e.Kind)
	for _, part := range []string{e.Node, e.Detail} {
		if part != "" {
			text += " " + part
		}
	}
	return text
}
