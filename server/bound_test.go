package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/server"
)

const adminSecret = "a secret of the administrator"

func withTokens(c *server.Config) { c.Tokens, c.AdminToken = true, adminSecret }

// as returns the place with a token that was created for the role and flows.
func (p *place) as(name string, role api.Role, flows string) *place {
	p.t.Helper()
	admin := *p
	admin.token = adminSecret
	var created api.CreatedToken
	reply := admin.do("POST", "/tokens", map[string]any{"name": name, "role": role, "flows": flows}, &created)
	require.Equal(p.t, http.StatusCreated, reply.StatusCode)
	out := *p
	out.token = created.Text
	return &out
}

// With the token of a wait of a flow that they may not see, principals can neither answer the wait nor learn that it
// exists.
func TestTokensOfWaitsAreBoundToFlows(t *testing.T) {
	t.Parallel()
	each(t, withTokens, func(t *testing.T, p *place) {
		ctx := enginetest.Context(t)
		inside, outside := p.as("in", api.Operator, "appro*"), p.as("out", api.Operator, "ord*")
		inside.start("approval", "one", order{"book", 1})
		var token string
		enginetest.Eventually(t, func() string {
			waits, err := p.client.Run("approval", "one").Waitpoints(ctx)
			if err != nil || len(waits) == 0 {
				return "no wait"
			}
			token = waits[0].Token.Reveal()
			return ""
		})
		require.NotEmpty(t, token)
		forged := token[:len(token)-4] + "AAAA"
		answer := func(token string) map[string]any {
			return map[string]any{"token": token, "name": "answer", "payload": map[string]any{"yes": true}}
		}
		var hidden, invalid api.Problem
		require.Equal(t, http.StatusForbidden, outside.do("POST", "/signals", answer(forged), &invalid).StatusCode)
		require.Equal(t, http.StatusForbidden, outside.do("POST", "/signals", answer(token), &hidden).StatusCode)
		require.Equal(t, invalid, hidden)
		require.Equal(t, http.StatusForbidden,
			outside.do("POST", "/waits/by-token", map[string]any{"token": forged}, &invalid).StatusCode)
		require.Equal(t, http.StatusForbidden,
			outside.do("POST", "/waits/by-token", map[string]any{"token": token}, &hidden).StatusCode)
		require.Equal(t, invalid, hidden)

		var delivery fabrictype.SignalResult
		require.Equal(t, http.StatusOK, inside.do("POST", "/signals", answer(token), &delivery).StatusCode)
		require.EqualValues(t, "resumed", delivery.Outcome)
	})
}
