package browsertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// The flow of most tests: it has every kind of node, and stops where a person has to answer.

type claim struct {
	Claim   string   `json:"claim"`
	Amount  float64  `json:"amount"`
	Pages   int      `json:"pages"`
	Parts   int      `json:"parts"`
	Urgent  bool     `json:"urgent,omitempty"`
	Remarks []string `json:"remarks,omitempty"`
}

type verdict struct {
	Amount int64  `json:"amount"`
	Reason string `json:"reason,omitempty"`
}

type settlement struct {
	Claim    claim   `json:"claim"`
	Verdict  verdict `json:"verdict"`
	Parts    []int   `json:"parts"`
	Verified bool    `json:"verified"`
}

// desk has the activities of the flow. Activities that a test releases wait for its channels.
type desk struct {
	bank   chan struct{} // lets bank-check succeed
	handed chan struct{} // lets the map continue

	claims *flow.Definition[claim, string]
	media  *flow.Definition[claim, string]
	parts  *flow.Definition[claim, string]
	brief  *flow.Definition[claim, string]
	answer *flow.Definition[claim, string]
}

func (d *desk) handlers(t *testing.T) []activity.Handler {
	t.Helper()
	none := activity.Retry(activity.RetryPolicy{Attempts: 1})
	list := activity.New("claims.pages", func(_ context.Context, c claim) ([]int, error) { return numbers(c.Pages), nil })
	scan := activity.New("claims.scan", func(_ context.Context, page int) (int, error) { return page, nil })
	var tried sync.Map // claims
	extract := activity.New("claims.extract", func(ctx context.Context, c claim) (claim, error) {
		activity.Logger(ctx).Info("reading the pages", "claim", c.Claim)
		if _, again := tried.LoadOrStore(c.Claim, true); !again {
			return c, errors.New("the scanner timed out after 2 s")
		}
		if err := activity.ReportUsage(ctx, "tokens", 4000+int64(len(c.Claim))*100); err != nil {
			return c, err
		}
		for _, word := range []string{"The ", "photos ", "show ", "a ", "dented ", "door.\n", "No ", "other ", "damage."} {
			if err := activity.Emit(ctx, activity.Frame{Kind: "text", Payload: word}); err != nil {
				return c, err
			}
		}
		return c, nil
	}, activity.Retry(activity.RetryPolicy{Attempts: 3, First: time.Millisecond, Factor: 1}))
	score := activity.New("claims.score", func(_ context.Context, c claim) (claim, error) { return c, nil })
	parts := activity.New("claims.parts", func(_ context.Context, c claim) ([]int, error) { return numbers(c.Parts), nil })
	price := activity.New("claims.price", func(ctx context.Context, n int) (int, error) {
		if n%3 == 2 {
			select {
			case <-d.handed:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return n * 10, nil
	})
	bank := activity.New("claims.bank", func(_ context.Context, c claim) (bool, error) {
		select {
		case <-d.bank:
			return true, nil
		default:
			return false, activity.RetryAfter(errors.New("503 from bank-api\nretry later"), 10*time.Minute)
		}
	}, activity.Retry(activity.RetryPolicy{Attempts: 5, First: time.Minute, Factor: 1}))
	settle := activity.New("claims.settle", func(_ context.Context, s settlement) (string, error) {
		if s.Verdict.Reason == "fail" {
			return "", activity.Category(activity.NonRetryable(errors.New("card_declined")), "payment")
		}
		return fmt.Sprintf("paid %d", s.Verdict.Amount), nil
	}, none)
	tell := activity.New("claims.tell", func(_ context.Context, text string) (string, error) { return text, nil })
	again := activity.New("claims.rescan", func(_ context.Context, c claim) (string, error) { return c.Claim, nil })
	gpu := activity.New("claims.model", func(_ context.Context, c claim) (string, error) { return c.Claim, nil },
		activity.Capabilities("gpu"))

	f := flow.New[claim, string]("claims.assess", flow.Describe("Reads a claim, prices the parts, asks a senior adjuster, and settles."),
		flow.Tag("claims.kind", "vehicle"), flow.Budget("models", flow.BudgetConfig{Hard: map[string]int64{"tokens": 10_000}, Soft: map[string]int64{"tokens": 8_000}}))
	pages := flow.Map(f, "pages", scan, flow.Node(f, "split", list, f.Input()))
	policy := flow.Node(f, "policy", score, f.Input())
	extracted := flow.Node(f, "extract", extract, policy, flow.After(pages))
	flow.Node(f, "re-scan", again, f.Input(), flow.OnFailure(pages))
	scored := flow.Node(f, "fraud-score", score, extracted)
	prices := flow.Map(f, "price-parts", price, flow.Node(f, "parts", parts, extracted))
	verified := flow.Node(f, "bank-check", bank, extracted)
	review := flow.Waitpoint[verdict](f, "review", activity.Title("Approve the settlement"),
		activity.Question("The amount is above 10,000. Two photos show different number plates."),
		activity.Audience("senior adjusters"), activity.Timeout(150*time.Minute, activity.Escalate), flow.After(scored))
	settled := flow.Node(f, "settle", settle, flow.Struct[settlement](flow.Field("claim", extracted),
		flow.Field("verdict", review), flow.Field("parts", prices), flow.Field("verified", verified)))
	flow.Node(f, "notify", tell, settled)
	flow.Node(f, "archive", tell, flow.Const("archived"), flow.Always(settled))
	flow.Node(f, "roll-back", tell, flow.Const("rolled back"), flow.OnFailure(settled))
	flow.Return(f, settled)
	def, err := f.Build()
	require.NoError(t, err)

	g := flow.New[claim, string]("media.transcode", flow.Describe("Needs a machine with a GPU."))
	flow.Return(g, flow.Node(g, "encode", gpu, g.Input()))
	other, err := g.Build()
	require.NoError(t, err)
	d.claims, d.media = def, other
	return append(append(def.Handlers(), other.Handlers()...), d.capacity(t)...)
}

// capacity declares the flows that wait: for permits of a limit, and in a lane without workers.
func (d *desk) capacity(t *testing.T) []activity.Handler {
	t.Helper()
	call := activity.New("parts.call", func(ctx context.Context, c claim) (string, error) {
		select {
		case <-d.handed:
			return c.Claim, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}, activity.Limit("parts-api", activity.LimitConfig{AtOnce: 2}))
	f := flow.New[claim, string]("parts.order", flow.Describe("Orders parts, two at once."))
	flow.Return(f, flow.Node(f, "order", call, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	d.parts = def

	think := activity.New("models.think", func(_ context.Context, c claim) (string, error) { return c.Claim, nil },
		activity.Lane("models"))
	g := flow.New[claim, string]("models.brief", flow.FairBy("claim"))
	flow.Return(g, flow.Node(g, "summarise", think, g.Input()))
	d.brief, err = g.Build()
	require.NoError(t, err)
	return append(def.Handlers(), d.spending(t)...)
}

// spending declares a flow whose runs share budgets: one for all, from which they reserve their amount, and one for each
// claimant.
func (d *desk) spending(t *testing.T) []activity.Handler {
	t.Helper()
	answer := activity.New("models.answer", func(ctx context.Context, c claim) (string, error) {
		if err := activity.ReportUsage(ctx, "calls", int64(c.Pages)); err != nil {
			return "", err
		}
		r, err := activity.Reserve(ctx, "words", int64(c.Amount))
		if err != nil {
			return "", err
		}
		select {
		case <-d.handed:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		return c.Claim, r.Settle(ctx, int64(c.Amount)/2)
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	f := flow.New[claim, string]("models.answer", flow.Describe("Answers questions about a claim."),
		flow.Budget("words", flow.BudgetConfig{Hard: map[string]int64{"words": 500}, Shared: true, OnExceeded: flow.BlockNodes}),
		flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 20}, PerKey: []string{"claim"}}))
	flow.Return(f, flow.Node(f, "write", answer, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	d.answer = def
	return def.Handlers()
}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i + 1
	}
	return list
}
