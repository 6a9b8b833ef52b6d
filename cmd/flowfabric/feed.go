package main

import (
	"context"
	"errors"
	"flag"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/runevent"
	"github.com/flowfabric/flowfabric-go/runtime/runfeed"
)

// eventView is an event of a run as -json shows it.
type eventView struct {
	At     time.Time     `json:"at"`
	Kind   runevent.Kind `json:"kind"`
	Flow   string        `json:"flow"`
	Run    string        `json:"run"`
	Node   string        `json:"node,omitempty"`
	Detail string        `json:"detail,omitempty"`
	Cursor string        `json:"cursor"`
}

func prepareFeed(flags *flag.FlagSet) action {
	name := flags.String("flow", "", "only events of this flow")
	kinds := flags.String("kind", "", "only these kinds, with commas, such as flow_failed,suspended")
	children := flags.Bool("children", false, "also events of child runs of maps and sub-flows")
	cursor := flags.String("cursor", "", "go on behind the event with this cursor, which -json prints")
	count := flags.Int("count", 0, "end after so many events; 0 is never")
	check := need(nil, func() error { return notNegative("count", *count) })
	return action{check, func(ctx context.Context, s *session, out *output, _ []string) error {
		filter := runfeed.Filter{Flow: *name, Children: *children}
		for kind := range strings.SplitSeq(*kinds, ",") {
			if kind = strings.TrimSpace(kind); kind != "" {
				filter.Kinds = append(filter.Kinds, runevent.Kind(kind))
			}
		}
		feed, err := s.client.Feed(ctx, filter, *cursor)
		if err != nil {
			return err
		}
		defer feed.Close()
		return printFeed(ctx, feed, out, *count)
	}}
}

// printFeed prints events until ctx ends, or as many as are wanted have come.
func printFeed(ctx context.Context, feed *runtime.Feed, out *output, count int) error {
	printed := 0
	for e, err := range feed.Events(ctx) {
		switch {
		case errors.Is(err, runtime.ErrEventsLost):
			out.say("Some events were dropped.")
			continue
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		view := eventView{e.At, e.Kind, e.Flow, e.Run, e.Node, e.Detail, ""}
		if out.lines {
			view.Cursor = feed.Cursor()
		}
		out.row(view, at(e.At), string(e.Kind), e.Flow, e.Run, e.Node, e.Detail)
		if err := out.flush(); err != nil {
			return err
		}
		if printed++; printed == count {
			return nil
		}
	}
	return nil
}
