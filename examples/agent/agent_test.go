package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

const (
	sampleAnswer = "3 days at 240 euros a day, less the discount of 15 % for members, are 612 euros."
	ample        = 20_000 // tokens
)

var sampleCalls = []string{listName, searchName, calculateName, writeName}

// bench has the parts of the agent's tests: a model outside the bubble of the test, whose network input would keep the
// virtual clock from passing inside it, and a directory for notes.
type bench struct {
	model *localModel
	base  string
	notes string
}

func newBench(t *testing.T, fault func(int64) modelFault) *bench {
	t.Helper()
	b := &bench{model: &localModel{fault: fault}, notes: filepath.Join(t.TempDir(), "notes")}
	server := httptest.NewServer(b.model)
	t.Cleanup(server.Close)
	b.base = server.URL + "/v1"
	return b
}

// start starts a run of the sample question.
func (b *bench) start(t *flowtest.T, budget int64) *flowtest.TypedRun[Answer] {
	t.Helper()
	// A connection that is kept would wait for the network, so no virtual time would pass.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	def, err := newAgent(&modelClient{http: client, base: b.base, name: "local"}, newTools(b.notes)).Flow(budget)
	require.NoError(t, err)
	return flowtest.Start(t, def, sampleQuestion)
}

// decideOn waits until the run asks for an approval, and answers. It returns the question.
func decideOn(t *flowtest.T, run *flowtest.TypedRun[Answer], d activity.Decision) string {
	t.Helper()
	for range 100 {
		waits, err := run.Waitpoints(t.Context())
		require.NoError(t, err)
		if len(waits) == 1 {
			require.NoError(t, send(t, waits[0], d))
			return waits[0].Question
		}
		t.Advance(time.Minute)
	}
	t.Fatal("no approval is requested\n" + run.Table())
	return ""
}

// send answers a wait.
func send(t *flowtest.T, w runtime.Waitpoint, decision activity.Decision) error {
	t.Helper()
	_, err := t.Client().Signal(t.Context(), w.Token, runtime.Signal{Name: decision.Choice, Payload: decision})
	return err
}

// note returns the text of the note, empty if there is none.
func (b *bench) note(t *flowtest.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.notes, "answer.md"))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(text)
}

// spent returns the usage that the run's budget has counted.
func spent(t *flowtest.T, run *flowtest.TypedRun[Answer]) int64 {
	t.Helper()
	state, err := t.Client().Budget(budgetOf(run.RunRef)).Describe(t.Context())
	require.NoError(t, err)
	return state.Amount(dimension).Spent
}

// called returns the names of the tools that an answer has called.
func called(a Answer) []string {
	var names []string
	for _, c := range a.Calls {
		names = append(names, c.Tool)
	}
	return names
}

// streamed returns the text that each attempt of the model's nodes has streamed, turn by turn.
func streamed(t *flowtest.T, run *flowtest.TypedRun[Answer]) (texts [][]string, frames int) {
	t.Helper()
	turns, err := run.Turns(t.Context(), turnsNode)
	require.NoError(t, err)
	for _, turn := range turns {
		var attempts []string
		for frame, err := range t.Client().Run(turn.Flow, turn.Run).Frames(t.Context(), modelNode, "") {
			require.NoError(t, err)
			for len(attempts) < frame.Attempt {
				attempts = append(attempts, "")
			}
			if frame.Kind == tokenFrame {
				var text string
				require.NoError(t, frame.Decode(&text))
				attempts[frame.Attempt-1] += text
				frames++
			}
		}
		texts = append(texts, attempts)
	}
	return texts, frames
}

// used returns the tokens of the turns of the sample question, by the model itself.
func used(answer Answer) (total int64) {
	conversation, _ := Begin(context.Background(), sampleQuestion)
	results := answer.Calls
	for {
		reply := decide(conversation.Messages)
		total += tokens(conversation.Messages...) + tokens(reply)
		conversation.Messages = append(conversation.Messages, reply)
		if len(reply.ToolCalls) == 0 {
			return total
		}
		for _, call := range reply.ToolCalls {
			conversation.Messages = append(conversation.Messages,
				Message{Role: roleTool, Content: results[0].Result, ToolCallID: call.ID})
			results = results[1:]
		}
	}
}

