package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// statusCommand shows one deployment, or which there are.
func statusCommand(ctx context.Context, p program, o options) error {
	return withClient(ctx, p, o, func(client *runtime.Client) error {
		if o.version == "" {
			return list(ctx, client, p, o)
		}
		run, err := client.Run(flowName, o.version).Describe(ctx)
		if err != nil {
			return err
		}
		waits, err := client.Run(flowName, o.version).Waitpoints(ctx)
		if err != nil {
			return err
		}
		writeStatus(p.stdout, run, waits)
		return nil
	})
}

// listed is how many deployments are listed at most.
const listed = 20

func list(ctx context.Context, client *runtime.Client, p program, o options) error {
	live, err := o.site.Live()
	if err != nil {
		return err
	}
	if live != "" {
		fmt.Fprintf(p.stdout, "%s is live.\n", live)
	}
	page, err := client.ListRuns(ctx, runtime.RunQuery{Flow: flowName}, "", listed)
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, run := range page.Items {
		fmt.Fprintf(table, "%s\t%s\t%s\n", run.Run, progressOf(run.State), run.CreatedAt.Local().Format(time.DateTime))
	}
	return errors.Join(err, table.Flush())
}

func progressOf(state fabrictype.RunState) string {
	switch state {
	case fabrictype.RunRunning:
		return "under way"
	case fabrictype.RunSucceeded:
		return "deployed"
	}
	return string(state)
}

// writeStatus shows each node of a deployment and the reason why it waits.
func writeStatus(out io.Writer, run *runtime.RunDescription, waits []runtime.Waitpoint) {
	fmt.Fprintf(out, "%s: %s, begun %s\n", run.Run, progressOf(run.State), run.CreatedAt.Local().Format(time.DateTime))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, n := range run.Nodes {
		text := strings.TrimSpace(strings.Join([]string{n.Reason, n.Waiting.Sentence, n.Message}, " "))
		text, _, _ = strings.Cut(text, "\n")
		fmt.Fprintf(table, "  %s\t%s\t%s\n", n.Name, n.State, text)
	}
	_ = table.Flush() // a closed standard output is not a failure
	for _, w := range waits {
		fmt.Fprintf(out, "%s: %d of %d answers, open for %s%s\n", w.Node, w.Received, w.Needed,
			time.Since(w.OpenedAt).Round(time.Second), escalation(w))
	}
}

// escalation describes when a wait escalates.
func escalation(w runtime.Waitpoint) string {
	switch {
	case w.Escalated:
		return ", escalated"
	case w.TimeoutAt.IsZero():
		return ""
	}
	return fmt.Sprintf(", escalates in %s", time.Until(w.TimeoutAt).Round(time.Second))
}
