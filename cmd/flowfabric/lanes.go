package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// laneView is a lane as -json shows it.
type laneView struct {
	Lane      string      `json:"lane"`
	Paused    bool        `json:"paused,omitempty"`
	Eligible  int         `json:"eligible"`
	Active    int         `json:"active"`
	Delayed   int         `json:"delayed"`
	Suspended int         `json:"suspended"`
	Blocked   blockedView `json:"blocked"`
	Oldest    time.Time   `json:"oldest,omitzero"`
}

// blockedView counts what does not wait for a worker.
type blockedView struct {
	Dependencies int `json:"dependencies"`
	Budget       int `json:"budget"`
	Quota        int `json:"quota"`
	Route        int `json:"route"`
	Operator     int `json:"operator"`
}

func prepareLanes(*flag.FlagSet) action {
	return action{need(nil), func(ctx context.Context, s *session, out *output, _ []string) error {
		lanes, err := s.client.Lanes(ctx)
		if err != nil {
			return err
		}
		out.head("lane", "eligible", "active", "delayed", "suspended", "waiting for upstreams", "otherwise blocked",
			"oldest", "paused")
		for _, l := range lanes {
			paused := ""
			if l.Paused {
				paused = "since " + at(l.PausedSince) + " by " + l.PausedBy + " " + l.PauseReason
			}
			blocked := l.Blocked.Budget + l.Blocked.Quota + l.Blocked.Route + l.Blocked.Operator
			out.row(laneView{
				l.Name, l.Paused, l.Eligible, l.Active, l.Delayed, l.Suspended, blockedView(l.Blocked), l.Oldest,
			},
				l.Name, strconv.Itoa(l.Eligible), strconv.Itoa(l.Active), strconv.Itoa(l.Delayed),
				strconv.Itoa(l.Suspended),
				strconv.Itoa(l.Blocked.Dependencies), strconv.Itoa(blocked), at(l.Oldest), paused)
		}
		return nil
	}}
}

// pauseView is a pause as -json shows it.
type pauseView struct {
	Kind   string    `json:"kind"`
	Name   string    `json:"name"`
	Since  time.Time `json:"since"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

func preparePauses(*flag.FlagSet) action {
	return action{need(nil), func(ctx context.Context, s *session, out *output, _ []string) error {
		pauses, err := s.client.Pauses(ctx)
		if err != nil {
			return err
		}
		out.head("kind", "name", "since", "by", "reason")
		for _, p := range pauses {
			kind, name := "lane", p.Lane
			if p.Activity != "" {
				kind, name = "activity", p.Activity
			}
			out.row(pauseView{kind, name, p.Since, p.By, p.Reason}, kind, name, at(p.Since), p.By, p.Reason)
		}
		return nil
	}}
}

func preparePause(flags *flag.FlagSet) action {
	reason := flags.String("reason", "paused by an operator", "why, for the record")
	by := flags.String("by", "flowfabric", "who asks for it, for the record")
	return action{checkSubject, func(ctx context.Context, s *session, out *output, args []string) error {
		c, actor := s.client, runtime.WithActor(*by)
		return subject(args, out, "paused",
			func(lane string) error { return c.PauseLane(ctx, lane, *reason, actor) },
			func(activity string) error { return c.PauseActivity(ctx, activity, *reason, actor) },
			func(flow, run string) error { return c.Run(flow, run).Pause(ctx, *reason, actor) })
	}}
}

func prepareResume(flags *flag.FlagSet) action {
	by := flags.String("by", "flowfabric", "who asks for it, for the record")
	return action{checkSubject, func(ctx context.Context, s *session, out *output, args []string) error {
		c := s.client
		return subject(args, out, "resumed",
			func(lane string) error { return c.ResumeLane(ctx, lane) },
			func(activity string) error { return c.ResumeActivity(ctx, activity) },
			func(flow, run string) error { return c.Run(flow, run).Resume(ctx, runtime.WithActor(*by)) })
	}}
}

// checkSubject refuses arguments that name neither a lane, nor an activity, nor a run.
func checkSubject(args []string) error {
	switch {
	case len(args) == 2 && (args[0] == "lane" || args[0] == "activity"), len(args) == 3 && args[0] == "run":
		return nil
	}
	return fmt.Errorf("%w: want lane NAME, activity NAME, or run FLOW RUN, got %q; a reason goes with -reason",
		errUsage, args)
}

// subject calls what fits the kind that the first argument names. The arguments have been checked.
func subject(
	args []string, out *output, what string, lane, activity func(string) error, run func(flow, run string) error,
) error {
	switch args[0] {
	case "lane":
		return done(out, what, lane(args[1]))
	case "activity":
		return done(out, what, activity(args[1]))
	}
	return done(out, what, run(args[1], args[2]))
}
