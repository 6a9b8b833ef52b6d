package server_test

import (
	"context"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

func (p *place) http(token string) *httpclient.Client {
	p.t.Helper()
	c, err := httpclient.New(p.url, httpclient.Config{Token: token})
	require.NoError(p.t, err)
	return c
}

func start(t *testing.T, c *httpclient.Client, flow, id string, input string) {
	t.Helper()
	in := api.StartRunInput{Flow: flow}
	in.Body.ID, in.Body.Input = id, []byte(input)
	_, err := httpclient.Call(t.Context(), c, api.StartRun, in)
	require.NoError(t, err)
}

func TestClient(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		c := p.http("")
		start(t, c, "order", "a/b", `{"item":"book","count":1}`)
		name := api.RunName{Flow: "order", Run: "a/b"}
		kinds := map[fabrictype.EventKind]int{}
		for e, err := range httpclient.Follow(t.Context(), c, api.FollowRun, api.FollowRunInput{RunName: name}) {
			require.NoError(t, err)
			kinds[e.Kind]++
		}
		require.Equal(t, 1, kinds["flow_success"])
		runs, err := httpclient.Call(t.Context(), c, api.ListRuns, api.ListRunsInput{
			Query: runtime.RunQuery{Flow: "order", States: []fabrictype.RunState{fabrictype.RunSucceeded}}.Values(),
		})
		require.NoError(t, err)
		require.Len(t, runs.Items, 1)

		_, err = httpclient.Call(t.Context(), c, api.GetRun, api.GetRunInput{RunName: api.RunName{Flow: "order", Run: ".."}})
		require.Equal(t, "invalid", httpclient.Code(err))
		_, err = httpclient.Call(t.Context(), c, api.GetRun, api.GetRunInput{RunName: api.RunName{Flow: "order"}})
		require.ErrorIs(t, err, httpclient.ErrInvalid)
		_, err = httpclient.New("localhost:8080", httpclient.Config{})
		require.ErrorIs(t, err, httpclient.ErrInvalid)
	})
}

// A stream continues at its last position when its connections are cut.
func TestFollowReconnects(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		listener := httptest.NewServer(p.server.Handler())
		defer listener.Close()
		c, err := httpclient.New(listener.URL, httpclient.Config{})
		require.NoError(t, err)
		start(t, c, "approval", "one", `{"item":"book","count":1}`)
		name := api.RunName{Flow: "approval", Run: "one"}
		var kinds []fabrictype.EventKind
		for e, err := range httpclient.Follow(t.Context(), c, api.FollowRun, api.FollowRunInput{RunName: name}) {
			require.NoError(t, err)
			kinds = append(kinds, e.Kind)
			if e.Kind == "suspended" {
				listener.CloseClientConnections()
				answer := api.SignalRunInput{RunName: name}
				answer.Body.Node, answer.Body.Name, answer.Body.Payload = "approve", "answer", []byte(`{"yes":true}`)
				_, err := httpclient.Call(t.Context(), p.http(""), api.SignalRun, answer)
				require.NoError(t, err)
			}
		}
		var want []fabrictype.EventKind
		for e, err := range p.client.Run("approval", "one").Watch(t.Context(), "") {
			require.NoError(t, err)
			want = append(want, e.Kind)
		}
		require.Equal(t, want, kinds)
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	const secret = "a secret of the administrator"
	each(t, func(c *server.Config) { c.Tokens, c.AdminToken = true, secret }, func(t *testing.T, p *place) {
		admin := p.http(secret)
		_, err := httpclient.Call(t.Context(), p.http(""), api.ListRuns, api.ListRunsInput{})
		require.Equal(t, "unauthorized", httpclient.Code(err))
		_, err = httpclient.Call(t.Context(), p.http("ffk_0000000000"), api.ListRuns, api.ListRunsInput{})
		require.Equal(t, "unauthorized", httpclient.Code(err))

		create := func(name string, role api.Role, flows string, rights ...api.Right) *httpclient.Client {
			in := api.CreateTokenInput{}
			in.Body.Name, in.Body.Role, in.Body.Flows, in.Body.Rights = name, role, flows, rights
			created, err := httpclient.Call(t.Context(), admin, api.CreateToken, in)
			require.NoError(t, err)
			require.Contains(t, created.Text, "ffk_")
			return p.http(created.Text)
		}
		start(t, admin, "order", "one", `{"item":"book","count":1}`)
		start(t, admin, "approval", "one", `{"item":"book","count":1}`)
		order := api.GetRunInput{RunName: api.RunName{Flow: "order", Run: "one"}}

		viewer := create("vera", api.Viewer, "")
		_, err = httpclient.Call(t.Context(), viewer, api.GetRun, order)
		require.NoError(t, err)
		withValues := order
		withValues.Values = true
		_, err = httpclient.Call(t.Context(), viewer, api.GetRun, withValues)
		require.Equal(t, "forbidden", httpclient.Code(err))
		_, err = httpclient.Call(t.Context(), viewer, api.PauseRun, api.ReasonInput{RunName: order.RunName})
		require.Equal(t, "forbidden", httpclient.Code(err))
		_, err = httpclient.Call(t.Context(), create("paul", api.Viewer, "", api.ReadPayloads), api.GetRun, withValues)
		require.NoError(t, err)

		bound := create("bo", api.Operator, "appro*")
		_, err = httpclient.Call(t.Context(), bound, api.GetRun, order)
		require.Equal(t, "run_not_found", httpclient.Code(err), "a hidden object does not exist for the caller")
		runs, err := httpclient.Call(t.Context(), bound, api.ListRuns, api.ListRunsInput{})
		require.NoError(t, err)
		require.Len(t, runs.Items, 1)
		require.Equal(t, "approval", runs.Items[0].Flow)
		counts, err := httpclient.Call(t.Context(), bound, api.CountRuns, api.CountRunsInput{By: []string{"state"}})
		require.NoError(t, err)
		total := 0
		for _, c := range counts.Items {
			require.Empty(t, c.Flow)
			total += c.Runs
		}
		require.Equal(t, 1, total)
		_, err = httpclient.Call(t.Context(), bound, api.ListAudit, api.ListAuditInput{})
		require.Equal(t, "forbidden", httpclient.Code(err))
		waits, err := httpclient.Call(t.Context(), bound, api.ListWaits, api.ListWaitsInput{Query: url.Values{"flow": {"approval"}}})
		require.NoError(t, err)
		require.LessOrEqual(t, len(waits.Items), 1)

		who, err := httpclient.Call(t.Context(), bound, api.GetServer, api.Empty{})
		require.NoError(t, err)
		require.Equal(t, "bo", who.Principal.Name)

		_, err = httpclient.Call(t.Context(), admin, api.DeleteToken, api.TokenNameInput{Token: "bo"})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, err := httpclient.Call(context.Background(), bound, api.GetServer, api.Empty{})
			return httpclient.Code(err) == "unauthorized"
		}, patience, 50e6)
		_, err = httpclient.Call(t.Context(), admin, api.DeleteToken, api.TokenNameInput{Token: "bo"})
		require.Equal(t, "token_not_found", httpclient.Code(err))
	})
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		body := map[string]any{"input": order{"book", 1}}
		var first, second api.StartedRun
		require.Equal(t, 201, p.do("POST", "/flows/order/runs", body, &first, "Idempotency-Key", "k").StatusCode)
		reply := p.do("POST", "/flows/order/runs", body, &second, "Idempotency-Key", "k")
		require.Equal(t, 201, reply.StatusCode)
		require.Equal(t, "true", reply.Header.Get("Idempotent-Replayed"))
		require.Equal(t, first, second)
		var problem api.Problem
		body["input"] = order{"pen", 1}
		require.Equal(t, 409, p.do("POST", "/flows/order/runs", body, &problem, "Idempotency-Key", "k").StatusCode)
		require.Equal(t, "idempotency_key_conflict", problem.Code)

		token := map[string]any{"name": "t", "role": "viewer"}
		require.Equal(t, 422, p.do("POST", "/tokens", token, &problem, "Idempotency-Key", "k").StatusCode)
		require.Equal(t, 201, p.do("POST", "/tokens", token, nil).StatusCode)
		require.Equal(t, 409, p.do("POST", "/tokens", token, &problem).StatusCode)
		require.Equal(t, "token_exists", problem.Code)
	})
}