// The agent answers, calls its tools in the order of the model's requests, streams each word, and counts each turn.
func TestAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	flowtest.Run(t, func(t *flowtest.T) {
		run := b.start(t, ample)
		question := decideOn(t, run, activity.Decision{Choice: approve, By: "ann"})
		require.Contains(t, question, writeName)
		require.Contains(t, question, sampleAnswer)
		answer := run.MustResult()
		require.Equal(t, sampleAnswer+" The note: written to answer.md.", answer.Text)
		require.Equal(t, sampleCalls, called(answer))
		require.Equal(t, sampleAnswer+"\n", b.note(t))
		require.EqualValues(t, 4, b.model.requests.Load())
		require.Equal(t, used(answer), spent(t, run))

		texts, frames := streamed(t, run)
		require.Len(t, texts, 4)
		require.Equal(t, []string{answer.Text}, texts[3])
		require.Greater(t, frames, len(strings.Fields(answer.Text)))
	})
}

// Nothing is written before a person has agreed, and not at all if the person refuses.
func TestApprovalHolds(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	flowtest.Run(t, func(t *flowtest.T) {
		run := b.start(t, ample)
		t.Advance(approvalTime + time.Minute)
		waits, err := run.Waitpoints(t.Context())
		require.NoError(t, err)
		require.Len(t, waits, 1)
		require.True(t, waits[0].Escalated)
		require.Empty(t, b.note(t))
		require.EqualValues(t, 3, b.model.requests.Load())

		// The decision must name the person.
		require.ErrorIs(t, send(t, waits[0], activity.Decision{Choice: approve}), runtime.ErrInvalid)

		decideOn(t, run, activity.Decision{Choice: reject, By: "bob"})
		answer := run.MustResult()
		require.Equal(t, sampleCalls, called(answer))
		require.Equal(t, sampleAnswer+" The note: refused by bob.", answer.Text)
		require.Empty(t, b.note(t))
	})
}

// The worker of each turn is lost after the model has replied and the usage is reported, and before that is recorded as
// the result. The model is not called again, and each turn counts once.
func TestWorkerLostInEachTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	flowtest.Run(t, func(t *flowtest.T) {
		t.Inject(flowtest.Named("agent.model"), flowtest.Attempt(1), flowtest.LoseWorker())
		run := b.start(t, ample)
		decideOn(t, run, activity.Decision{Choice: approve, By: "ann"})
		answer := run.MustResult()
		require.Equal(t, sampleCalls, called(answer))
		require.Equal(t, used(answer), spent(t, run))
		require.EqualValues(t, 4, b.model.requests.Load())
		require.Len(t, t.Calls(flowtest.Named("agent.model")), 8)
	})
}

// A call of the model that is refused, or that breaks off after some tokens, is made again. Its turn counts once.
func TestModelFailsOnce(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]modelFault{"unavailable": unavailable, "broken off": brokenOff} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(request int64) modelFault {
				if request == 2 {
					return fault
				}
				return noFault
			})
			flowtest.Run(t, func(t *flowtest.T) {
				run := b.start(t, ample)
				decideOn(t, run, activity.Decision{Choice: approve, By: "ann"})
				answer := run.MustResult()
				require.Equal(t, sampleCalls, called(answer))
				require.Equal(t, used(answer), spent(t, run))
				require.EqualValues(t, 5, b.model.requests.Load())
				texts, _ := streamed(t, run)
				require.Len(t, texts[1], 2)
				if fault == brokenOff {
					require.NotEmpty(t, texts[1][0])
				}
				require.True(t, strings.HasPrefix(texts[1][1], texts[1][0]))
				require.Len(t, texts[2], 1)
			})
		})
	}
}

// The run ends at the hard limit of its budget: no further turn begins, and refused tokens are not counted.
func TestBudgetEndsTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	flowtest.Run(t, func(t *flowtest.T) {
		const limit = 100 // the first turn fits, the second does not
		run := b.start(t, limit)
		failed := run.MustFail()
		require.Equal(t, "budget", failed.Category)
		require.ErrorContains(t, failed, "budget exceeded")
		require.EqualValues(t, 2, b.model.requests.Load())
		used := spent(t, run)
		require.Positive(t, used)
		require.LessOrEqual(t, used, int64(limit))
		require.Empty(t, b.note(t))
	})
}

// The reply of the local model is a function of the conversation.
func TestLocalModelIsDeterministic(t *testing.T) {
	t.Parallel()
	conversation, err := Begin(t.Context(), "When are halls handed over?")
	require.NoError(t, err)
	require.Equal(t, completion(conversation.Messages), completion(conversation.Messages))
	found, err := searchText("When are halls handed over?")
	require.NoError(t, err)
	reply := decide(conversation.Messages)
	conversation.Messages = append(conversation.Messages, reply,
		Message{Role: roleTool, Content: "halls.md", ToolCallID: reply.ToolCalls[0].ID},
		Message{Role: roleTool, Content: found, ToolCallID: reply.ToolCalls[1].ID})
	last := decide(conversation.Messages)
	require.Empty(t, last.ToolCalls)
	require.Contains(t, last.Content, "halls.md:5: Halls are handed over at eight in the morning.")
}
