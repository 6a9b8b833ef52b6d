package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// badJSON are texts that readers of JSON take in different ways, or not at all.
var badJSON = map[string]string{
	"a name twice": `{"a":1,"a":2}`, "a name twice within": `[{"b":{"a":1,"\u0061":2}}]`, "not UTF-8": "\"a\xffb\"",
	"half a pair": `"\ud800"`, "NaN": `NaN`, "Infinity": `-Infinity`,
}

// keptJSON are texts that arrive as they are.
var keptJSON = []string{
	`12345678901234567890.0123456789`, `{"b":1,"a":[1.50,"\ud83d\ude00","é"]}`, `-0.0`, `1E+2`, `"\u0000\ufffd"`,
}

// sendText sends a body as it is, and returns the status and the reply.
func (p *place) sendText(path, body string) answered {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), "POST", p.url+path, strings.NewReader(body))
	require.NoError(p.t, err)
	request.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(p.t, err)
	return answered{got.StatusCode, string(text)}
}

// raws is a flow that takes and gives any JSON, and waits for some.
func raws(t *testing.T) *flow.Definition[json.RawMessage, json.RawMessage] {
	t.Helper()
	same := activity.New("same", func(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	f := flow.New[json.RawMessage, json.RawMessage]("raw")
	first := flow.Node(f, "first", same, f.Input())
	answer := flow.Waitpoint[json.RawMessage](f, "ask", flow.After(first))
	flow.Return(f, flow.Node(f, "last", same, answer))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// Every route stores JSON of users unchanged, or refuses it at once.
func TestEveryRouteKeepsOrRefusesJSON(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	ctx := enginetest.Context(t)
	def := raws(t)
	p.bench.KeepingWorker(t, def.Handlers())
	require.NoError(t, p.client.Publish(ctx, runtime.Publication{Flow: def}))
	open := func() (*runtime.Run[json.RawMessage], runtime.Waitpoint) {
		t.Helper()
		run, err := runtime.Start(ctx, p.client, def, json.RawMessage("1"))
		require.NoError(t, err)
		var waits []runtime.Waitpoint
		enginetest.Eventually(t, func() string {
			waits, err = run.Waitpoints(ctx)
			require.NoError(t, err)
			return map[bool]string{false: "the wait is not open"}[len(waits) == 1]
		})
		return run, waits[0]
	}
	// Each way reports whether it took a text, and returns the stored form then.
	input := func(id string) string {
		d, err := p.client.Run("raw", id).Describe(ctx, runtime.DescribeOptions{Values: true, ValueBytes: 1 << 20})
		require.NoError(t, err)
		return string(d.Input.Bytes())
	}
	result := func(run *runtime.Run[json.RawMessage]) string {
		out, err := run.Result(ctx)
		require.NoError(t, err)
		return string(out)
	}
	ways := map[string]func(text string) (refusal, got string){
		"start-run": func(text string) (string, string) {
			id := "s" + uuid.NewString()
			r := p.sendText("/api/v1/flows/raw/runs", `{"id":"`+id+`","input":`+text+`}`)
			if r.status != http.StatusCreated {
				return r.text, ""
			}
			return "", input(id)
		},
		"start-runs": func(text string) (string, string) {
			id := "m" + uuid.NewString()
			r := p.sendText("/api/v1/flows/raw/runs/batch", `{"runs":[{"id":"`+id+`","input":`+text+`}]}`)
			if r.status != http.StatusOK {
				return r.text, ""
			}
			return "", input(id)
		},
		"signal-run": func(text string) (string, string) {
			run, wait := open()
			r := p.sendText("/api/v1/runs/raw/"+run.ID()+"/signals", `{"node":"`+wait.Node+`","name":"x","payload":`+text+`}`)
			if r.status != http.StatusOK {
				return r.text, ""
			}
			return "", result(run)
		},
		"signal-token": func(text string) (string, string) {
			run, wait := open()
			r := p.sendText("/api/v1/signals", `{"token":"`+wait.Token.Reveal()+`","name":"x","payload":`+text+`}`)
			if r.status != http.StatusOK {
				return r.text, ""
			}
			return "", result(run)
		},
		"resume-wait": func(text string) (string, string) {
			run, wait := open()
			r := p.sendText("/api/v1/runs/raw/"+run.ID()+"/waits/"+url.PathEscape(string(wait.ID))+"/resume", `{"payload":`+text+`}`)
			if r.status >= 300 {
				return r.text, ""
			}
			return "", result(run)
		},
		"/v1 signal": func(text string) (string, string) {
			run, wait := open()
			octets := make([]int, len(text))
			for i := range len(text) {
				octets[i] = int(text[i])
			}
			list, err := json.Marshal(octets)
			require.NoError(t, err)
			r := p.sendText("/v1/executions/"+string(wait.ExecutionID)+"/signal", `{"execution_id":"`+string(wait.ExecutionID)+
				`","waitpoint_id":"`+string(wait.ID)+`","signal_id":"`+uuid.NewString()+`","signal_name":"x","payload":`+string(list)+
				`,"waitpoint_token":"`+p.contractToken(wait)+`"}`)
			if r.status != http.StatusOK {
				return r.text, ""
			}
			return "", result(run)
		},
		"FlowRef.Start": func(text string) (string, string) {
			run, err := p.client.Flow("raw").Start(ctx, json.RawMessage(text))
			if err != nil {
				return err.Error(), ""
			}
			return "", input(run.ID())
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for fault, text := range badJSON {
				refusal, got := way(text)
				require.NotEmpty(t, refusal, "%s: %q became %q", fault, text, got)
				require.NotContains(t, refusal, "internal", fault)
			}
			for _, text := range keptJSON {
				refusal, got := way(text)
				require.Empty(t, refusal, text)
				require.Equal(t, text, got)
			}
		})
	}

	// Package runtime stores JSON unchanged if it is given as such, but rejects text that is not UTF-8; typed values
	// are checked as well.
	for _, text := range append([]string{`{"a":1,"a":2}`, `1e400`}, keptJSON...) {
		run, err := runtime.Start(ctx, p.client, def, json.RawMessage(text))
		require.NoError(t, err)
		require.Equal(t, text, input(run.ID()))
		_, err = run.SignalWait(ctx, runtime.WaitName{Node: "ask"}, runtime.Signal{Name: "x", Payload: json.RawMessage(text)})
		require.NoError(t, err)
		require.Equal(t, text, result(run))
	}
	for _, bad := range []any{"a\xffb", json.RawMessage("\"a\xffb\""), json.RawMessage("NaN"), map[string]string{"a": "\xff"}} {
		run, _ := open()
		_, err := run.SignalWait(ctx, runtime.WaitName{Node: "ask"}, runtime.Signal{Name: "x", Payload: bad})
		require.ErrorIs(t, err, runtime.ErrInvalid)
	}
	_, err := runtime.Start(ctx, p.client, orders(t), order{"b\xffok", 1})
	require.ErrorContains(t, err, "UTF-8")

	// The JSON around an input is checked as strictly.
	for _, body := range []string{`{"input":1,"input":2}`, "{\"tags\":{\"a.b\":\"\xff\"}}"} {
		require.Equal(t, http.StatusBadRequest, p.sendText("/api/v1/flows/raw/runs", body).status, body)
	}
}

// contractToken returns the token of a wait as the routes under /v1 have it.
func (p *place) contractToken(w runtime.Waitpoint) string {
	p.t.Helper()
	listed := p.raw("GET", "/v1/executions/"+string(w.ExecutionID)+"/pending-waitpoints", "", nil)
	var waits []struct {
		Token string `json:"waitpoint_token"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(listed.text), &waits))
	require.Len(p.t, waits, 1)
	return waits[0].Token
}

// The results of workers over HTTP, and the inputs of schedules, are JSON of users, too.
func TestJSONOfWorkersAndSchedules(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, "embedded")
	b.Keeper(t)
	r := newRemote(t, b, "one")
	r.start(1)
	task := r.claim()
	p := &place{t: t, bench: b, url: r.url, client: b.Client}
	for fault, text := range badJSON {
		got := p.sendText(httpapi.Prefix+"/tasks/"+task.Token+"/complete", `{"result":`+text+`}`)
		require.GreaterOrEqual(t, got.status, 400, fault)
		require.Less(t, got.status, 500, fault)
	}
	require.NoError(t, r.complete(task, "5"))
}
