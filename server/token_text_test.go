package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/server/internal/service"
)

// Who reads all that the engine has does not find the text of a token: neither with the token, nor among the replies
// that are kept for repeated requests.
func TestTokenTextIsNotStored(t *testing.T) {
	t.Parallel()
	b, h, log := quietPlace(t, testserver.Embedded)
	create := func(key string) *httptest.ResponseRecorder {
		body, err := json.Marshal(map[string]any{"name": "ci" + key, "role": "admin"})
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, httpapi.Prefix+httpapi.CreateToken.Path, bytes.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(userHeader, "all")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	reply := create("")
	require.Equal(t, http.StatusCreated, reply.Code, reply.Body)
	var created api.CreatedToken
	require.NoError(t, json.Unmarshal(reply.Body.Bytes(), &created))
	require.NotEmpty(t, created.Text)
	stored := contents(t, b)
	require.Contains(t, stored, service.HashToken(created.Text), "the token is there")
	require.NotContains(t, stored, created.Text)
	require.NotContains(t, log.String(), created.Text)
	require.Equal(t, http.StatusUnprocessableEntity, create("again").Code)
}

// The name of a token can be part of a URL, so that every token can be deleted.
func TestNamesOfTokens(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withTokens).admin()
	for name, want := range map[string]int{
		"ann@example.com": http.StatusCreated, "Zoë": http.StatusCreated, "...": http.StatusCreated,
		".": http.StatusUnprocessableEntity, "..": http.StatusUnprocessableEntity, "a/b": http.StatusUnprocessableEntity,
		"a b": http.StatusUnprocessableEntity, "a\nb": http.StatusUnprocessableEntity, "/": http.StatusUnprocessableEntity,
	} {
		var reply struct{ Errors []api.ProblemFault }
		got := p.do("POST", "/tokens", map[string]any{"name": name, "role": "viewer"}, &reply)
		require.Equal(t, want, got.StatusCode, "%q", name)
		if want == http.StatusCreated {
			got := p.do("DELETE", "/tokens/"+url.PathEscape(name), nil, nil)
			require.Equal(t, http.StatusNoContent, got.StatusCode, "%q", name)
			continue
		}
		require.Equal(t, "/name", reply.Errors[0].Pointer)
	}
}
