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
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
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
	_, err := c.StartRun(t.Context(), flow, api.NewRun{ID: id, Input: []byte(input)}, nil)
	require.NoError(t, err)
}

func TestClient(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		c := p.http("")
		start(t, c, "order", "a/b", `{"item":"book","count":1}`)
		kinds := map[fabrictype.EventKind]int{}
		for e, err := range c.FollowRun(t.Context(), "order", "a/b", "") {
			require.NoError(t, err)
			kinds[e.Kind]++
		}
		require.Equal(t, 1, kinds["flow_success"])
		query := runtime.RunQuery{Flow: "order", States: []fabrictype.RunState{fabrictype.RunSucceeded}}
		runs, err := c.ListRuns(t.Context(), query.Values(), api.Paging{})
		require.NoError(t, err)
		require.Len(t, runs.Items, 1)

		_, err = c.GetRun(t.Context(), "order", "..", api.GetRunInput{})
		require.Equal(t, "invalid", httpclient.Code(err))
		_, err = c.GetRun(t.Context(), "order", "", api.GetRunInput{})
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
		var kinds []fabrictype.EventKind
		for e, err := range c.FollowRun(t.Context(), "approval", "one", "") {
			require.NoError(t, err)
			kinds = append(kinds, e.Kind)
			if e.Kind == "suspended" {
				listener.CloseClientConnections()
				_, err := p.http("").SignalRun(t.Context(), "approval", "one", api.SignalRunInput{
					Node: "approve", SignalBody: api.SignalBody{Name: "answer", Payload: []byte(`{"yes":true}`)},
				})
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
		_, err := p.http("").ListRuns(t.Context(), nil, api.Paging{})
		require.Equal(t, "unauthorized", httpclient.Code(err))
		_, err = p.http("ffk_0000000000").ListRuns(t.Context(), nil, api.Paging{})
		require.Equal(t, "unauthorized", httpclient.Code(err))

		create := func(name string, role api.Role, flows string, rights ...api.Right) *httpclient.Client {
			created, err := admin.CreateToken(t.Context(),
				api.CreateTokenInput{Name: name, Role: role, Flows: flows, Rights: rights})
			require.NoError(t, err)
			require.Contains(t, created.Text, "ffk_")
			return p.http(created.Text)
		}
		start(t, admin, "order", "one", `{"item":"book","count":1}`)
		start(t, admin, "approval", "one", `{"item":"book","count":1}`)

		viewer := create("vera", api.Viewer, "")
		_, err = viewer.GetRun(t.Context(), "order", "one", api.GetRunInput{})
		require.NoError(t, err)
		_, err = viewer.GetRun(t.Context(), "order", "one", api.GetRunInput{Values: true})
		require.Equal(t, "forbidden", httpclient.Code(err))
		err = viewer.PauseRun(t.Context(), "order", "one", "")
		require.Equal(t, "forbidden", httpclient.Code(err))
		_, err = create("paul", api.Viewer, "", api.ReadPayloads).
			GetRun(t.Context(), "order", "one", api.GetRunInput{Values: true})
		require.NoError(t, err)

		bound := create("bo", api.Operator, "appro*")
		_, err = bound.GetRun(t.Context(), "order", "one", api.GetRunInput{})
		require.Equal(t, "run_not_found", httpclient.Code(err), "a hidden object does not exist for the caller")
		runs, err := bound.ListRuns(t.Context(), nil, api.Paging{})
		require.NoError(t, err)
		require.Len(t, runs.Items, 1)
		require.Equal(t, "approval", runs.Items[0].Flow)
		counts, err := bound.CountRuns(t.Context(), []string{"state"}, nil)
		require.NoError(t, err)
		total := 0
		for _, c := range counts {
			require.Empty(t, c.Flow)
			total += c.Runs
		}
		require.Equal(t, 1, total)
		_, err = bound.ListAudit(t.Context(), api.ListAuditInput{})
		require.Equal(t, "forbidden", httpclient.Code(err))
		waits, err := bound.ListWaits(t.Context(), url.Values{"flow": {"approval"}}, api.Paging{})
		require.NoError(t, err)
		require.LessOrEqual(t, len(waits.Items), 1)

		who, err := bound.GetServer(t.Context())
		require.NoError(t, err)
		require.Equal(t, "bo", who.Principal.Name)

		err = admin.DeleteToken(t.Context(), "bo")
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, err := bound.GetServer(context.Background())
			return httpclient.Code(err) == "unauthorized"
		}, patience, 50e6)
		err = admin.DeleteToken(t.Context(), "bo")
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
	for _, op := range httpapi.Operations() {
		require.False(t, names[op.Name], "%s is there twice", op.Name)
		names[op.Name] = true
		require.Contains(t, document, `"operationId":"`+op.Name+`"`)
		require.Contains(t, httpapi.Rights(), op.Right, op.Name)
		require.Contains(t, []httpapi.Effect{httpapi.Reads, httpapi.Changes, httpapi.Destroys}, op.Effect, op.Name)
		require.NotEmpty(t, op.Summary, op.Name)
		if op.Method == "GET" {
			require.Equal(t, httpapi.Reads, op.Effect, op.Name)
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
	err = c.PauseLane(t.Context(), "slow", "release")
	require.NoError(t, err)
	audit, err := c.ListAudit(t.Context(), api.ListAuditInput{Actor: "ann"})
	require.NoError(t, err)
	require.Len(t, audit.Items, 1)
	info, err := c.GetServer(t.Context())
	require.NoError(t, err)
	require.Equal(t, api.Principal{Name: "ann", Login: "in-process", Rights: httpapi.Rights()}, info.Principal)
	anonymous, err := p.server.Client()
	require.NoError(t, err)
	_, err = anonymous.GetServer(t.Context())
	require.Equal(t, "unauthorized", httpclient.Code(err))
	counts, err := c.CountRuns(t.Context(), []string{"flow", "state"}, nil)
	require.NoError(t, err)
	for _, n := range counts {
		require.NotEmpty(t, n.Flow)
		require.NotEmpty(t, n.State, "a list is one parameter with commas")
	}
}
