package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// tagFlag reads key=value, several times.
type tagFlag map[string]string

// String implements pflag.Value.
func (t tagFlag) String() string { return output.Tags(t) }

// Type implements pflag.Value.
func (t tagFlag) Type() string { return "key=value" }

// Set implements pflag.Value.
func (t tagFlag) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return fmt.Errorf("%q is not key=value", text)
	}
	t[key] = value
	return nil
}

// jsonFlag reads JSON, or @FILE, or @- for the standard input.
type jsonFlag struct{ text string }

func declareJSON(flags *pflag.FlagSet, name, usage string) *jsonFlag {
	f := &jsonFlag{}
	flags.StringVar(&f.text, name, "", usage+": `JSON`, @FILE, or @- for the standard input")
	return f
}

// check returns an error for a text that is not JSON. Files are read later.
func (f *jsonFlag) check(name string) error {
	if f.text != "" && !strings.HasPrefix(f.text, "@") && !json.Valid([]byte(f.text)) {
		return fmt.Errorf("--%s %.80q: must be JSON or @FILE", name, f.text)
	}
	return nil
}

// read returns the JSON; nil without the flag.
func (f *jsonFlag) read(r *request, name string) (json.RawMessage, error) {
	file, isFile := strings.CutPrefix(f.text, "@")
	if f.text == "" || !isFile {
		return json.RawMessage(f.text), nil
	}
	var text []byte
	var err error
	if file == "-" {
		text, err = io.ReadAll(r.Stdin)
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, usage("--%s: %w", name, err)
	}
	if !json.Valid(text) {
		return nil, usage("--%s: %s is not JSON", name, file)
	}
	return text, nil
}

// timeFlag reads a time of RFC 3339, a date, or a duration from now such as 90m or -2h.
type timeFlag struct {
	text string
	time time.Time
}

func declareTime(flags *pflag.FlagSet, name, usage string) *timeFlag {
	f := &timeFlag{}
	flags.StringVar(&f.text, name, "", usage+": `TIME` of RFC 3339, or a duration from now such as 90m or -24h")
	return f
}

// parse reads the time; zero without the flag.
func (f *timeFlag) parse(name string, now time.Time) error {
	if f.text == "" {
		return nil
	}
	var err error
	f.time, err = parseTime(f.text, now)
	if err != nil {
		return fmt.Errorf("--%s %w", name, err)
	}
	return nil
}

func parseTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: must be a time such as 2026-11-20T08:00:00Z, or a duration such as 90m", text)
}

// queryFlags are the flags that select runs.
type queryFlags struct {
	flow, states, text, key, order string
	since, finished                time.Duration
	tags                           tagFlag
	queued, children               bool
}

func declareQuery(flags *pflag.FlagSet) *queryFlags {
	q := &queryFlags{tags: tagFlag{}}
	flags.StringVar(&q.flow, "flow", "", "only runs of this flow")
	flags.StringVar(&q.states, "state", "",
		"only these states, with commas: running, succeeded, failed, cancelled, expired")
	flags.DurationVar(&q.since, "since", 0, "only runs that were started within this time, such as 90m or 24h")
	flags.DurationVar(&q.finished, "finished", 0, "only runs that ended within this time, the last ones first")
	flags.StringVar(&q.text, "text", "", "only runs whose id or flow's name contains this")
	flags.StringVar(&q.key, "key", "", "only runs with this key")
	flags.BoolVar(&q.queued, "queued", false, "only runs that wait in the queue of their key")
	flags.StringVar(&q.order, "sort", "", "-created (the newest first), created, -finished or finished")
	flags.Var(q.tags, "tag", "only runs with this tag; may be given several times")
	flags.BoolVar(&q.children, "children", false, "also child runs of maps and sub-flows")
	return q
}

// query returns the query.
func (q *queryFlags) query(now time.Time) runtime.RunQuery {
	query := runtime.RunQuery{
		Flow: q.flow, Tags: q.tags, Text: q.text, Sort: q.order, Children: q.children,
		Key: q.key, Queued: q.queued,
	}
	for text := range strings.SplitSeq(q.states, ",") {
		if text = strings.TrimSpace(text); text != "" {
			query.States = append(query.States, fabrictype.RunState(text))
		}
	}
	if q.since > 0 {
		query.CreatedFrom = now.Add(-q.since)
	}
	if q.finished > 0 {
		query.FinishedFrom = now.Add(-q.finished)
	}
	return query
}

func (q *queryFlags) check(now time.Time) error {
	return errors.Join(notNegative("since", q.since), notNegative("finished", q.finished), q.query(now).Check())
}

// notNegative checks a flag that is a bound.
func notNegative[N int | time.Duration | float64](name string, n N) error {
	if n < 0 {
		return fmt.Errorf("--%s %v: must not be negative", name, n)
	}
	return nil
}

// limitFlag bounds how many elements of a list are printed.
type limitFlag struct {
	n int
	// inTables applies to tables without the flag. Programs that read another format get all.
	inTables int
}

func declareLimit(c *cobra.Command, inTables int) *limitFlag {
	f := &limitFlag{inTables: inTables}
	c.Flags().IntVar(&f.n, "limit", 0,
		fmt.Sprintf("at most so many, 0 is all; %d in tables by default, and all in other formats", inTables))
	return f
}

func (f *limitFlag) check() error { return notNegative("limit", f.n) }

// most returns how many elements are printed, 0 for all.
func (f *limitFlag) most(r *request) int {
	if !r.cmd.Flags().Changed("limit") && r.out.ForPeople() {
		return f.inTables
	}
	return f.n
}

// counted is a number with its noun: "1 time", "2 times".
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// list splits a text at commas, without spaces and empty parts.
func list(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
