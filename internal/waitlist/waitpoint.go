package waitlist

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/decision"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/explain"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// Waitpoint is a place at which a run waits, or has waited, for signals, with the token for these.
type Waitpoint struct {
	fabrictype.Wait
	Token activity.Token
	// Timer reports that the wait is the sleep of a node, which takes no signals and is not shown.
	Timer bool
}

// Explain returns the signals for which the waitpoint waits, in words.
func (w *Waitpoint) Explain() fabrictype.Explanation {
	e := fabrictype.Explanation{
		Reason: waitreason.Signals, Since: w.OpenedAt, Until: w.TimeoutAt, Subject: w.Step, Names: w.Signals,
		Have:   w.Received,
		Need:   w.Needed,
		Remedy: "answer it in the console, with flowfabric answer, or with Client.Signal and the token of RunRef.Waitpoints",
	}
	e.Sentence = "waits for " + w.needs()
	if w.Step != "" {
		e.Sentence += " at " + w.Step
	}
	e.Sentence += " since " + explain.Time(w.OpenedAt)
	if w.Needed > 1 {
		e.Sentence += fmt.Sprintf(", has %d of %d", w.Received, w.Needed)
	}
	switch {
	case w.Escalated:
		e.Reason = waitreason.Escalated
		e.Sentence += ", nobody came in time"
	case !w.TimeoutAt.IsZero():
		e.Sentence += fmt.Sprintf(", until %s (then: %s)", explain.Time(w.TimeoutAt), w.OnTimeout)
	}
	return e
}

// needs describes the signals that end the wait, in the words of the outline of a flow.
func (w *Waitpoint) needs() string {
	if w.State == fabrictype.WaitPending {
		return "a signal" // the function has not said which
	}
	wait := activityspec.Wait{All: w.All, Count: w.Needed, Distinct: w.Distinct, Decisive: w.Decisive}
	for _, name := range w.Signals {
		if !slices.Contains(w.Decisive, name) {
			wait.Signals = append(wait.Signals, name)
		}
	}
	return wait.Needs()
}

// ExplainSleep returns the end of a node's sleep, in words.
func (w *Waitpoint) ExplainSleep() fabrictype.Explanation {
	e := fabrictype.Explanation{
		Reason: waitreason.Timer, Since: w.OpenedAt, Until: w.TimeoutAt, Subject: w.Step,
		Remedy:   "flowfabric timer, RunRef.MoveTimer or RunRef.SkipTimer",
		Sentence: "sleeps until " + explain.Time(w.TimeoutAt),
	}
	if w.Step != "" {
		e.Sentence += " at " + w.Step
	}
	return e
}

func readWaitpoint(l enginerpc.ListedWaitpoint) (Waitpoint, error) {
	w := Waitpoint{Timer: l.Timer, Wait: fabrictype.Wait{
		Node: l.Node, Step: l.Step, ID: string(l.WaitpointID), ExecutionID: string(l.ExecutionID),
		State: waitState(l.State), OpenedAt: l.CreatedAt, TimeoutAt: l.TimeoutAt, Escalated: l.Escalated,
		Signals: l.Signals, All: l.MatchMode == "all", Distinct: l.Distinct, Needed: int(l.Needed),
		Received: int(l.Received),
	}}
	if err := w.readAbout(l.About); err != nil {
		return w, err
	}
	w.Decisive, w.Choices = l.Decisive, decision.Choices(l.Signals, w.AnswerSchema)
	if !l.ActivatedAt.IsZero() {
		w.OpenedAt = l.ActivatedAt
	}
	if w.State == fabrictype.WaitOpen && (!w.TimeoutAt.IsZero() || w.Escalated) {
		w.OnTimeout = string(submit.TimeoutBehavior(l.TimeoutBehavior))
	}
	if l.WaitpointToken == "" {
		return w, nil
	}
	var err error
	w.Token, err = engine.SealToken(l.ExecutionID, l.WaitpointID, l.WaitpointToken)
	return w, err
}

// readAbout reads the metadata of the wait.
func (w *Waitpoint) readAbout(stored []byte) error {
	if len(stored) == 0 {
		return nil
	}
	var about submit.StoredAbout
	if err := json.Unmarshal(stored, &about); err != nil {
		return fmt.Errorf("what is said of waitpoint %s cannot be read: %w", w.ID, err)
	}
	w.Title, w.Question, w.Audience = about.Title, about.Question, about.Audience
	if about.Answer != "" {
		w.AnswerSchema = json.RawMessage(about.Answer)
	}
	return nil
}

func waitState(engines string) fabrictype.WaitState {
	switch engines {
	case "pending":
		return fabrictype.WaitPending
	case "active":
		return fabrictype.WaitOpen
	}
	return fabrictype.WaitClosed
}
