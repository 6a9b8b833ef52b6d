package waittest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// review is the payload of the waits in these tests.
type review struct {
	Grade int    `json:"grade"`
	Note  string `json:"note"`
}

// newReview builds a flow with one waitpoint.
func newReview(t *testing.T, name string, opts ...flow.WaitOption) *flow.Definition[int, review] {
	t.Helper()
	f := flow.New[int, review](name)
	flow.Return(f, flow.Waitpoint[review](f, "review", opts...))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// An inbox finds the open waits of all runs by age, deadline, flow, tag, audience and text, in pages.
func TestWaitsOfAllRuns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		legal := newReview(t, "contract", activity.Title("Contract with ACME"), activity.Question("Sign it?\nThink twice."),
			activity.Audience("legal", "board"), activity.Timeout(time.Hour, activity.Escalate))
		release := newReview(t, "release", activity.Audience("ops"), activity.Timeout(30*time.Minute, activity.FailOnTimeout))
		plain := newReview(t, "plain")
		start := func(def *flow.Definition[int, review], id string, opts ...runtime.StartOption) {
			_, err := runtime.Start(ctx, b.Client, def, 1, append(opts, runtime.WithID(id))...)
			require.NoError(t, err)
			fixture.AwaitWaits(t, b.Client, runtime.WaitQuery{Flow: def.Name(), Text: ""}, 1)
			enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 2*time.Millisecond)
		}
		start(legal, "l", runtime.WithTag("org.team", "red"))
		start(release, "r", runtime.WithTag("org.team", "blue"))
		start(plain, "p")

		all := fixture.AwaitWaits(t, b.Client, runtime.WaitQuery{}, 3)
		require.Equal(t, []string{"l", "r", "p"}, runsOf(all), "the oldest first")
		w := all[0]
		require.Equal(t, "Contract with ACME", w.Title)
		require.Equal(t, "Sign it?\nThink twice.", w.Question)
		require.Equal(t, []string{"legal", "board"}, w.Audience)
		require.Equal(t, map[string]string{"org.team": "red"}, w.Tags)
		require.EqualValues(t, activity.Escalate, w.OnTimeout)
		require.JSONEq(t, `{"type":["null","object"],"properties":{"grade":{"type":["null","integer"],"format":"int64"},
			"note":{"type":["null","string"]}}}`, string(w.AnswerSchema))
		for name, c := range map[string]struct {
			q    runtime.WaitQuery
			runs []string
		}{
			"newest":   {runtime.WaitQuery{Sort: "-opened"}, []string{"p", "r", "l"}},
			"due":      {runtime.WaitQuery{Sort: "due"}, []string{"r", "l"}},
			"flow":     {runtime.WaitQuery{Flow: "release"}, []string{"r"}},
			"tag":      {runtime.WaitQuery{Tags: map[string]string{"org.team": "red"}}, []string{"l"}},
			"audience": {runtime.WaitQuery{Audience: "board"}, []string{"l"}},
			"nobody":   {runtime.WaitQuery{Audience: "boar"}, nil},
			"text":     {runtime.WaitQuery{Text: "THINK"}, []string{"l"}},
			"from":     {runtime.WaitQuery{From: all[1].OpenedAt}, []string{"r", "p"}},
			"before":   {runtime.WaitQuery{Before: all[1].OpenedAt}, []string{"l"}},
			"between":  {runtime.WaitQuery{From: all[1].OpenedAt, Before: all[2].OpenedAt, Sort: "-opened"}, []string{"r"}},
			"due soon": {runtime.WaitQuery{Before: all[0].TimeoutAt, Sort: "due"}, []string{"r"}},
		} {
			require.Equal(t, c.runs, runsOf(fixture.AwaitWaits(t, b.Client, c.q, len(c.runs))), name)
		}
		var paged []string
		for cursor, first := "", true; first || cursor != ""; first = false {
			page, err := b.Client.ListWaits(ctx, runtime.WaitQuery{}, cursor, 1)
			require.NoError(t, err)
			paged = append(paged, runsOf(page.Items)...)
			cursor = page.Next
		}
		require.Equal(t, []string{"l", "r", "p"}, paged)
		_, err := b.Client.ListWaits(ctx, runtime.WaitQuery{}, "opened:x", 1)
		require.ErrorIs(t, err, runtime.ErrCursor)
		_, err = b.Client.ListWaits(ctx, runtime.WaitQuery{Sort: "age", Text: strings.Repeat("x", 257)}, "", 1)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, `sort "age"`)
		require.ErrorContains(t, err, "text")

		// Answered, cancelled and purged waits are no longer listed.
		_, err = b.Client.Signal(ctx, all[1].Token, runtime.Signal{Name: "ok", Payload: review{Grade: 1}})
		require.NoError(t, err)
		require.NoError(t, b.Client.Run("contract", "l").Cancel(ctx, "over"))
		require.Equal(t, []string{"p"}, runsOf(fixture.AwaitWaits(t, b.Client, runtime.WaitQuery{}, 1)))
		require.NoError(t, b.Client.Run("plain", "p").CancelWait(ctx, all[2], "not needed"))
		fixture.AwaitWaits(t, b.Client, runtime.WaitQuery{}, 0)
		b.Settle(t)
	})
}

