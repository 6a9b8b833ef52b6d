package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/openwaits"
)

// waitView is a waitpoint as -json shows it.
type waitView struct {
	Flow     string          `json:"flow"`
	Run      string          `json:"run"`
	Node     string          `json:"node"`
	Step     string          `json:"step,omitempty"`
	State    string          `json:"state"`
	Title    string          `json:"title,omitempty"`
	Question string          `json:"question,omitempty"`
	Audience []string        `json:"audience,omitempty"`
	Opened   time.Time       `json:"opened"`
	Timeout  time.Time       `json:"timeout,omitzero"`
	Then     string          `json:"then,omitempty"`
	Signals  []string        `json:"signals,omitempty"`
	Needed   int             `json:"needed"`
	Received int             `json:"received"`
	Answer   json.RawMessage `json:"answer_schema,omitempty"`
}

func waitViewOf(w runtime.Waitpoint) waitView {
	return waitView{
		w.Flow, w.Run, w.Node, w.Step, string(w.State), w.Title, w.Question, w.Audience, w.OpenedAt, w.TimeoutAt,
		string(w.OnTimeout), w.Signals, w.Needed, w.Received, w.AnswerSchema,
	}
}

func prepareWaits(flags *flag.FlagSet) action {
	q := openwaits.Query{Tags: tagFlag{}}
	flags.StringVar(&q.Flow, "flow", "", "only waits of this flow")
	flags.Var(tagFlag(q.Tags), "tag", "only waits of runs with this tag, key=value; may be repeated")
	flags.StringVar(&q.Audience, "audience", "", "only waits that ask this audience")
	flags.StringVar(&q.Text, "text", "", "only waits with this text in their title or question")
	sort := flags.String("sort", string(openwaits.OldestFirst), "opened, -opened or due")
	limit := flags.Int("limit", 50, "show at most this many waits; 0 is all")
	check := func(args []string) error {
		if len(args) == 0 {
			return need(nil, func() error { return notNegative("limit", *limit) })(args)
		}
		return need([]string{"FLOW", "RUN"}, func() error {
			if flags.NFlag() > 0 && selects(flags) {
				return fmt.Errorf("%w: the flags select among the waits of all runs; leave FLOW and RUN out", errUsage)
			}
			return nil
		})(args)
	}
	return action{check, func(ctx context.Context, s *session, out *output, args []string) error {
		q.Sort = openwaits.Sort(*sort)
		waits := s.client.Waits(ctx, q)
		if len(args) > 0 {
			*limit = 0
			waits = waitsOfRun(ctx, s.client.Run(args[0], args[1]))
		}
		return printWaits(out, waits, *limit)
	}}
}

// selects reports whether a flag of the command itself is set.
func selects(flags *flag.FlagSet) (own bool) {
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "flow", "tag", "audience", "text", "sort", "limit":
			own = true
		}
	})
	return own
}

func waitsOfRun(ctx context.Context, run *runtime.RunRef) iter.Seq2[runtime.Waitpoint, error] {
	return func(yield func(runtime.Waitpoint, error) bool) {
		waits, err := run.Waitpoints(ctx)
		if err != nil {
			yield(runtime.Waitpoint{}, err)
		}
		for _, w := range waits {
			if !yield(w, nil) {
				return
			}
		}
	}
}

// printWaits prints up to limit waits; 0 is all.
func printWaits(out *output, waits iter.Seq2[runtime.Waitpoint, error], limit int) error {
	out.head("flow", "run", "node", "step", "state", "title", "opened", "timeout", "signals", "received")
	printed := 0
	for w, err := range waits {
		if err != nil {
			return err
		}
		if limit > 0 && printed == limit {
			return nil
		}
		printed++
		out.row(waitViewOf(w), w.Flow, w.Run, w.Node, w.Step, string(w.State), w.Title, at(w.OpenedAt), at(w.TimeoutAt),
			strings.Join(w.Signals, ","), fmt.Sprintf("%d of %d", w.Received, w.Needed))
	}
	return nil
}
