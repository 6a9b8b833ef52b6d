package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/fleet"
)

// workerView is a worker as -json shows it.
type workerView struct {
	Instance     string      `json:"instance"`
	Name         string      `json:"name"`
	State        fleet.State `json:"state"`
	Host         string      `json:"host"`
	PID          int         `json:"pid"`
	Build        fleet.Build `json:"build"`
	Lanes        []string    `json:"lanes"`
	Activities   []string    `json:"activities"`
	Capabilities []string    `json:"capabilities,omitempty"`
	Slots        int         `json:"slots"`
	Used         int         `json:"used"`
	Free         int         `json:"free"`
	Since        time.Time   `json:"since"`
	Reported     time.Time   `json:"reported"`
	DrainAt      time.Time   `json:"drain_requested,omitzero"`
	DrainBy      string      `json:"drain_requested_by,omitempty"`
}

func prepareWorkers(flags *flag.FlagSet) action {
	lane := flags.String("lane", "", "only workers that serve this lane")
	name := flags.String("activity", "", "only workers that serve this activity")
	return action{need(nil), func(ctx context.Context, s *session, out *output, _ []string) error {
		workers, err := s.client.Workers(ctx)
		if err != nil {
			return err
		}
		out.head("instance", "host", "pid", "build", "state", "used", "lanes", "activities", "since")
		for _, w := range workers {
			if !served(w.Lanes, *lane) || !served(w.Activities, *name) {
				continue
			}
			state := string(w.State)
			if w.State == fleet.Running && !w.DrainRequestedAt.IsZero() {
				state = "asked to drain"
			}
			out.row(workerView{
				string(w.Instance), w.Name, w.State, w.Host, w.PID, w.Build, w.Lanes, w.Activities, w.Capabilities,
				w.Slots, w.Used, w.Free(), w.Since, w.ReportedAt, w.DrainRequestedAt, w.DrainRequestedBy,
			}, string(w.Instance), w.Host, fmt.Sprint(w.PID), buildText(w.Build), state,
				fmt.Sprintf("%d/%d", w.Used, w.Slots), strings.Join(w.Lanes, ","), strings.Join(w.Activities, ","),
				at(w.Since))
		}
		return nil
	}}
}

// served reports whether a list has a name; an empty name is in every list.
func served(list []string, name string) bool {
	for _, has := range list {
		if has == name {
			return true
		}
	}
	return name == ""
}

// buildText is a build in a cell: its version and the beginning of its revision.
func buildText(b fleet.Build) string {
	revision := b.Revision[:min(len(b.Revision), 12)]
	if b.Modified {
		revision += "+"
	}
	return cmp.Or(strings.TrimSpace(b.Version+" "+revision), "-")
}

func prepareDrain(flags *flag.FlagSet) action {
	by := flags.String("by", "flowfabric", "who asks for it, for the record")
	check := need([]string{"INSTANCE"})
	return action{check, func(ctx context.Context, s *session, out *output, args []string) error {
		err := s.client.DrainWorker(ctx, enginecore.WorkerInstanceID(args[0]), runtime.WithActor(*by))
		return done(out, "draining", err)
	}}
}
