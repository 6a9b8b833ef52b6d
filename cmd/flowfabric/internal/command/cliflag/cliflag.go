package cliflag

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Tags reads key=value, several times.
type Tags map[string]string

// String implements pflag.Value.
func (t Tags) String() string { return output.Tags(t) }

// Type implements pflag.Value.
func (t Tags) Type() string { return "key=value" }

// Set implements pflag.Value.
func (t Tags) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return fmt.Errorf("%q is not key=value", text)
	}
	t[key] = value
	return nil
}

// JSON reads JSON, or @FILE, or @- for the standard input.
type JSON struct{ Text string }

func DeclareJSON(flags *pflag.FlagSet, name, usage string) *JSON {
	f := &JSON{}
	flags.StringVar(&f.Text, name, "", usage+": `JSON`, @FILE, or @- for the standard input")
	return f
}

// Check returns an error for a text that is not JSON. Files are read later.
func (f *JSON) Check(name string) error {
	if f.Text != "" && !strings.HasPrefix(f.Text, "@") && !json.Valid([]byte(f.Text)) {
		return fmt.Errorf("--%s %.80q: must be JSON or @FILE", name, f.Text)
	}
	return nil
}

// Read returns the JSON; nil without the flag.
func (f *JSON) Read(r *shell.Request, name string) (json.RawMessage, error) {
	file, isFile := strings.CutPrefix(f.Text, "@")
	if f.Text == "" || !isFile {
		return json.RawMessage(f.Text), nil
	}
	var text []byte
	var err error
	if file == "-" {
		text, err = io.ReadAll(r.Stdin)
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, shell.Usage("--%s: %w", name, err)
	}
	if !json.Valid(text) {
		return nil, shell.Usage("--%s: %s is not JSON", name, file)
	}
	return text, nil
}

// Query are the flags that select runs.
type Query struct {
	search                         string
	at                             time.Time // of the search
	flow, states, text, key, order string
	since, until, finished         *Time
	tags                           Tags
	queued, children               bool
}

// runStates are the states of runs.
var runStates = []string{
	string(fabrictype.RunRunning), string(fabrictype.RunSucceeded), string(fabrictype.RunFailed),
	string(fabrictype.RunCancelled), string(fabrictype.RunExpired),
}

// completeStates completes the last one of states with commas.
func completeStates(_ *cobra.Command, _ []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := text[:strings.LastIndexByte(text, ',')+1]
	var found []cobra.Completion
	for _, state := range runStates {
		if strings.HasPrefix(before+state, text) {
			found = append(found, before+state)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

func DeclareQuery(c *cobra.Command) *Query {
	q, flags := &Query{tags: Tags{}}, c.Flags()
	flags.StringVar(&q.search, "search", "",
		"only runs that have these words: states, times (yesterday, 2h, 2026-11-28), values of tags, words of errors")
	flags.StringVar(&q.flow, "flow", "", "only runs of this flow")
	flags.StringVar(&q.states, "state", "", "only these states, with commas: "+strings.Join(runStates, ", "))
	shell.Must(c.RegisterFlagCompletionFunc("state", completeStates))
	q.since = DeclareSince(flags, "since", "only runs that were started since then")
	q.finished = DeclareSince(flags, "finished", "only runs that ended since then, the last ones first")
	q.until = DeclareUntil(flags, "until", "only runs that were started, or with --finished that ended, before")
	flags.StringVar(&q.text, "text", "", "only runs whose id or flow's name contains this")
	flags.StringVar(&q.key, "key", "", "only runs with this key")
	flags.BoolVar(&q.queued, "queued", false, "only runs that wait in the queue of their key")
	flags.StringVar(&q.order, "sort", "", "-created (the newest first), created, -finished or finished")
	flags.Var(q.tags, "tag", "only runs with this tag; may be given several times")
	flags.BoolVar(&q.children, "children", false, "also child runs of maps and sub-flows")
	return q
}

// Query returns the query. Check has read its times.
func (q *Query) Query() runtime.RunQuery {
	query := runtime.RunQuery{
		Search: q.search, SearchAt: q.at, Flow: q.flow, Tags: q.tags, Text: q.text, Sort: q.order, Children: q.children,
		Key: q.key, Queued: q.queued,
	}
	for text := range strings.SplitSeq(q.states, ",") {
		if text = strings.TrimSpace(text); text != "" {
			query.States = append(query.States, fabrictype.RunState(text))
		}
	}
	query.CreatedFrom, query.FinishedFrom = q.since.Time, q.finished.Time
	if q.finished.Text != "" {
		query.FinishedBefore = q.until.Time
	} else {
		query.CreatedBefore = q.until.Time
	}
	return query
}

// Check reads the times and checks the query.
func (q *Query) Check(now time.Time) error {
	if q.search != "" {
		q.at = now
	}
	return errors.Join(q.since.Parse("since", now), q.finished.Parse("finished", now), q.until.Parse("until", now),
		q.Query().Check())
}

// Limit bounds how many elements of a list are printed.
type Limit struct {
	n int
	// inTables applies to tables without the flag. Programs that read another format get all.
	inTables int
}

func DeclareLimit(c *cobra.Command, inTables int) *Limit {
	f := &Limit{inTables: inTables}
	c.Flags().IntVar(&f.n, "limit", 0,
		fmt.Sprintf("at most so many, 0 is all; %d in tables by default, and all in other formats", inTables))
	return f
}

func (f *Limit) Check() error { return shell.NotNegative("limit", f.n) }

// Most returns how many elements are printed, 0 for all.
func (f *Limit) Most(r *shell.Request) int {
	if !r.Cmd.Flags().Changed("limit") && r.Out.ForPeople() {
		return f.inTables
	}
	return f.n
}

// List splits a text at commas, without spaces and empty parts.
func List(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func DeclareReason(c *cobra.Command, reason *string) {
	c.Flags().StringVar(reason, "reason", "paused by an operator", "why, for the record")
}

// LayoutGraph is the graph as JSON with places for drawing.
const LayoutGraph = "layout"

var drawings = []string{"outline", "mermaid", "dot", "svg", LayoutGraph}

func DeclareDrawing(c *cobra.Command, format *string) {
	c.Flags().StringVar(format, "graph", "outline", "outline, mermaid, dot (Graphviz), svg or layout (JSON)")
	shell.Must(c.RegisterFlagCompletionFunc("graph", cobra.FixedCompletions(drawings, cobra.ShellCompDirectiveNoFileComp)))
}

func CheckDrawing(format string) error {
	for _, known := range drawings {
		if format == known {
			return nil
		}
	}
	return fmt.Errorf("--graph %q: must be outline, mermaid, dot, svg or layout", format)
}
