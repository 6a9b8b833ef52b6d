package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
)

// executionView is an execution as -json shows it.
type executionView struct {
	ID        string            `json:"id"`
	Flow      string            `json:"flow_id,omitempty"`
	Kind      string            `json:"kind"`
	Lane      string            `json:"lane"`
	Namespace string            `json:"namespace,omitempty"`
	Priority  int               `json:"priority"`
	State     string            `json:"state"`
	Detail    string            `json:"detail,omitempty"`
	Attempts  int               `json:"attempts"`
	Worker    string            `json:"worker,omitempty"`
	Failure   string            `json:"failure,omitempty"`
	Created   time.Time         `json:"created,omitzero"`
	Started   time.Time         `json:"started,omitzero"`
	Completed time.Time         `json:"completed,omitzero"`
	Tags      map[string]string `json:"tags,omitempty"`
}

func viewOf(e admin.Execution) executionView {
	return executionView{
		string(e.ID), string(e.Flow), e.Kind, string(e.Lane), e.Namespace, e.Priority, string(e.State),
		e.BlockingDetail, e.Attempts,
		string(e.Worker), e.FailureReason, e.CreatedAt, e.StartedAt, e.CompletedAt, e.Tags,
	}
}

func prepareExecutions(flags *flag.FlagSet) action {
	tags := tagFlag{}
	lane := flags.String("lane", "", "only executions of this lane")
	state := flags.String("state", "",
		"only these states, with commas: waiting, delayed, active, suspended, completed, failed, …")
	flow := flags.String("flow-id", "", "only members of the flow with this id")
	index := flags.String("index", "",
		"only what stands in this index of the lane: eligible, delayed, active, suspended, terminal, …")
	limit := flags.Int("limit", 50, "at most so many; 0 is all")
	flags.Var(tags, "tag", "only executions with this tag, key=value; may be given several times")
	query := func() admin.ExecutionQuery {
		query := admin.ExecutionQuery{
			Lane: enginecore.LaneID(*lane), Flow: enginecore.FlowID(*flow), Tags: tags, Index: admin.Index(*index),
			WithTags: true,
		}
		for text := range strings.SplitSeq(*state, ",") {
			if text = strings.TrimSpace(text); text != "" {
				query.States = append(query.States, enginecore.PublicState(text))
			}
		}
		return query
	}
	check := need(nil, func() error { return notNegative("limit", *limit) }, func() error { return query().Check() })
	return action{check, func(ctx context.Context, s *session, out *output, _ []string) error {
		out.head("execution", "kind", "lane", "state", "priority", "attempts", "created", "detail")
		count := 0
		for e, err := range s.admin.Executions(ctx, query()) {
			if err != nil {
				return err
			}
			if count++; *limit > 0 && count > *limit {
				out.say("There are more; -limit shows them.")
				return nil
			}
			out.row(viewOf(e), string(e.ID), e.Kind, string(e.Lane), string(e.State), strconv.Itoa(e.Priority),
				strconv.Itoa(e.Attempts),
				at(e.CreatedAt), e.BlockingDetail)
		}
		return nil
	}}
}

func prepareExecution(*flag.FlagSet) action {
	check := func(args []string) error {
		if err := need([]string{"ID"})(args); err != nil {
			return err
		}
		if _, err := enginecore.ParseExecutionID(args[0]); err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		return nil
	}
	return action{check, func(ctx context.Context, s *session, out *output, args []string) error {
		e, err := s.admin.Execution(ctx, enginecore.ExecutionID(args[0]))
		if err != nil {
			return err
		}
		if out.lines {
			out.row(viewOf(e))
			return nil
		}
		for _, line := range [][2]string{
			{"execution", string(e.ID)}, {"flow", string(e.Flow)}, {"kind", e.Kind}, {"lane", string(e.Lane)},
			{"state", string(e.State)},
			{"phase", string(e.Phase)}, {"ownership", string(e.Ownership)}, {"eligibility", string(e.Eligibility)},
			{"detail", e.BlockingDetail}, {"priority", strconv.Itoa(e.Priority)},
			{"attempts", fmt.Sprintf("%d, %d retries, %d reclaims, %d replays", e.Attempts, e.Retries, e.Reclaims,
				e.Replays)},
			{"worker", string(e.Worker)}, {"lease until", at(e.LeaseExpiresAt)}, {"failure", e.FailureReason},
			{"cancelled", e.CancellationReason}, {"created", at(e.CreatedAt)}, {"started", at(e.StartedAt)},
			{"completed", at(e.CompletedAt)}, {"tags", tagsText(e.Tags)},
		} {
			if line[1] != "" && line[1] != "-" {
				out.row(nil, line[0], line[1])
			}
		}
		return nil
	}}
}
