package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// show prints the events of a run, and answers its approvals.
type show struct {
	client *runtime.Client
	run    *runtime.RunRef
	out    io.Writer
	lines  *bufio.Scanner // answers of a person; nil when the program approves
}

// pollEvery is the interval of checks for new turns and approvals.
const pollEvery = 100 * time.Millisecond

// follow shows turns and answers approvals until the run is over and shown.
func (s *show) follow(ctx context.Context, over <-chan struct{}) error {
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for shown := 0; ; {
		ended := false
		select {
		case <-over:
			ended = true
		default:
		}
		turns, err := s.run.Turns(ctx, turnsNode)
		if err != nil {
			return err
		}
		for ; shown < len(turns) && turns[shown].State != ""; shown++ {
			if err := s.turn(ctx, turns[shown]); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		if err := s.approvals(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
		case <-again.C:
		}
	}
}

// turn prints the tokens of a turn as they come, and its tool calls.
func (s *show) turn(ctx context.Context, t fabrictype.ChildRun) error {
	fmt.Fprintf(s.out, "\nTurn %d: ", t.Turn)
	attempt := 1
	for frame, err := range s.client.Run(t.Flow, t.Run).Stream(ctx, modelNode, "") {
		if err != nil {
			return err
		}
		if frame.Attempt != attempt {
			attempt = frame.Attempt
			fmt.Fprintf(s.out, "\nAttempt %d: ", attempt)
		}
		switch frame.Kind {
		case tokenFrame:
			var text string
			if err := frame.Decode(&text); err != nil {
				return err
			}
			fmt.Fprint(s.out, text)
		case callFrame:
			var call ToolCall
			if err := frame.Decode(&call); err != nil {
				return err
			}
			fmt.Fprintf(s.out, "\n  calls %s %s", call.Function.Name, call.Function.Arguments)
		}
	}
	fmt.Fprintln(s.out)
	return nil
}

// approvals answers the open waits of the run.
func (s *show) approvals(ctx context.Context) error {
	waits, err := s.run.Waitpoints(ctx)
	if err != nil {
		return err
	}
	for _, w := range waits {
		if w.State != fabrictype.WaitOpen {
			continue
		}
		fmt.Fprintf(s.out, "\n%s\n", w.Question)
		decision := s.decision()
		_, err := s.client.Signal(ctx, w.Token, runtime.Signal{
			Name: decision.Choice, Payload: decision, Source: decision.By, IdempotencyKey: decision.By,
		})
		if err != nil {
			return err
		}
		verb := "Refused"
		if decision.Choice == approve {
			verb = "Approved"
		}
		fmt.Fprintf(s.out, "%s by %s.\n", verb, decision.By)
	}
	return nil
}

// decision asks the person, if there is one. The end of the input is a no.
func (s *show) decision() activity.Decision {
	if s.lines == nil {
		return activity.Decision{Choice: approve, By: "the program"}
	}
	fmt.Fprint(s.out, "yes or no? ")
	d := activity.Decision{Choice: reject, By: "the person at the terminal"}
	if s.lines.Scan() && strings.HasPrefix(strings.ToLower(strings.TrimSpace(s.lines.Text())), "y") {
		d.Choice = approve
	}
	return d
}

// answer prints the result of a run.
func (s *show) answer(a Answer) {
	fmt.Fprintln(s.out, "\nTool calls:")
	for i, call := range a.Calls {
		fmt.Fprintf(s.out, "  %d. %s %s\n     %s\n", i+1, call.Tool, call.Arguments,
			strings.ReplaceAll(call.Result, "\n", "\n     "))
	}
	fmt.Fprintf(s.out, "\nAnswer: %s\n", a.Text)
}

// budget prints the usage of the run.
func (s *show) budget(ctx context.Context) error {
	state, err := s.client.Budget(budgetOf(s.run)).Describe(ctx)
	if err != nil {
		return err
	}
	amount := state.Amount(dimension)
	fmt.Fprintf(s.out, "Budget: %d of %d %s used\n", amount.Spent, amount.Hard, dimension)
	return nil
}

// budgetOf names the budget of a run.
func budgetOf(run *runtime.RunRef) fabrictype.BudgetName {
	return fabrictype.BudgetName{Name: budgetName, Flow: run.FlowName(), Run: run.ID()}
}
