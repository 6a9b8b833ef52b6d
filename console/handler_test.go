package console_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/console"
)

func get(t *testing.T, h http.Handler, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(text)
}

// A page finds the root of the console from where it is, whatever is in front of it.
func TestPagesFindTheirRoot(t *testing.T) {
	t.Parallel()
	h := console.Handler(console.Config{})
	for path, base := range map[string]string{
		"/": "./", "/runs": "./", "/runs/order/1": "../../", "/runs/a%2Fb/c%2Fd": "../../", "/flows/x/start": "../../",
	} {
		reply := get(t, h, path)
		require.Equal(t, http.StatusOK, reply.StatusCode, path)
		require.Contains(t, body(t, reply), `<base href="`+base+`">`, path)
	}
}

func TestUnknownPathsAreNotFound(t *testing.T) {
	t.Parallel()
	h := console.Handler(console.Config{})
	for _, path := range []string{"/none", "/assets/none.js", "/assets/../handler.go"} {
		require.Equal(t, http.StatusNotFound, get(t, h, path).StatusCode, path)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/runs", nil))
	require.Equal(t, http.StatusNotFound, w.Code, "pages are read only")
}

// The policy allows pages to load only files of the handler, and nothing inline.
func TestPolicyIsStrict(t *testing.T) {
	t.Parallel()
	h := console.Handler(console.Config{})
	policy := get(t, h, "/runs").Header.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.NotContains(t, policy, "unsafe")
	page := body(t, get(t, h, "/runs"))
	require.NotRegexp(t, regexp.MustCompile(`<style|style=|<script>|\son\w+=|https?://`), page)
	for _, name := range []string{"app.js", "app.css"} {
		text := body(t, get(t, h, "/assets/"+name))
		for _, address := range regexp.MustCompile(`(?:https?:)?//[a-z][a-z.]+`).FindAllString(text, -1) {
			require.Contains(t, address, "//www.w", "%s names another host", name) // the name of a vocabulary
		}
	}
}

func TestAssetsAreNotSentAgain(t *testing.T) {
	t.Parallel()
	h := console.Handler(console.Config{})
	first := get(t, h, "/assets/app.js")
	require.Equal(t, http.StatusOK, first.StatusCode)
	require.NotEmpty(t, first.Header.Get("Etag"))
	again := get(t, h, "/assets/app.js", "If-None-Match", first.Header.Get("Etag"))
	require.Equal(t, http.StatusNotModified, again.StatusCode)
}

// A browser that requests an unknown page gets the console, which shows that; programs get plain status 404.
func TestUnknownPath(t *testing.T) {
	t.Parallel()
	h := console.Handler(console.Config{})
	page := get(t, h, "/nope/x", "Accept", "text/html,*/*")
	require.Equal(t, http.StatusNotFound, page.StatusCode)
	require.Contains(t, body(t, page), `<base href="../"`)
	require.NotContains(t, body(t, get(t, h, "/nope/x", "Accept", "application/json")), "<base")
}

func TestAPIIsEscaped(t *testing.T) {
	t.Parallel()
	page := body(t, get(t, console.Handler(console.Config{API: `/a"b`}), "/runs"))
	require.Contains(t, page, `content="/a&#34;b"`)
}

// maxSize is how large the console may be, compressed.
const maxSize = 120 << 10

func TestSize(t *testing.T) {
	t.Parallel()
	h := console.Handler(console.Config{})
	total := 0
	for _, path := range []string{"/", "/assets/app.js", "/assets/stream.js", "/assets/app.css", "/assets/icon.svg"} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := io.Copy(w, strings.NewReader(body(t, get(t, h, path))))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		total += packed.Len()
	}
	t.Logf("%d bytes gzip", total)
	require.LessOrEqual(t, total, maxSize)
}
