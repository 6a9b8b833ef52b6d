// Package waits has the commands that show waits, answer them and send signals.
package waits

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var waitView = output.View[fabrictype.Wait]{
	Name: func(w fabrictype.Wait) string {
		return wording.Path(httpapi.RunName{Flow: w.Flow, Run: w.Run}) + " " + w.Node
	},
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

func Inbox(a *shell.App) *cobra.Command {
	q := runtime.WaitQuery{Tags: cliflag.Tags{}}
	var sort string
	var limit *cliflag.Limit
	selecting := []string{"flow", "tag", "audience", "text", "sort", "limit"}
	var c *cobra.Command
	c = a.Command(shell.Spec{
		Use: "inbox [FLOW RUN]", Short: "Show the open waits of all runs, or of one",
		Example: "  flowfabric inbox --audience legal --sort due",
		Calls:   []httpapi.Entry{httpapi.ListWaits, httpapi.ListRunWaits}, Columns: waitView.ColumnNames(),
		Check: func(args []string) error {
			for _, name := range selecting {
				if len(args) > 0 && c.Flags().Changed(name) {
					return fmt.Errorf("--%s selects among the waits of all runs: leave FLOW and RUN out", name)
				}
			}
			return limit.Check()
		},
		Do: func(r *shell.Request) error {
			if len(r.Args) > 0 {
				waits, err := shell.Call(r, httpapi.ListRunWaits, httpapi.ListRunWaitsInput{RunName: r.RunName()})
				if err != nil {
					return err
				}
				return output.List(r.Out, waitView, waits.Items)
			}
			q.Sort = sort
			query := q.Values()
			page := func(p api.Paging) httpapi.ListWaitsInput {
				return httpapi.ListWaitsInput{Paging: p, Query: query}
			}
			waits, more, err := shell.Pages(r, httpapi.ListWaits, limit.Most(r), page)
			if err != nil {
				return err
			}
			err = output.List(r.Out, waitView, waits)
			r.SayMore(more)
			return err
		},
	})
	c.Flags().StringVar(&q.Flow, "flow", "", "only waits of this flow")
	a.CompleteFlag(c, "flow", "FLOW")
	c.Flags().Var(cliflag.Tags(q.Tags), "tag", "only waits of runs with this tag; may be given several times")
	c.Flags().StringVar(&q.Audience, "audience", "", "only waits that ask this audience")
	c.Flags().StringVar(&q.Text, "text", "", "only waits with this text in their title or question")
	c.Flags().StringVar(&sort, "sort", "opened", "opened, -opened or due")
	limit = cliflag.DeclareLimit(c, 50)
	return c
}

// signalFlags are the flags of a signal.
type signalFlags struct {
	payload                       *cliflag.JSON
	source, category, correlation string
	idempotencyKey                string
}

func declareSignal(c *cobra.Command) *signalFlags {
	f := &signalFlags{payload: cliflag.DeclareJSON(c.Flags(), "payload", "the payload")}
	c.Flags().StringVar(&f.source, "source", "", "the person who answers; the actor by default")
	c.Flags().StringVar(&f.category, "category", "", "the category of the signal")
	c.Flags().StringVar(&f.correlation, "correlation-id", "", "an id of yours for the signal")
	c.Flags().StringVar(&f.idempotencyKey, "idempotency-key", "",
		"a second signal with the same key gets the result of the first")
	return f
}

func (f *signalFlags) body(r *shell.Request, name string) (b api.SignalBody, err error) {
	b = api.SignalBody{
		Name: name, Source: f.source, Category: f.category, CorrelationID: f.correlation,
		IdempotencyKey: f.idempotencyKey,
	}
	b.Payload, err = f.payload.Read(r, "payload")
	return b, err
}

func printDelivery(r *shell.Request, d *fabrictype.SignalResult, err error) error {
	if err != nil {
		return err
	}
	text := string(d.Outcome)
	if d.Outcome == fabrictype.SignalAccepted && !d.Counts {
		text += ": it is kept for the wait, which has not begun"
	}
	return r.Out.Value(d, string(d.Outcome), text)
}

// waitsAt returns the waits of a run itself, not of its child runs, that have the node and the step, where they are
// given. All open ones, or with closed the ended ones too.
func waitsAt(r *shell.Request, node, step string, closed bool) ([]fabrictype.Wait, error) {
	waits, err := shell.Call(r, httpapi.ListRunWaits, httpapi.ListRunWaitsInput{RunName: r.RunName(), Closed: closed})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(waits.Items, func(w fabrictype.Wait) bool {
		return w.Flow != r.Args[0] || w.Run != r.Args[1] || node != "" && w.Node != node || step != "" && w.Step != step
	}), nil
}

// theWait returns the wait of a run that an answer is for: the only open one, or the wait of the node and the step.
// With a key, which makes the answer repeatable, it is the closed wait where none is open. A closed wait is returned
// without its id, so that the reply has the effect of the first answer.
func theWait(r *shell.Request, node, step, key string) (fabrictype.Wait, error) {
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
		text := wording.Run(r.RunName()) + " has no open wait"
		if node != "" {
			text += " at node " + strconv.Quote(node)
		}
		if step != "" {
			text += " with step " + strconv.Quote(step)
		}
		return fabrictype.Wait{}, &api.Problem{Status: 404, Code: "wait_not_found", Detail: text}
	}
	return fabrictype.Wait{}, shell.Usage("%s has %d open waits: name the NODE, and --step for one of its steps: %s",
		wording.Run(r.RunName()), len(open),
		strings.Join(
			wording.Names(open, func(w fabrictype.Wait) string { return strings.TrimSuffix(w.Node+" "+w.Step, " ") }), ", ",
		))
}

