package main

import (
	"context"
	"flag"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/runcount"
)

// countView is a count of runs as -json shows it.
type countView struct {
	Hour  time.Time `json:"hour,omitzero"`
	Flow  string    `json:"flow"`
	State string    `json:"state"`
	Runs  int       `json:"runs"`
}

func prepareCounts(flags *flag.FlagSet) action {
	name := flags.String("flow", "", "only runs of this flow")
	children := flags.Bool("children", false, "also child runs of maps and sub-flows")
	hours := flags.Int("hours", 0, "how many ended in each of so many hours, at most 192; 0 is what there is now")
	check := need(nil, func() error { return notNegative("hours", *hours) })
	return action{check, func(ctx context.Context, s *session, out *output, _ []string) error {
		query := runtime.RunQuery{Flow: *name, Children: *children}
		by := []runcount.By{runcount.Flow, runcount.State}
		if *hours > 0 {
			query.FinishedFrom = time.Now().Truncate(time.Hour).Add(-time.Duration(*hours-1) * time.Hour)
			by = append(by, runcount.Hour)
		}
		counts, err := s.client.Counts(ctx, query, by...)
		if err != nil {
			return err
		}
		out.head("hour", "flow", "state", "runs")
		for _, n := range counts {
			out.row(countView{n.Hour, n.Flow, n.State, n.Runs}, at(n.Hour), n.Flow, n.State, strconv.Itoa(n.Runs))
		}
		return nil
	}}
}
