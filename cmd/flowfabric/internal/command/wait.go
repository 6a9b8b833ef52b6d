package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var waitView = output.View[fabrictype.Wait]{
	Name: func(w fabrictype.Wait) string { return path(httpapi.RunName{Flow: w.Flow, Run: w.Run}) + " " + w.Node },
	Columns: []output.Column[fabrictype.Wait]{
		{Name: "flow", Text: func(w fabrictype.Wait) string { return w.Flow }},
		{Name: "run", Text: func(w fabrictype.Wait) string { return w.Run }},
		{Name: "node", Text: func(w fabrictype.Wait) string { return w.Node }},
		{Name: "step", Text: func(w fabrictype.Wait) string { return w.Step }},
		{Name: "state", Text: func(w fabrictype.Wait) string { return string(w.State) }},
		{Name: "title", Text: func(w fabrictype.Wait) string { return w.Title }},
		{Name: "question", Wide: true, Text: func(w fabrictype.Wait) string { return w.Question }},
		{Name: "audience", Wide: true, Text: func(w fabrictype.Wait) string { return strings.Join(w.Audience, ",") }},
		{Name: "opened", Text: func(w fabrictype.Wait) string { return output.At(w.OpenedAt) }},
		{Name: "timeout", Text: func(w fabrictype.Wait) string { return output.At(w.TimeoutAt) }},
		{Name: "signals", Text: func(w fabrictype.Wait) string { return strings.Join(w.Signals, ",") }},
		{
			Name: "received", Text: func(w fabrictype.Wait) string { return fmt.Sprintf("%d of %d", w.Received, w.Needed) },
		},
		{Name: "id", Wide: true, Text: func(w fabrictype.Wait) string { return w.ID }},
	},
}

func (a *App) inboxCommand() *cobra.Command {
	q := runtime.WaitQuery{Tags: tagFlag{}}
	var sort string
	var limit *limitFlag
	selecting := []string{"flow", "tag", "audience", "text", "sort", "limit"}
	var c *cobra.Command
	c = a.command(spec{
		use: "inbox [FLOW RUN]", short: "Show the open waits of all runs, or of one",
		example: "  flowfabric inbox --audience legal --sort due",
		calls:   []httpapi.Entry{httpapi.ListWaits, httpapi.ListRunWaits}, columns: waitView.ColumnNames(),
		check: func(args []string) error {
			for _, name := range selecting {
				if len(args) > 0 && c.Flags().Changed(name) {
					return fmt.Errorf("--%s selects among the waits of all runs: leave FLOW and RUN out", name)
				}
			}
			return limit.check()
		},
		do: func(r *request) error {
			if len(r.args) > 0 {
				waits, err := call(r, httpapi.ListRunWaits, httpapi.ListRunWaitsInput{RunName: r.name()})
				if err != nil {
					return err
				}
				return output.List(r.out, waitView, waits.Items)
			}
			q.Sort = sort
			query := q.Values()
			waits, more, err := pages(r, httpapi.ListWaits, limit.most(r), func(p api.Paging) httpapi.ListWaitsInput {
				return httpapi.ListWaitsInput{Paging: p, Query: query}
			})
			if err != nil {
				return err
			}
			err = output.List(r.out, waitView, waits)
			r.sayMore(more)
			return err
		},
	})
	c.Flags().StringVar(&q.Flow, "flow", "", "only waits of this flow")
	a.completeFlag(c, "flow", "FLOW")
	c.Flags().Var(tagFlag(q.Tags), "tag", "only waits of runs with this tag; may be given several times")
	c.Flags().StringVar(&q.Audience, "audience", "", "only waits that ask this audience")
	c.Flags().StringVar(&q.Text, "text", "", "only waits with this text in their title or question")
	c.Flags().StringVar(&sort, "sort", "opened", "opened, -opened or due")
	limit = declareLimit(c, 50)
	return c
}

// signalFlags are the flags of a signal.
type signalFlags struct {
	payload                       *jsonFlag
	source, category, correlation string
	idempotencyKey                string
}

func declareSignal(c *cobra.Command) *signalFlags {
	f := &signalFlags{payload: declareJSON(c.Flags(), "payload", "the payload")}
	c.Flags().StringVar(&f.source, "source", "", "the person who answers; the actor by default")
	c.Flags().StringVar(&f.category, "category", "", "the category of the signal")
	c.Flags().StringVar(&f.correlation, "correlation-id", "", "an id of yours for the signal")
	c.Flags().StringVar(&f.idempotencyKey, "idempotency-key", "",
		"a second signal with the same key gets the result of the first")
	return f
}

