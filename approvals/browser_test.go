package approvals

import (
	"bytes"
	"cmp"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// site is a server with a handler of links at /a.
type site struct {
	*httptest.Server
	log *logBuffer
}

// serve mounts a handler.
func serve(t *testing.T, client signaler, config Config) *site {
	t.Helper()
	s := &site{log: &logBuffer{}}
	config.Logger = cmp.Or(config.Logger, slog.New(slog.NewTextHandler(s.log, nil)))
	handler, err := newHandler(client, config)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/a/", http.StripPrefix("/a", handler))
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// visit is one visitor with a separate browser, which has cookies but no JavaScript.
type visit struct {
	t      *testing.T
	site   *site
	client *http.Client
}

func (s *site) visit(t *testing.T) *visit {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := s.Client()
	return &visit{t: t, site: s, client: &http.Client{Transport: client.Transport, Jar: jar}}
}

// answer is the reply of the site.
type answer struct {
	status int
	header http.Header
	body   string
}

func (v *visit) do(r *http.Request) answer {
	v.t.Helper()
	response, err := v.client.Do(r)
	require.NoError(v.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(v.t, err)
	return answer{response.StatusCode, response.Header, string(body)}
}

func (v *visit) request(method, path string, body io.Reader) *http.Request {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.site.URL+"/a"+path, body)
	require.NoError(v.t, err)
	return r
}

// open requests the page of a link.
func (v *visit) open(path string) answer {
	v.t.Helper()
	return v.do(v.request(http.MethodGet, path, http.NoBody))
}

// post sends fields to a link.
func (v *visit) post(path string, fields url.Values) answer {
	v.t.Helper()
	r := v.request(http.MethodPost, path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.do(r)
}

var sealField = regexp.MustCompile(`name="form" value="([^"]+)"`)

// seal is the hidden field of a page with a form.
func (v *visit) seal(page answer) string {
	v.t.Helper()
	found := sealField.FindStringSubmatch(page.body)
	require.NotNil(v.t, found, page.body)
	return found[1]
}

// send opens a link, fills the form in and sends it.
func (v *visit) send(path, choice, who, comment string) answer {
	v.t.Helper()
	page := v.open(path)
	require.Equal(v.t, http.StatusOK, page.status, page.body)
	return v.post(path, url.Values{"form": {v.seal(page)}, "choice": {choice}, "who": {who}, "comment": {comment}})
}
