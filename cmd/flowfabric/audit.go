package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime/auditlog"
)

// auditView is an entry of the audit log as -json shows it.
type auditView struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Action  string    `json:"action"`
	Name    string    `json:"name"`
	Detail  string    `json:"detail,omitempty"`
	Failure string    `json:"failure,omitempty"`
	Cursor  string    `json:"cursor"`
}

func prepareAudit(flags *flag.FlagSet) action {
	var q auditlog.Query
	flags.StringVar(&q.Actor, "actor", "", "only actions of this actor")
	doing := flags.String("action", "", "only this action, such as set_limit")
	flags.StringVar(&q.Name, "name", "", "only actions on what has this name")
	since := flags.Duration("since", 0, "only actions of this time, up to now; 0 is all")
	limit := flags.Int("limit", 50, "show at most this many entries; 0 is all")
	check := need(nil, func() error {
		return errors.Join(notNegative("limit", *limit), notNegative("since", int(*since)))
	})
	return action{check, func(ctx context.Context, s *session, out *output, _ []string) error {
		q.Action = auditlog.Action(*doing)
		if *since > 0 {
			q.From = time.Now().Add(-*since)
		}
		out.head("time", "actor", "action", "name", "detail", "failure")
		shown := 0
		for e, err := range s.client.Audit(ctx, q) {
			if err != nil {
				return err
			}
			if *limit > 0 && shown == *limit {
				return nil
			}
			shown++
			out.row(auditView{e.ID, e.At, e.Actor, string(e.Action), e.Name, e.Detail, e.Failure, e.Cursor},
				at(e.At), e.Actor, string(e.Action), e.Name, e.Detail, e.Failure)
		}
		return nil
	}}
}
