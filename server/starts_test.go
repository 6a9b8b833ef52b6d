package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/httpclient"
)

const book = `{"item":"book","count":1}`

// startBody starts a run by a body in JSON, and returns the reply or the code of the problem.
func startBody(t *testing.T, c *httpclient.Client, flow, body string) (*api.StartedRun, string) {
	t.Helper()
	var in struct {
		api.NewRun
		Signal *api.StartSignal `json:"signal"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &in))
	run, err := c.StartRun(t.Context(), flow, in.NewRun, in.Signal)
	return run, httpclient.Code(err)
}

// Starts over HTTP have the guarantees of package runtime: keys, throttles, debounce, and signals to a run that is
// started if it does not exist.
func TestStartsOfKeys(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		c := p.http("")
		must := func(flow, body string) *api.StartedRun {
			t.Helper()
			run, code := startBody(t, c, flow, body)
			require.Empty(t, code, body)
			return run
		}
		refused := func(code, flow, body string) {
			t.Helper()
			_, got := startBody(t, c, flow, body)
			require.Equal(t, code, got, body)
		}
		of := func(rest string) string { return `{"input":` + book + `,` + rest + `}` }

		open := must("approval", of(`"key":{"key":"ada"}`))
		refused("key_taken", "approval", of(`"key":{"key":"ada"}`))
		joined := must("approval", of(`"key":{"key":"ada","when_taken":"join"}`))
		require.Equal(t, open.Run, joined.Run)
		require.True(t, joined.Existed)
		queued := must("approval", of(`"key":{"key":"ada","when_taken":"queue"}`))
		d, err := c.GetRun(t.Context(), "approval", queued.Run, api.GetRunInput{})
		require.NoError(t, err)
		require.Equal(t, 1, d.QueuePlace)
		refused("invalid", "approval", of(`"key":{"key":"ada"},"id":"mine"`))
		refused("invalid", "approval", of(`"key":{"key":"ada"},"throttle":{"starts":1,"per":"1h"}`))
		refused("invalid", "approval", of(`"key":{"key":""}`))

		must("approval", of(`"throttle":{"key":"t","starts":1,"per":"1h","reject":true}`))
		refused("throttled", "approval", of(`"throttle":{"key":"t","starts":1,"per":"1h","reject":true}`))
		refused("invalid", "approval", of(`"throttle":{"starts":0,"per":"1h"}`))

		first := must("approval", of(`"debounce":{"key":"d","quiet":"1h"}`))
		second := must("approval", `{"input":{"item":"pen","count":2},"debounce":{"key":"d","quiet":"1h"}}`)
		require.Equal(t, first.Run, second.Run)
		require.True(t, second.Existed)
		d, err = c.GetRun(t.Context(), "approval", first.Run, api.GetRunInput{Values: true})
		require.NoError(t, err)
		require.JSONEq(t, `{"item":"pen","count":2}`, string(d.Input.JSON))

		signal := `"id":"s","signal":{"node":"approve","name":"answer","payload":{"yes":true}}`
		started := must("approval", of(signal))
		require.False(t, started.Existed)
		require.NotNil(t, started.Delivery)
		again := must("approval", of(signal))
		require.Equal(t, "s", again.Run)
		require.True(t, again.Existed)
		require.NotNil(t, again.Delivery)
		refused("invalid", "approval", of(`"key":{"key":"x"},"signal":{"node":"approve","name":"answer"}`))
	})
}

// Many runs are started by one request, each whole or not at all.
func TestStartsOfManyRuns(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		c := p.http("")
		body := `{"runs":[{"id":"a","input":` + book + `},{"id":"b","input":{"item":7}},{"id":"..","input":` + book + `},
			{"id":"c","input":` + book + `,"delay":"1h","start_at":"2030-01-01T00:00:00Z"},{"id":"a","input":` + book + `}]}`
		var in struct{ Runs []api.NewRun }
		require.NoError(t, json.Unmarshal([]byte(body), &in))
		out, err := c.StartRuns(t.Context(), "approval", in.Runs)
		require.NoError(t, err)
		require.Len(t, out, 5)
		require.Nil(t, out[0].Problem)
		require.Equal(t, "a", out[0].Run)
		for _, i := range []int{1, 2, 3} {
			require.NotNil(t, out[i].Problem, i)
			require.Equal(t, "invalid", out[i].Problem.Code)
		}
		require.Nil(t, out[4].Problem)
		require.True(t, out[0].Existed != out[4].Existed)
		again, err := c.StartRuns(t.Context(), "approval", in.Runs)
		require.NoError(t, err)
		require.True(t, again[0].Existed)
		_, err = c.StartRuns(t.Context(), "nobody", in.Runs)
		require.Equal(t, "flow_not_published", httpclient.Code(err))
	})
}
