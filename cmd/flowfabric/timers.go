package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// prepareTimer moves a timer, or ends it.
func prepareTimer(flags *flag.FlagSet) action {
	to := flags.String("to", "", "the new `time`, in the form of RFC 3339")
	in := flags.Duration("in", 0, "the new time as a `duration` from now")
	skip := flags.Bool("skip", false, "end the sleep now")
	by := flags.String("by", "flowfabric", "who asks for it, for the record")
	var until time.Time
	check := func() (err error) {
		ways := 0
		for _, given := range []bool{*to != "", *in != 0, *skip} {
			if given {
				ways++
			}
		}
		switch {
		case ways != 1:
			return fmt.Errorf("%w: want one of -to, -in and -skip", errUsage)
		case *in < 0:
			return fmt.Errorf("%w: -in must not be negative, got %s", errUsage, *in)
		case *in > 0:
			until = time.Now().Add(*in)
		case *to != "":
			if until, err = time.Parse(time.RFC3339Nano, *to); err != nil {
				return fmt.Errorf("%w: -to: %w", errUsage, err)
			}
		}
		return nil
	}
	do := func(ctx context.Context, s *session, out *output, args []string) error {
		run := s.client.As(*by).Run(args[0], args[1])
		if *skip {
			return done(out, "skipped", run.SkipTimer(ctx, args[2]))
		}
		return done(out, "moved to "+at(until), run.MoveTimer(ctx, args[2], until))
	}
	return action{need([]string{"FLOW", "RUN", "NODE"}, check), do}
}

// turnView is a turn of a loop as -json shows it.
type turnView struct {
	Turn  int              `json:"turn"`
	Flow  string           `json:"flow"`
	Run   string           `json:"run"`
	State runtime.RunState `json:"state"`
}

func prepareTurns(*flag.FlagSet) action {
	do := func(ctx context.Context, s *session, out *output, args []string) error {
		turns, err := s.client.Run(args[0], args[1]).Turns(ctx, args[2])
		if err != nil {
			return err
		}
		out.head("turn", "flow", "run", "state")
		for _, t := range turns {
			out.row(turnView{t.Number, t.Flow, t.Run, t.State}, strconv.Itoa(t.Number), t.Flow, t.Run, string(t.State))
		}
		return nil
	}
	return action{need([]string{"FLOW", "RUN", "NODE"}), do}
}
