package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/bulk"
)

// jobView is a bulk job as -json shows it.
type jobView struct {
	ID        string         `json:"id"`
	State     bulk.State     `json:"state"`
	Action    bulk.Action    `json:"action"`
	Query     string         `json:"query"`
	Rate      float64        `json:"rate,omitempty"`
	Most      int            `json:"most,omitempty"`
	By        string         `json:"by"`
	Created   time.Time      `json:"created"`
	Closed    time.Time      `json:"closed,omitzero"`
	StoppedBy string         `json:"stopped_by,omitempty"`
	Done      int            `json:"done"`
	Skipped   int            `json:"skipped"`
	Failed    int            `json:"failed"`
	Failures  []bulk.Failure `json:"failures,omitempty"`
}

// bulkFlags are the flags of actions and jobs.
type bulkFlags struct {
	reason, from, signal, payload *string
	all, everyRun                 *bool
	priority                      *int
	options                       bulk.Options
	query                         func() runtime.RunQuery
	selects                       func() error
}

func declareBulkFlags(flags *flag.FlagSet) *bulkFlags {
	f := &bulkFlags{
		reason:   flags.String("reason", "", "why, of cancel, cancel-pending and pause"),
		from:     flags.String("from", "", "of rerun: run this node again, and all that depends on it"),
		all:      flags.Bool("all", false, "of rerun: run all nodes again"),
		priority: flags.Int("priority", 0, "of priority: the new one"),
		signal:   flags.String("signal", "", "of signal: its name"),
		payload:  flags.String("payload", "", "of signal: what it carries, as JSON"),
		everyRun: flags.Bool("every-run", false, "act on every run, where no flag selects runs"),
	}
	flags.StringVar(&f.options.ID, "id", "", "the id of the job: starting it again has no further effect")
	flags.Float64Var(&f.options.Rate, "rate", 0, "at most so many runs a second; 0 is no bound")
	flags.IntVar(&f.options.Most, "most", 0, "at most so many runs; 0 is all")
	flags.StringVar(&f.options.Actor, "by", "flowfabric", "who asks for it, for the record")
	f.query, f.selects = queryFlags(flags)
	return f
}

// action is what the job does, by the name of the action.
func (f *bulkFlags) action(name string) (bulk.Action, error) {
	switch name {
	case "cancel":
		return bulk.Cancel(*f.reason), nil
	case "cancel-pending":
		return bulk.CancelPending(*f.reason), nil
	case "rerun":
		switch {
		case *f.all && *f.from != "":
			return bulk.Action{}, fmt.Errorf("%w: -all and -from exclude each other", errUsage)
		case *f.all:
			return bulk.RerunAll(), nil
		case *f.from != "":
			return bulk.RerunFrom(*f.from), nil
		}
		return bulk.RerunFailed(), nil
	case "purge":
		return bulk.Purge(), nil
	case "pause":
		return bulk.Pause(*f.reason), nil
	case "resume":
		return bulk.Resume(), nil
	case "priority":
		return bulk.Priority(*f.priority), nil
	case "signal":
		return bulk.Signal(*f.signal, json.RawMessage(*f.payload)), nil
	}
	return bulk.Action{}, fmt.Errorf("%w: there is no action %q: want cancel, cancel-pending, rerun, purge, pause, "+
		"resume, priority or signal", errUsage, name)
}

// check refuses arguments that make no sense.
func (f *bulkFlags) check(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: want start, preview, show, list or stop", errUsage)
	}
	switch args[0] {
	case "list":
		return need(nil)(args[1:])
	case "show", "stop":
		return need([]string{"ID"})(args[1:])
	case "start", "preview":
		return need([]string{"ACTION"}, f.selects, func() error {
			if len(f.query().Values()) == 0 && !*f.everyRun {
				return fmt.Errorf("%w: no flag selects runs: give -every-run to act on every run", errUsage)
			}
			_, err := f.action(args[1])
			return err
		})(args[1:])
	}
	return fmt.Errorf("%w: %q: want start, preview, show, list or stop", errUsage, args[0])
}

func prepareBulk(flags *flag.FlagSet) action {
	f := declareBulkFlags(flags)
	return action{f.check, func(ctx context.Context, s *session, out *output, args []string) error {
		switch args[0] {
		case "start":
			return f.start(ctx, s, out, args[1])
		case "preview":
			return f.preview(ctx, s, out, args[1])
		case "show":
			job, err := s.client.DescribeBulkJob(ctx, args[1])
			if err != nil {
				return err
			}
			headJobs(out)
			printJob(out, job)
			for _, failure := range job.Progress.Failures {
				out.say("failed: %s %s: %s", failure.Flow, failure.Run, failure.Error)
			}
			return nil
		case "stop":
			return done(out, "stopped", s.client.StopBulkJob(ctx, args[1], runtime.WithActor(f.options.Actor)))
		}
		headJobs(out)
		for job, err := range s.client.BulkJobs(ctx) {
			if err != nil {
				return err
			}
			printJob(out, job)
		}
		return nil
	}}
}

func (f *bulkFlags) start(ctx context.Context, s *session, out *output, name string) error {
	action, err := f.action(name)
	if err != nil {
		return err
	}
	job, err := s.client.StartBulkJob(ctx, f.query(), action, f.options)
	if err != nil {
		return err
	}
	headJobs(out)
	printJob(out, job)
	return nil
}

// previewView is a preview as -json shows it.
type previewView struct {
	Runs   int            `json:"runs"`
	States map[string]int `json:"states"`
	More   bool           `json:"more"`
	Sample []bulk.Run     `json:"sample"`
}

func (f *bulkFlags) preview(ctx context.Context, s *session, out *output, name string) error {
	action, err := f.action(name)
	if err != nil {
		return err
	}
	p, err := s.client.PreviewBulkJob(ctx, f.query(), action, f.options)
	if err != nil {
		return err
	}
	if out.lines {
		out.row(previewView{p.Runs, p.States, p.More, p.Sample})
		return nil
	}
	states, err := json.Marshal(p.States)
	if err != nil {
		return err
	}
	more := ""
	if p.More {
		more = "at least "
	}
	out.say("%s%d runs %s, among them:", more, p.Runs, states)
	out.head("flow", "run", "state", "created")
	for _, run := range p.Sample {
		out.row(nil, run.Flow, run.Run, run.State, at(run.CreatedAt))
	}
	return nil
}

func headJobs(out *output) {
	out.head("id", "state", "action", "query", "created", "closed", "done", "skipped", "failed")
}

func printJob(out *output, j *bulk.Job) {
	p := j.Progress
	out.row(jobView{
		j.ID, j.State, j.Action, j.Query, j.Rate, j.Most, j.Actor, j.CreatedAt, j.ClosedAt, j.StoppedBy, p.Done,
		p.Skipped, p.Failed, p.Failures,
	}, j.ID, string(j.State), actionText(j.Action), j.Query, at(j.CreatedAt), at(j.ClosedAt), strconv.Itoa(p.Done),
		strconv.Itoa(p.Skipped), strconv.Itoa(p.Failed))
}

// actionText shows an action in a cell.
func actionText(a bulk.Action) string {
	parts := []string{string(a.Kind), a.Scope, a.Signal}
	if a.Kind == bulk.KindPriority {
		parts = append(parts, strconv.Itoa(a.Priority))
	}
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}
