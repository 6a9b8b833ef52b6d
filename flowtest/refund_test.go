package flowtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
)

type order struct {
	ID    int `json:"id"`
	Cents int `json:"cents"`
}

type receipt struct {
	Number string `json:"number"`
}

var errUnreal = errors.New("the real function was called")

// The activities of the flow under test. Their functions return an error: a test must not reach the real services.
var (
	charge = activity.New("card.charge", func(context.Context, order) (receipt, error) { return receipt{}, errUnreal },
		activity.Retry(activity.RetryPolicy{First: 10 * time.Minute, Attempts: 3, Factor: 1}), activity.StartToClose(time.Minute))
	mail = activity.New("mail.send", func(context.Context, receipt) (string, error) { return "", errUnreal })
	undo = activity.New("card.undo", func(context.Context, order) (string, error) { return "", errUnreal })
)

// refund is approved by a person within two hours, charged, and mailed; the charge is undone when the mail fails.
func refund(tb testing.TB) *flow.Definition[order, string] {
	tb.Helper()
	f := flow.New[order, string]("refund")
	approved := flow.Waitpoint[string](f, "approve", activity.Signals("approve"),
		activity.Timeout(2*time.Hour, activity.FailOnTimeout))
	paid := flow.Node(f, "charge", charge, f.Input(), flow.After(approved))
	sent := flow.Node(f, "mail", mail, paid)
	flow.Node(f, "undo", undo, f.Input(), flow.OnFailure(sent))
	flow.Return(f, sent)
	def, err := f.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return def
}

// fakes replaces all functions of the flow.
func fakes(t *flowtest.T) {
	flowtest.Fake(t, charge, func(_ context.Context, o order) (receipt, error) { return receipt{Number: "r-1"}, nil })
	flowtest.Fake(t, mail, func(_ context.Context, r receipt) (string, error) { return "mailed " + r.Number, nil })
	flowtest.Fake(t, undo, func(context.Context, order) (string, error) { return "undone", nil })
}

func TestRefund(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		fakes(t)
		t.Inject(charge, flowtest.Attempt(1), flowtest.Error(errors.New("no answer")))
		run := flowtest.Start(t, refund(t), order{ID: 7, Cents: 1200})
		run.Node("charge").Is("waiting_children")
		t.Advance(90 * time.Minute)
		run.Node("approve").Waiting().Signal("approve", "ann")
		if out := run.MustResult(); out != "mailed r-1" {
			t.Errorf("result %q", out)
		}
		run.Node("charge").Succeeded().Attempts(2)
		run.Node("undo").Skipped()
		run.Order("approve", "charge", "mail")
		if took := run.Elapsed().Truncate(time.Minute); took != 100*time.Minute {
			t.Errorf("the run took %s", took)
		}
		t.Log(run.Table())
	})
}