// A text is found in one page after waits that fill several calls to each partition.
func TestTextIsFoundAfterManyWaits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		plain := newReview(t, "plain", activity.Title("Contract"))
		last := newReview(t, "last", activity.Title("Contract"), activity.Question("Ümlaut, and Sign"))
		var runs []runtime.NewRun[int]
		for range 120 * engine.ConnOf(b.Engine.Internal()).Partitioning().Flow {
			runs = append(runs, runtime.NewRun[int]{Input: 1})
		}
		_, err := runtime.StartMany(ctx, b.Client, plain, runs)
		require.NoError(t, err)
		enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 2*time.Millisecond)
		_, err = runtime.Start(ctx, b.Client, last, 1, runtime.WithID("l"))
		require.NoError(t, err)
		fixture.AwaitWaits(t, b.Client, runtime.WaitQuery{}, len(runs)+1)
		for _, text := range []string{"SIGN", "ümlaut"} { // only A to Z match in either case
			page, err := b.Client.ListWaits(ctx, runtime.WaitQuery{Text: text}, "", 1)
			require.NoError(t, err)
			if text == "SIGN" {
				require.Equal(t, []string{"l"}, runsOf(page.Items))
			} else {
				require.Empty(t, page.Items)
				require.Empty(t, page.Next)
			}
		}
		page, err := b.Client.ListWaits(ctx, runtime.WaitQuery{Text: "contract", Sort: "-opened"}, "", 1)
		require.NoError(t, err)
		require.Equal(t, []string{"l"}, runsOf(page.Items))
		require.NotEmpty(t, page.Next)
	})
}

func runsOf(waits []runtime.Waitpoint) []string {
	var runs []string
	for _, w := range waits {
		runs = append(runs, w.Run)
	}
	return runs
}