func (f *signalFlags) body(r *request, name string) (b api.SignalBody, err error) {
	b = api.SignalBody{
		Name: name, Source: f.source, Category: f.category, CorrelationID: f.correlation,
		IdempotencyKey: f.idempotencyKey,
	}
	b.Payload, err = f.payload.read(r, "payload")
	return b, err
}

func printDelivery(r *request, d *fabrictype.SignalResult, err error) error {
	if err != nil {
		return err
	}
	text := string(d.Outcome)
	if d.Outcome == fabrictype.SignalAccepted && !d.Counts {
		text += ", but it does not count for the wait"
	}
	return r.out.Value(d, string(d.Outcome), text)
}

// waitsAt returns the waits of a run itself, not of its child runs, that have the node and the step, where they are
// given. All open ones, or with closed the ended ones too.
func waitsAt(r *request, node, step string, closed bool) ([]fabrictype.Wait, error) {
	waits, err := call(r, httpapi.ListRunWaits, httpapi.ListRunWaitsInput{RunName: r.name(), Closed: closed})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(waits.Items, func(w fabrictype.Wait) bool {
		return w.Flow != r.args[0] || w.Run != r.args[1] || node != "" && w.Node != node || step != "" && w.Step != step
	}), nil
}

// theWait returns the wait of a run that an answer is for: the only open one, or the wait of the node and the step.
// With a key, which makes the answer repeatable, it is the closed wait where none is open. A closed wait is returned
// without its id, so that the reply has the effect of the first answer.
func theWait(r *request, node, step, key string) (fabrictype.Wait, error) {
	open, err := waitsAt(r, node, step, false)
	if err != nil {
		return fabrictype.Wait{}, err
	}
	if len(open) == 0 && key != "" {
		if open, err = waitsAt(r, node, step, true); err != nil {
			return fabrictype.Wait{}, err
		}
		for i := range open {
			open[i].ID = ""
		}
	}
	switch len(open) {
	case 1:
		return open[0], nil
	case 0:
		text := runText(r.name()) + " has no open wait"
		if node != "" {
			text += " at node " + strconv.Quote(node)
		}
		if step != "" {
			text += " with step " + strconv.Quote(step)
		}
		return fabrictype.Wait{}, &api.Problem{Status: 404, Code: "wait_not_found", Detail: text}
	}
	return fabrictype.Wait{}, usage("%s has %d open waits: name the NODE, and --step for one of its steps: %s",
		runText(r.name()), len(open),
		strings.Join(
			names(open, func(w fabrictype.Wait) string { return strings.TrimSuffix(w.Node+" "+w.Step, " ") }), ", ",
		))
}

func (a *App) answerCommand() *cobra.Command {
	var f *signalFlags
	var approve, reject bool
	var comment, name, step string
	c := a.command(spec{
		use: "answer FLOW RUN [NODE]", short: "Answer a wait of a run",
		long: "Answers the open wait of a run or of a node. --approve and --reject answer {\"approve\":true} " +
			"or false, with --comment as its comment; --payload is any other answer. The signal is the one that " +
			"the wait takes, or \"answer\" where it takes all; of several it is \"approve\" or \"reject\" by the " +
			"flags, and otherwise --signal must name it.",
		example: "  flowfabric answer demo-order first --approve --comment 'in stock'",
		calls:   []httpapi.Entry{httpapi.ListRunWaits, httpapi.SignalRun},
		check: func([]string) error {
			switch {
			case approve && reject:
				return errors.New("--approve and --reject exclude each other")
			case (approve || reject) && f.payload.text != "":
				return errors.New("--approve and --reject are a payload: leave --payload out")
			case comment != "" && !approve && !reject:
				return errors.New("--comment belongs to --approve or --reject")
			}
			return f.payload.check("payload")
		},
		do: func(r *request) error {
			node := ""
			if len(r.args) == 3 {
				node = r.args[2]
			}
			w := fabrictype.Wait{Node: node, Step: step}
			if node == "" || step == "" || name == "" {
				var err error
				if w, err = theWait(r, node, step, f.idempotencyKey); err != nil {
					return err
				}
			}
			signal, err := signalName(name, w, approve, reject)
			if err != nil {
				return err
			}
			in := httpapi.SignalRunInput{RunName: r.name()}
			if in.Body.SignalBody, err = f.body(r, signal); err != nil {
				return err
			}
			if approve || reject {
				in.Body.Payload = answerOf(approve, comment)
			}
			in.Body.Node, in.Body.Step, in.Body.Wait = w.Node, w.Step, w.ID
			d, err := call(r, httpapi.SignalRun, in)
			return printDelivery(r, d, err)
		},
	})
	f = declareSignal(c)
	c.Flags().BoolVar(&approve, "approve", false, "answer yes")
	c.Flags().BoolVar(&reject, "reject", false, "answer no")
	c.Flags().StringVar(&comment, "comment", "", "a comment of the answer")
	c.Flags().StringVar(&name, "signal", "", "the name of the signal")
	c.Flags().StringVar(&step, "step", "", "the step of the wait in its activity")
	return c
}

