package approvals

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// FuzzLink opens any path as a link. A path that is accepted has the token that it names, and no other path has the
// same token but for the first slash.
func FuzzLink(f *testing.F) {
	f.Add(Path(activity.NewToken(wellFormed('A'))))
	f.Add("/" + wellFormed('Q') + "/approve")
	f.Add("/" + wellFormed('A') + "/")
	f.Add("//" + wellFormed('A'))
	f.Add("/" + wellFormed('A') + "\n")
	f.Fuzz(func(t *testing.T, path string) {
		token, err := readPath(path)
		if err != nil {
			require.ErrorIs(t, err, runtime.ErrInvalidToken)
			return
		}
		require.Equal(t, "/"+strings.TrimPrefix(path, "/"), Path(token))
	})
}

// counted counts signals.
type counted struct{ signals int }

func (c *counted) Signal(context.Context, activity.Token, runtime.Signal) (fabrictype.SignalResult, error) {
	c.signals++
	return fabrictype.SignalResult{Outcome: fabrictype.SignalAccepted}, nil
}

// FuzzForm sends any form to a link, with any cookie. Nothing is signalled, since no form was given out with that
// cookie, whatever the request contains.
func FuzzForm(f *testing.F) {
	f.Add("POST", "choice=approve&who=ann&form=x", "AAAAAAAAAAAAAAAAAAAAAAAA", "same-origin", "", "application/x-www-form-urlencoded")
	f.Add("POST", "choice=approve&who=ann&form=", "", "", "https://example.com", "application/x-www-form-urlencoded")
	f.Add("PUT", "%zz", "A", "none", "null", "multipart/form-data; boundary=x")
	f.Add("POST", "choice=\x00&who=%ff&comment=%u", "x", "", "://", "text/plain")
	f.Fuzz(func(t *testing.T, method, body, cookie, site, origin, kind string) {
		client := &counted{}
		h, err := newHandler(client, Config{Key: []byte("a key of thirty-two bytes or more")})
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "/"+wellFormed('A'), strings.NewReader(body))
		r.Method = method
		r.Header.Set("Cookie", cookieName+"="+cookie)
		for name, value := range map[string]string{"Sec-Fetch-Site": site, "Origin": origin, "Content-Type": kind} {
			if value != "" {
				r.Header[name] = []string{value}
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Zero(t, client.signals, "%q %q", method, body)
		require.NotEqual(t, http.StatusInternalServerError, w.Code)
		require.NotEmpty(t, w.Header().Get("Content-Security-Policy"))
	})
}