// A payload that does not satisfy the schema is refused with all faults, and the wait continues.
func TestAnswersAreChecked(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		ask := activity.New("ask", func(ctx context.Context, _ int) (review, error) {
			return activity.Await[review](ctx, "answer", activity.Title("Grade it"), activity.Signals("grade"))
		})
		f := flow.New[int, review]("ask")
		flow.Return(f, flow.Node(f, "ask", ask, f.Input()))
		asked, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, asked.Handlers())
		strict := newReview(t, "strict", activity.AnswerSchema(json.RawMessage(
			`{"type":"object","required":["grade"],"properties":{"grade":{"minimum":1},"note":{"type":"string"}}}`)))
		collected := flow.New[int, []activity.Signal[review]]("collected")
		flow.Return(collected, flow.WaitpointSignals[review](collected, "review", activity.AtLeast(2)))
		both, err := collected.Build()
		require.NoError(t, err)

		_, err = runtime.Start(ctx, b.Client, asked, 1, runtime.WithID("a"))
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, strict, 1, runtime.WithID("s"))
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, both, 1, runtime.WithID("c"))
		require.NoError(t, err)
		for _, c := range []struct {
			flow, run string
			payload   any
			faults    []string // none: it is taken
		}{
			{"ask", "a", map[string]any{"grade": "x", "note": 2}, []string{"/grade", "/note"}},
			{"ask", "a", []int{1}, []string{""}},
			{"ask", "a", map[string]any{"grade": 2, "more": true}, nil},
			{"strict", "s", nil, []string{""}},
			{"strict", "s", map[string]any{"grade": 0, "note": 1}, []string{"/grade", "/note"}},
			{"strict", "s", map[string]any{"note": "x"}, []string{"/grade"}},
			{"strict", "s", map[string]any{"grade": 3}, nil},
			{"collected", "c", "text", []string{""}},
			{"collected", "c", nil, nil},
			{"collected", "c", review{Grade: 3}, nil},
		} {
			w := fixture.AwaitWaits(t, b.Client, runtime.WaitQuery{Flow: c.flow}, 1)[0]
			got, err := b.Client.Signal(ctx, w.Token, runtime.Signal{Name: "grade", Payload: c.payload})
			if c.faults == nil {
				require.NoError(t, err)
				require.NotEqual(t, fabrictype.SignalClosed, got.Outcome)
				continue
			}
			require.ErrorIs(t, err, runtime.ErrInvalid)
			var wrong *fabrictype.ValueError
			require.ErrorAs(t, err, &wrong)
			var places []string
			for _, fault := range wrong.Faults {
				places = append(places, fault.Pointer)
			}
			require.Equal(t, c.faults, places, "%v", err)
			if c.flow != "collected" { // whose operators give lists of signals
				err = b.Client.Run(c.flow, c.run).ResumeWait(ctx, w, c.payload)
				require.ErrorAs(t, err, &wrong)
			}
			again := fixture.AwaitWaits(t, b.Client, runtime.WaitQuery{Flow: c.flow}, 1)[0]
			require.Equal(t, w.ID, again.ID)
			require.Equal(t, w.Received, again.Received)
		}
		for _, run := range []*runtime.RunRef{b.Client.Run("ask", "a"), b.Client.Run("strict", "s"), b.Client.Run("collected", "c")} {
			awaitRunState(t, run, fabrictype.RunSucceeded)
		}
		b.Settle(t)
	})
}

func awaitRunState(t *testing.T, run *runtime.RunRef, want fabrictype.RunState) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		d, err := run.Describe(enginetest.Context(t))
		if err != nil {
			return err.Error()
		}
		if d.State != want {
			return string(d.State)
		}
		return ""
	})
}

// A flow with a schema of another draft is not built: the fault has the flow, the node and the rule. Another schema
// that cannot be used is refused before anything is written.
func TestAnswerSchemaMustBeOne(t *testing.T) {
	t.Parallel()
	build := func(schema string, opts ...flow.WaitOption) (*flow.Definition[int, review], error) {
		f := flow.New[int, review]("bad")
		flow.Return(f, flow.Waitpoint[review](f, "review", append(opts, activity.AnswerSchema(json.RawMessage(schema)))...))
		return f.Build()
	}
	_, err := build(`{"$schema":"http://json-schema.org/draft-07/schema#"}`)
	require.ErrorContains(t, err, `flow "bad": node "review": wait: bad option: answer schema: `+
		"/$schema: draft 7 is not supported: schemas are of draft 2020-12 (wait_search_test.go:")

	b := enginetest.New(t, "embedded")
	for schema, want := range map[string]string{
		`{"$ref":"https://example.com/s"}`: "a reference out of the schema is not followed: https://example.com/s",
		`{"type":"objekt"}`:                "/type: fits no alternative: ",
		`{"minimum":"x"}`:                  "/minimum: expected number, but got string",
	} {
		def, err := build(schema)
		require.NoError(t, err)
		_, err = runtime.Start(enginetest.Context(t), b.Client, def, 1, runtime.WithID("x"))
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, "node review: ")
		require.ErrorContains(t, err, "answer schema: schema is not usable: "+want)
	}
	_, err = b.Client.Run("bad", "x").Describe(enginetest.Context(t))
	require.ErrorIs(t, err, engine.ErrRunNotFound)

	_, err = build(`{`, activity.Title("a\nb"), activity.Audience("x", "x"), activity.Audience(""))
	for _, part := range []string{"answer schema is not JSON", "title", `"x" is named twice`, "name 3 is empty"} {
		require.ErrorContains(t, err, part)
	}
}