// signalName returns the name of the signal: the one that is given, the only one that the wait takes, or of several the
// one that the flags have the name of.
func signalName(name string, w fabrictype.Wait, approve, reject bool) (string, error) {
	switch {
	case name != "":
		return name, nil
	case len(w.Signals) == 0:
		return "answer", nil
	case len(w.Signals) == 1:
		return w.Signals[0], nil
	case approve && slices.Contains(w.Signals, "approve"):
		return "approve", nil
	case reject && slices.Contains(w.Signals, "reject"):
		return "reject", nil
	}
	return "", usage("the wait takes several signals: name one with --signal: %s", strings.Join(w.Signals, ", "))
}

func answerOf(approve bool, comment string) []byte {
	answer := struct {
		Approve bool   `json:"approve"`
		Comment string `json:"comment,omitempty"`
	}{approve, comment}
	return []byte(compact(answer))
}

func (a *App) signalCommand() *cobra.Command {
	var f *signalFlags
	var token, step string
	c := a.command(spec{
		use: "signal NAME [FLOW RUN NODE]", short: "Send a signal to a wait, by its node or its token",
		example: "  flowfabric signal paid orders 4711 payment --payload '{\"amount\":35}'\n" +
			"  flowfabric signal approve --signal-token \"$TOKEN\"",
		calls: []httpapi.Entry{httpapi.SignalRun, httpapi.SignalToken},
		check: func(args []string) error {
			switch {
			case token == "" && len(args) != 4:
				return errors.New("takes NAME FLOW RUN NODE, or NAME with --signal-token")
			case token != "" && len(args) != 1:
				return errors.New("--signal-token names the wait: leave FLOW, RUN and NODE out")
			}
			return f.payload.check("payload")
		},
		do: func(r *request) error {
			body, err := f.body(r, r.args[0])
			if err != nil {
				return err
			}
			if token != "" {
				in := httpapi.SignalTokenInput{}
				in.Body.Token, in.Body.SignalBody = token, body
				d, err := call(r, httpapi.SignalToken, in)
				return printDelivery(r, d, err)
			}
			in := httpapi.SignalRunInput{RunName: httpapi.RunName{Flow: r.args[1], Run: r.args[2]}}
			in.Body.Node, in.Body.Step, in.Body.SignalBody = r.args[3], step, body
			d, err := call(r, httpapi.SignalRun, in)
			return printDelivery(r, d, err)
		},
	})
	f = declareSignal(c)
	c.Flags().StringVar(&token, "signal-token", "", "the token of the wait")
	c.Flags().StringVar(&step, "step", "", "the step of the wait in its activity")
	return c
}

func (a *App) waitCommand() *cobra.Command {
	return a.group("wait", "Show, resume and cancel waits", a.waitShow(), a.waitSignals(), a.waitResume(), a.waitCancel())
}

func (a *App) waitShow() *cobra.Command {
	return a.command(spec{
		use: "show WAIT-TOKEN", short: "Show the wait that a token belongs to", calls: []httpapi.Entry{httpapi.GetTokenWait},
		columns: waitView.ColumnNames(),
		do: func(r *request) error {
			in := httpapi.TokenInput{}
			in.Body.Token = r.args[0]
			w, err := call(r, httpapi.GetTokenWait, in)
			if err != nil {
				return err
			}
			if !r.out.ForPeople() {
				return r.out.Value(w, waitView.Name(*w), "")
			}
			return output.List(r.out, waitView, []fabrictype.Wait{*w})
		},
	})
}

