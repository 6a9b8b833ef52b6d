package main

import (
	"context"
	"encoding/json"
	"flag"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime/runlog"
)

// lineView is a line of a log as -json shows it.
type lineView struct {
	Node      string          `json:"node"`
	Attempt   int             `json:"attempt"`
	At        time.Time       `json:"at,omitzero"`
	Level     string          `json:"level"`
	Message   string          `json:"message"`
	Attrs     json.RawMessage `json:"attrs,omitempty"`
	Shortened bool            `json:"shortened,omitempty"`
	Cut       int             `json:"cut,omitempty"`
	Dropped   int             `json:"dropped_frames,omitempty"`
	Cursor    string          `json:"cursor"`
}

func prepareLogs(flags *flag.FlagSet) action {
	var q runlog.Query
	flags.BoolVar(&q.Follow, "f", false, "wait for further lines until the node has ended")
	flags.IntVar(&q.Attempt, "attempt", 0, "only lines of this attempt; 0 is all")
	flags.StringVar(&q.After, "cursor", "", "go on behind the line with this cursor, which -json prints")
	check := need([]string{"FLOW", "RUN", "NODE"}, func() error { return notNegative("attempt", q.Attempt) })
	return action{check, func(ctx context.Context, s *session, out *output, args []string) error {
		for l, err := range s.client.Run(args[0], args[1]).Logs(ctx, args[2], q) {
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return err
			}
			view := lineView{
				args[2], l.Attempt, l.At, l.Level.String(), l.Message, l.Attrs, l.Shortened, l.Cut, l.Dropped,
				l.Cursor,
			}
			if l.Dropped > 0 {
				out.say("%d frames with lines or emitted values before this line are not kept any more", l.Dropped)
			}
			out.row(view, at(l.At), strconv.Itoa(l.Attempt), l.Level.String(), l.Message, string(l.Attrs))
			if err := out.flush(); err != nil {
				return err
			}
		}
		return nil
	}}
}