// A holder of the token sees the question; operators see the received signals with source and payload.
func TestReceivedSignals(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		def := newReview(t, "vote", activity.Title("Vote"), activity.Signals("yes"), activity.AtLeastDistinct(3))
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("v"), runtime.WithTag("org.team", "red"))
		require.NoError(t, err)
		w := fixture.AwaitWaits(t, b.Client, runtime.WaitQuery{}, 1)[0]
		const sent = 120
		for i := range sent {
			source := "ann"
			if i == sent-1 {
				source = "bob"
			}
			_, err := b.Client.Signal(ctx, w.Token, runtime.Signal{
				Name: "yes", Source: source, CorrelationID: fmt.Sprint(i), Payload: review{Grade: i, Note: strings.Repeat("x", 4000)},
			})
			if 0 < i && i < sent-1 {
				require.ErrorIs(t, err, runtime.ErrSignalDoesNotCount) // and it is recorded
				continue
			}
			require.NoError(t, err)
		}
		var got []fabrictype.ReceivedSignal
		for s, err := range b.Client.Run("vote", "v").ReceivedSignals(ctx, w) {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(len(got)), s.CorrelationID)
			var r review
			require.NoError(t, json.Unmarshal(s.Payload(), &r))
			require.Equal(t, len(got), r.Grade)
			require.Equal(t, len(got) == 0 || len(got) == sent-1, s.Counts)
			got = append(got, s)
		}
		require.Len(t, got, sent)
		require.Equal(t, "bob", got[sent-1].Source)

		seen, err := b.Client.Waitpoint(ctx, w.Token)
		require.NoError(t, err)
		require.Equal(t, "Vote", seen.Title)
		require.Equal(t, map[string]string{"org.team": "red"}, seen.Tags)
		require.Equal(t, 2, seen.Received)
		require.Zero(t, seen.Token)
		_, err = b.Client.Waitpoint(ctx, activity.NewToken("x"))
		require.ErrorIs(t, err, runtime.ErrInvalidToken)
		other, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("other"))
		require.NoError(t, err)
		for s, err := range b.Client.Run("vote", "other").ReceivedSignals(ctx, w) {
			require.ErrorIs(t, err, engine.ErrWaitOver, "%v", s)
		}
		require.NoError(t, other.Cancel(ctx, ""))
		require.NoError(t, run.Cancel(ctx, ""))
		b.Settle(t)
	})
}

// The waits of child runs are found from their parent.
func TestWaitsOfChildRuns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		inner := flow.New[int, review]("inner")
		flow.Return(inner, flow.Waitpoint[review](inner, "deep", activity.Title("Deep")))
		innerDef, err := inner.Build()
		require.NoError(t, err)
		middle := flow.New[int, review]("middle")
		flow.Return(middle, flow.Sub(middle, "sub", innerDef, middle.Input()))
		middleDef, err := middle.Build()
		require.NoError(t, err)
		each := activity.New("each", func(ctx context.Context, in int) (int, error) {
			return activity.Await[int](ctx, "item", activity.Title(fmt.Sprint("Item ", in)))
		})
		one := activity.New("one", func(context.Context, []int) (int, error) { return 1, nil })
		outer := flow.New[[]int, review]("outer")
		items := flow.Map(outer, "items", each, outer.Input())
		flow.Return(outer, flow.Sub(outer, "sub", middleDef, flow.Node(outer, "one", one, items)))
		def, err := outer.Build()
		require.NoError(t, err)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, []int{1, 2, 3})
		require.NoError(t, err)
		for _, n := range []int{3, 1} {
			var waits []runtime.Waitpoint
			enginetest.Eventually(t, func() string {
				waits, err = run.Waitpoints(ctx)
				require.NoError(t, err)
				if len(waits) != n {
					return fmt.Sprintf("%d of %d waits", len(waits), n)
				}
				return ""
			})
			for _, w := range waits {
				var payload any = 1
				if w.Node == "deep" {
					payload = review{Grade: 1}
					require.Equal(t, "Deep", w.Title)
					require.NotNil(t, w.AnswerSchema, "of the definition that the parent stored")
				}
				require.NotEqual(t, "outer", w.Flow)
				_, err := b.Client.Signal(ctx, w.Token, runtime.Signal{Name: "ok", Payload: payload})
				require.NoError(t, err)
			}
		}
		got, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, got.Grade)
		b.Settle(t)
	})
}