func Answer(a *shell.App) *cobra.Command {
	var f *signalFlags
	var approve, reject bool
	var comment, name, step string
	c := a.Command(shell.Spec{
		Use: "answer FLOW RUN [NODE]", Short: "Answer a wait of a run",
		Long: "Answers the open wait of a run or of a node. --approve and --reject send the signal of the wait that " +
			"agrees or refuses, with a payload that says the same, such as {\"choice\":\"approve\"}, and with --comment " +
			"as its comment; --payload is any other answer. The signal is the one that the wait takes, or \"answer\" " +
			"where it takes all; of several, --signal must name it. An answer that does not count has the exit code 4.",
		Example: "  flowfabric answer demo-order first --approve --comment 'in stock'",
		Calls:   []httpapi.Entry{httpapi.ListRunWaits, httpapi.SignalRun},
		Check: func([]string) error {
			switch {
			case approve && reject:
				return errors.New("--approve and --reject exclude each other")
			case (approve || reject) && f.payload.Text != "":
				return errors.New("--approve and --reject are a payload: leave --payload out")
			case comment != "" && !approve && !reject:
				return errors.New("--comment belongs to --approve or --reject")
			}
			return f.payload.Check("payload")
		},
		Do: func(r *shell.Request) error {
			node := ""
			if len(r.Args) == 3 {
				node = r.Args[2]
			}
			w := fabrictype.Wait{Node: node, Step: step}
			if node == "" || step == "" || name == "" || approve || reject {
				var err error
				if w, err = theWait(r, node, step, f.idempotencyKey); err != nil {
					return err
				}
			}
			choice, err := choiceOf(name, w, approve, reject)
			if err != nil {
				return err
			}
			in := httpapi.SignalRunInput{RunName: r.RunName()}
			if in.Body.SignalBody, err = f.body(r, choice.Signal); err != nil {
				return err
			}
			if approve || reject {
				in.Body.Payload = payloadOf(choice, w, comment)
			}
			in.Body.Node, in.Body.Step, in.Body.Wait = w.Node, w.Step, w.ID
			d, err := shell.Call(r, httpapi.SignalRun, in)
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

// choiceOf returns the answer: the signal that is given, the one that agrees or refuses, or the only one that the wait
// takes.
func choiceOf(name string, w fabrictype.Wait, approve, reject bool) (fabrictype.SignalChoice, error) {
	meaning := map[bool]string{true: "yes", false: "no"}[approve]
	var fitting []fabrictype.SignalChoice
	for _, c := range w.Choices {
		if (name == "" || c.Signal == name) && (!approve && !reject || c.Meaning == meaning) {
			fitting = append(fitting, c)
		}
	}
	switch {
	case len(fitting) == 1:
		return fitting[0], nil
	case name != "":
		return fabrictype.SignalChoice{Signal: name}, nil
	case len(w.Signals) == 0 && (approve || reject):
		return fabrictype.SignalChoice{Signal: map[bool]string{true: "approve", false: "reject"}[approve]}, nil
	case len(w.Signals) == 0:
		return fabrictype.SignalChoice{Signal: "answer"}, nil
	case len(w.Signals) == 1:
		return fabrictype.SignalChoice{Signal: w.Signals[0]}, nil
	}
	return fabrictype.SignalChoice{}, shell.Usage("the wait takes several signals: name one with --signal: %s",
		strings.Join(w.Signals, ", "))
}

// payloadOf returns the payload of an answer: the fields that say the same as its signal, and the comment. Where the
// wait has no such fields, it is an activity.Decision.
func payloadOf(choice fabrictype.SignalChoice, w fabrictype.Wait, comment string) []byte {
	payload := make(map[string]any)
	for name, value := range choice.Sets {
		payload[name] = value
	}
	if len(payload) == 0 && len(w.AnswerSchema) == 0 {
		payload["choice"] = choice.Signal
	}
	if comment != "" {
		payload["comment"] = comment
	}
	return []byte(wording.Compact(payload))
}

func Signal(a *shell.App) *cobra.Command {
	var f *signalFlags
	var token, step string
	c := a.Command(shell.Spec{
		Use: "signal NAME [FLOW RUN NODE]", Short: "Send a signal to a wait, by its node or its token",
		Example: "  flowfabric signal paid orders 4711 payment --payload '{\"amount\":35}'\n" +
			"  flowfabric signal approve --signal-token \"$TOKEN\"",
		Calls: []httpapi.Entry{httpapi.SignalRun, httpapi.SignalToken},
		Check: func(args []string) error {
			switch {
			case token == "" && len(args) != 4:
				return errors.New("takes NAME FLOW RUN NODE, or NAME with --signal-token")
			case token != "" && len(args) != 1:
				return errors.New("--signal-token names the wait: leave FLOW, RUN and NODE out")
			}
			return f.payload.Check("payload")
		},
		Do: func(r *shell.Request) error {
			body, err := f.body(r, r.Args[0])
			if err != nil {
				return err
			}
			if token != "" {
				in := httpapi.SignalTokenInput{}
				in.Body.Token, in.Body.SignalBody = token, body
				d, err := shell.Call(r, httpapi.SignalToken, in)
				return printDelivery(r, d, err)
			}
			in := httpapi.SignalRunInput{RunName: httpapi.RunName{Flow: r.Args[1], Run: r.Args[2]}}
			in.Body.Node, in.Body.Step, in.Body.SignalBody = r.Args[3], step, body
			d, err := shell.Call(r, httpapi.SignalRun, in)
			return printDelivery(r, d, err)
		},
	})
	f = declareSignal(c)
	c.Flags().StringVar(&token, "signal-token", "", "the token of the wait")
	c.Flags().StringVar(&step, "step", "", "the step of the wait in its activity")
	return c
}

func Wait(a *shell.App) *cobra.Command {
	return a.Group("wait", "Show, resume and cancel waits", waitShow(a), waitSignals(a), waitResume(a), waitCancel(a))
}

func waitShow(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "show WAIT-TOKEN", Short: "Show the wait that a token belongs to", Calls: []httpapi.Entry{httpapi.GetTokenWait},
		Columns: waitView.ColumnNames(),
		Do: func(r *shell.Request) error {
			in := httpapi.TokenInput{}
			in.Body.Token = r.Args[0]
			w, err := shell.Call(r, httpapi.GetTokenWait, in)
			if err != nil {
				return err
			}
			if !r.Out.ForPeople() {
				return r.Out.Value(w, waitView.Name(*w), "")
			}
			return output.List(r.Out, waitView, []fabrictype.Wait{*w})
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

// waitName is the wait that the arguments name: by its node, or by its id, which may belong to a closed wait.
func waitName(r *shell.Request) (httpapi.WaitName, error) {
	name := httpapi.WaitName{RunName: r.RunName(), Wait: r.Args[2]}
	for _, closed := range []bool{false, true} {
		at, err := waitsAt(r, r.Args[2], "", closed)
		switch {
		case err != nil:
			return name, err
		case len(at) == 1:
			name.Wait = at[0].ID
			return name, nil
		case len(at) > 1:
			return name, shell.Usage("node %q has %d waits: name one by its id: %s", r.Args[2], len(at), strings.Join(
				wording.Names(at, func(w fabrictype.Wait) string { return strings.TrimSuffix(w.ID+" "+w.Step, " ") }), ", "))
		}
	}
	return name, nil
}

func waitSignals(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "signals FLOW RUN WAIT", Short: "Show the signals that a wait has received",
		Long:    "Shows the signals that a wait has received." + waitHelp,
		Calls:   []httpapi.Entry{httpapi.ListSignals, httpapi.ListRunWaits},
		Columns: signalView.ColumnNames(),
		Do: func(r *shell.Request) error {
			wait, err := waitName(r)
			if err != nil {
				return err
			}
			signals, err := shell.Call(r, httpapi.ListSignals, httpapi.WaitInput{WaitName: wait})
			if err != nil {
				return err
			}
			return output.List(r.Out, signalView, signals.Items)
		},
	})
}

func waitResume(a *shell.App) *cobra.Command {
	var payload *cliflag.JSON
	c := a.Command(shell.Spec{
		Use: "resume FLOW RUN WAIT", Short: "End a wait with a payload, whatever it waits for",
		Long:  "Ends a wait with a payload, whatever it waits for." + waitHelp,
		Calls: []httpapi.Entry{httpapi.ResumeWait, httpapi.ListRunWaits},
		Check: func([]string) error { return payload.Check("payload") },
		Do: func(r *shell.Request) error {
			wait, err := waitName(r)
			if err != nil {
				return err
			}
			in := httpapi.ResumeWaitInput{WaitName: wait}
			if in.Body.Payload, err = payload.Read(r, "payload"); err != nil {
				return err
			}
			_, err = shell.Call(r, httpapi.ResumeWait, in)
			return r.PrintDone("resumed", r.Args[2], err)
		},
	})
	payload = cliflag.DeclareJSON(c.Flags(), "payload", "the payload")
	return c
}

func waitCancel(a *shell.App) *cobra.Command {
	var reason string
	c := a.Command(shell.Spec{
		Use: "cancel FLOW RUN WAIT", Short: "Cancel the node that waits",
		Long:  "Cancels the node that waits." + waitHelp,
		Calls: []httpapi.Entry{httpapi.CancelWait, httpapi.ListRunWaits},
		Do: func(r *shell.Request) error {
			wait, err := waitName(r)
			if err != nil {
				return err
			}
			look := func() error {
				_, err := shell.Call(r, httpapi.ListSignals, httpapi.WaitInput{WaitName: wait})
				return err
			}
			return r.Destroy("cancel wait "+r.Args[2]+" of "+wording.Run(r.RunName()), look, func() error {
				in := httpapi.CancelWaitInput{WaitName: wait}
				in.Body.Reason = reason
				_, err := shell.Call(r, httpapi.CancelWait, in)
				return r.PrintDone("cancelled", r.Args[2], err)
			})
		},
	})
	c.Flags().StringVar(&reason, "reason", "cancelled by an operator", "why, for the record")
	return c
}