// Every operation of the table is served, and has a right and an effect.
func TestEveryOperationIsServed(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	document := string(p.server.OpenAPI())
	names := map[string]bool{}
	for _, op := range api.Operations() {
		require.False(t, names[op.Name], "%s is there twice", op.Name)
		names[op.Name] = true
		require.Contains(t, document, `"operationId":"`+op.Name+`"`)
		require.Contains(t, api.Rights(), op.Right, op.Name)
		require.Contains(t, []api.Effect{api.Reads, api.Changes, api.Destroys}, op.Effect, op.Name)
		require.NotEmpty(t, op.Summary, op.Name)
		if op.Method == "GET" {
			require.Equal(t, api.Reads, op.Effect, op.Name)
		}
	}
}

func TestOnlyLoopbackWithoutLogins(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	_, err := p.server.Listen("0.0.0.0:0")
	require.ErrorIs(t, err, server.ErrInvalid)
	listener, err := p.server.Listen("localhost:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
}

// A client in the process has all rights, for any configuration of logins, and its actor is in the audit log.
func TestClientAs(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) { c.AdminToken = "0123456789abcdef0123456789abcdef" })
	c, err := p.server.ClientAs("ann")
	require.NoError(t, err)
	in := api.LaneReasonInput{Lane: "slow"}
	in.Body.Reason = "release"
	_, err = httpclient.Call(t.Context(), c, api.PauseLane, in)
	require.NoError(t, err)
	audit, err := httpclient.Call(t.Context(), c, api.ListAudit, api.ListAuditInput{Actor: "ann"})
	require.NoError(t, err)
	require.Len(t, audit.Items, 1)
	info, err := httpclient.Call(t.Context(), c, api.GetServer, api.Empty{})
	require.NoError(t, err)
	require.Equal(t, api.Principal{Name: "ann", Login: "in-process", Rights: api.Rights()}, info.Principal)
	anonymous, err := p.server.Client()
	require.NoError(t, err)
	_, err = httpclient.Call(t.Context(), anonymous, api.GetServer, api.Empty{})
	require.Equal(t, "unauthorized", httpclient.Code(err))
	counts, err := httpclient.Call(t.Context(), c, api.CountRuns, api.CountRunsInput{By: []string{"flow", "state"}})
	require.NoError(t, err)
	for _, n := range counts.Items {
		require.NotEmpty(t, n.Flow)
		require.NotEmpty(t, n.State, "a list is one parameter with commas")
	}
}