var signalView = output.View[fabrictype.ReceivedSignal]{
	Name: func(s fabrictype.ReceivedSignal) string { return s.ID },
	Columns: []output.Column[fabrictype.ReceivedSignal]{
		{Name: "time", Text: func(s fabrictype.ReceivedSignal) string { return output.At(s.At) }},
		{Name: "name", Text: func(s fabrictype.ReceivedSignal) string { return s.Name }},
		{Name: "source", Text: func(s fabrictype.ReceivedSignal) string { return s.Source }},
		{Name: "counts", Text: func(s fabrictype.ReceivedSignal) string { return fmt.Sprint(s.Counts) }},
		{Name: "payload", Text: func(s fabrictype.ReceivedSignal) string {
			if s.JSON != nil {
				return string(s.JSON)
			}
			return string(s.Data)
		}},
		{Name: "id", Wide: true, Text: func(s fabrictype.ReceivedSignal) string { return s.ID }},
	},
}

// waitHelp explains the argument WAIT.
const waitHelp = " WAIT is the node of the wait, or its id, which inbox -o wide shows."

// wait is the wait that the arguments name: by its node, or by its id, which may belong to a closed wait.
func (r *request) wait() (httpapi.WaitName, error) {
	name := httpapi.WaitName{RunName: r.name(), Wait: r.args[2]}
	for _, closed := range []bool{false, true} {
		at, err := waitsAt(r, r.args[2], "", closed)
		switch {
		case err != nil:
			return name, err
		case len(at) == 1:
			name.Wait = at[0].ID
			return name, nil
		case len(at) > 1:
			return name, usage("node %q has %d waits: name one by its id: %s", r.args[2], len(at), strings.Join(
				names(at, func(w fabrictype.Wait) string { return strings.TrimSuffix(w.ID+" "+w.Step, " ") }), ", "))
		}
	}
	return name, nil
}

func (a *App) waitSignals() *cobra.Command {
	return a.command(spec{
		use: "signals FLOW RUN WAIT", short: "Show the signals that a wait has received",
		long:    "Shows the signals that a wait has received." + waitHelp,
		calls:   []httpapi.Entry{httpapi.ListSignals, httpapi.ListRunWaits},
		columns: signalView.ColumnNames(),
		do: func(r *request) error {
			wait, err := r.wait()
			if err != nil {
				return err
			}
			signals, err := call(r, httpapi.ListSignals, httpapi.WaitInput{WaitName: wait})
			if err != nil {
				return err
			}
			return output.List(r.out, signalView, signals.Items)
		},
	})
}

func (a *App) waitResume() *cobra.Command {
	var payload *jsonFlag
	c := a.command(spec{
		use: "resume FLOW RUN WAIT", short: "End a wait with a payload, whatever it waits for",
		long:  "Ends a wait with a payload, whatever it waits for." + waitHelp,
		calls: []httpapi.Entry{httpapi.ResumeWait, httpapi.ListRunWaits},
		check: func([]string) error { return payload.check("payload") },
		do: func(r *request) error {
			wait, err := r.wait()
			if err != nil {
				return err
			}
			in := httpapi.ResumeWaitInput{WaitName: wait}
			if in.Body.Payload, err = payload.read(r, "payload"); err != nil {
				return err
			}
			_, err = call(r, httpapi.ResumeWait, in)
			return r.done("resumed", r.args[2], err)
		},
	})
	payload = declareJSON(c.Flags(), "payload", "the payload")
	return c
}

func (a *App) waitCancel() *cobra.Command {
	var reason string
	c := a.command(spec{
		use: "cancel FLOW RUN WAIT", short: "Cancel the node that waits",
		long:  "Cancels the node that waits." + waitHelp,
		calls: []httpapi.Entry{httpapi.CancelWait, httpapi.ListRunWaits},
		do: func(r *request) error {
			wait, err := r.wait()
			if err != nil {
				return err
			}
			look := func() error {
				_, err := call(r, httpapi.ListSignals, httpapi.WaitInput{WaitName: wait})
				return err
			}
			return r.destroy("cancel wait "+r.args[2]+" of "+runText(r.name()), look, func() error {
				in := httpapi.CancelWaitInput{WaitName: wait}
				in.Body.Reason = reason
				_, err := call(r, httpapi.CancelWait, in)
				return r.done("cancelled", r.args[2], err)
			})
		},
	})
	c.Flags().StringVar(&reason, "reason", "cancelled by an operator", "why, for the record")
	return c
}
