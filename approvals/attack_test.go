package approvals

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// A flood from more addresses than the limiter remembers blocks no newcomer, takes bounded memory, and does not reset
// addresses that have used up their limit.
func TestLimiter_AdmitsNewcomersInAFlood(t *testing.T) {
	t.Parallel()
	l := newLimiter(2*time.Second, 30)
	now := time.Unix(1_000_000, 0)
	for ok := true; ok; {
		_, ok = l.take("busy", now)
	}
	for i := range maxKeys + 5_000 {
		_, ok := l.take(fmt.Sprint("flood ", i), now)
		require.True(t, ok, i)
	}
	require.Len(t, l.free, maxKeys)
	for range 30 {
		_, ok := l.take("newcomer", now)
		require.True(t, ok)
	}
	_, ok := l.take("newcomer", now)
	require.False(t, ok, "the newcomer is limited like everybody")
	_, ok = l.take("busy", now)
	require.False(t, ok, "who has used up everything is not forgotten for the flood")
	require.LessOrEqual(t, len(l.free), maxKeys)
}

func TestLimiterKeepsNoLongKeys(t *testing.T) {
	t.Parallel()
	l := newLimiter(time.Hour, 1)
	now := time.Unix(1_000_000, 0)
	long := strings.Repeat("x", 1<<20)
	_, ok := l.take(long, now)
	require.True(t, ok)
	_, ok = l.take(long, now)
	require.False(t, ok)
	_, ok = l.take(long+"y", now)
	require.True(t, ok, "another key, alike at the beginning")
	for key := range l.free {
		require.LessOrEqual(t, len(key), keyBytes)
	}
}

// slowly sends the head of a request and a part of its body over a connection that stays open, and returns the reply,
// until the server closes the connection.
func slowly(t *testing.T, server *httptest.Server, method, path, rest string) string {
	t.Helper()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute))) // a fail-safe: the server ends it
	_, err = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n%s", method, path, rest)
	require.NoError(t, err)
	reader := bufio.NewReader(c)
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	_, err = reader.ReadByte()
	require.Error(t, err, "the server closes the connection")
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	return response.Status
}

// A body that does not come to its end is not waited for, on a server without timeouts, whatever the request is.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	handler, err := newHandler(untouched(t), Config{})
	require.NoError(t, err)
	handler.formWithin = 50 * time.Millisecond
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	path := "/" + wellFormed('1')
	require.Equal(t, "408 Request Timeout", slowly(t, server, http.MethodPost, path, "Content-Length: 1000\r\n\r\nchoice=a"))
	require.Equal(t, "408 Request Timeout", slowly(t, server, http.MethodPost, path, "Transfer-Encoding: chunked\r\n\r\n8\r\nchoice=a"))
	require.Equal(t, "404 Not Found", slowly(t, server, http.MethodPost, "/nothing", "Content-Length: 1000\r\n\r\nchoice=a"))
	require.Equal(t, "200 OK", slowly(t, server, http.MethodGet, path, "Content-Length: 1000\r\n\r\nchoice=a"))
	require.Equal(t, "405 Method Not Allowed", slowly(t, server, http.MethodPut, path, "Content-Length: 1000\r\n\r\nchoice=a"))
}

// sent is a form as a browser sends it: with a cookie and headers.
func sent(path, cookie, seal string, headers map[string]string) *http.Request {
	fields := url.Values{"form": {seal}, "choice": {"approve"}, "who": {"Ann"}}
	r := httptest.NewRequest(http.MethodPost, "http://ops.example.com"+path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r
}

// given is the cookie that a browser gets with a page, as name=value, and the seal of the form in it.
func given(t *testing.T, h *Handler, path string) (cookie, seal string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	cookie, _, _ = strings.Cut(w.Header().Get("Set-Cookie"), ";")
	found := sealField.FindStringSubmatch(w.Body.String())
	require.NotNil(t, found, w.Body.String())
	return cookie, found[1]
}

func status(h *Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// The headers of a browser about the page of a form must not name another site.
func TestOriginOfForms(t *testing.T) {
	t.Parallel()
	h, err := newHandler(outcome(fabrictype.SignalAccepted), Config{Logger: quiet})
	require.NoError(t, err)
	path := "/" + wellFormed('1')
	cookie, seal := given(t, h, path)
	for _, x := range []struct {
		headers map[string]string
		want    int
	}{
		{nil, 200},
		{map[string]string{"Origin": "http://ops.example.com"}, 200},
		{map[string]string{"Origin": "https://OPS.example.com"}, 200},
		{map[string]string{"Origin": "null"}, 200}, // browsers send this for a page without referrers
		{map[string]string{"Origin": "https://evil.example"}, 403},
		{map[string]string{"Origin": "http://sub.ops.example.com"}, 403},
		{map[string]string{"Origin": "http://ops.example.com:8443"}, 403},
		{map[string]string{"Origin": "ops.example.com"}, 403},
		{map[string]string{"Origin": "%zz"}, 403},
		{map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://inside:8080"}, 200}, // a proxy with another name
		{map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://ops.example.com"}, 403},
		{map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
	} {
		require.Equal(t, x.want, status(h, sent(path, cookie, seal, x.headers)), "%v", x.headers)
	}
}

// Over https, the handler ignores a cookie that another host of the domain has planted, so the seal that belongs to it
// is worthless.
func TestPlantedCookie(t *testing.T) {
	t.Parallel()
	key := []byte(strings.Repeat("k", 32))
	h, err := newHandler(outcome(fabrictype.SignalAccepted), Config{HTTPS: true, Key: key, Logger: quiet})
	require.NoError(t, err)
	path := "/" + wellFormed('1')
	cookie, seal := given(t, h, path)
	require.True(t, strings.HasPrefix(cookie, "__Host-"), cookie)
	require.Equal(t, http.StatusOK, status(h, sent(path, cookie, seal, nil)))
	planted := strings.TrimPrefix(cookie, "__Host-")
	require.Equal(t, http.StatusForbidden, status(h, sent(path, planted, seal, nil)))
	own, _ := given(t, h, path)
	require.Equal(t, http.StatusForbidden, status(h, sent(path, planted+"; "+own, seal, nil)))
}

// A form that was given to one visitor is not taken from another, even with the cookie that belongs to it.
func TestFormsBelongToTheirVisitor(t *testing.T) {
	t.Parallel()
	who := "mallory"
	h, err := newHandler(outcome(fabrictype.SignalAccepted), Config{
		Identity: func(*http.Request) (string, bool) { return who, true }, Logger: quiet,
	})
	require.NoError(t, err)
	path := "/" + wellFormed('1')
	cookie, seal := given(t, h, path)
	require.Equal(t, http.StatusOK, status(h, sent(path, cookie, seal, nil)))
	who = "ann"
	require.Equal(t, http.StatusForbidden, status(h, sent(path, cookie, seal, nil)))
}

var quiet = slog.New(slog.DiscardHandler)
