package approvals

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// signalFunc answers signals as a test requires, with outcomes that an engine does not produce on demand. The pages
// about real deliveries are tested with an engine.
type signalFunc func(runtime.Signal) (fabrictype.SignalResult, error)

func (f signalFunc) Signal(_ context.Context, _ activity.Token, s runtime.Signal) (fabrictype.SignalResult, error) {
	return f(s)
}

// untouched fails the test when anything is signalled.
func untouched(t *testing.T) signalFunc {
	return func(s runtime.Signal) (fabrictype.SignalResult, error) {
		t.Errorf("signalled %q", s.Name)
		return fabrictype.SignalResult{}, errors.New("not expected")
	}
}

func outcome(o fabrictype.SignalOutcome) signalFunc {
	return func(runtime.Signal) (fabrictype.SignalResult, error) { return fabrictype.SignalResult{Outcome: o}, nil }
}

// wellFormed is the text of a token that belongs to nothing.
func wellFormed(last byte) string {
	data := make([]byte, 57)
	data[0], data[55], data[56] = 1, 'k', last
	return base64.RawURLEncoding.EncodeToString(data)
}

func TestOpeningALink_SignalsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, untouched(t), Config{
		Question: func(*http.Request, activity.Token) string { return "May <v2> go live?" },
	})
	v := s.visit(t)
	page := v.open("/" + wellFormed('1'))
	require.Equal(t, http.StatusOK, page.status)
	require.Contains(t, page.body, "<p>May &lt;v2&gt; go live?</p>")
	require.NotContains(t, page.body, wellFormed('1'))
	require.Contains(t, page.body, `<button type="submit" name="choice" value="approve" class="yes">Approve</button>`)
	require.Contains(t, page.body, `<button type="submit" name="choice" value="reject" class="no">Reject</button>`)
	require.Equal(t, http.StatusNotFound, v.open("/"+wellFormed('1')+"/approve").status, "a link contains no answer")
	head := v.do(v.request(http.MethodHead, "/"+wellFormed('1'), http.NoBody))
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.body)
}

func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	s := serve(t, outcome(fabrictype.SignalAccepted), Config{})
	v := s.visit(t)
	path := "/" + wellFormed('1')
	for _, page := range []answer{v.open(path), v.send(path, "approve", "Ann", ""), v.open("/nothing"), v.post(path, nil)} {
		require.Equal(t, "no-store", page.header.Get("Cache-Control"))
		require.Equal(t, "no-referrer", page.header.Get("Referrer-Policy"))
		require.Equal(t, "nosniff", page.header.Get("X-Content-Type-Options"))
		require.Equal(t, "DENY", page.header.Get("X-Frame-Options"))
		require.Regexp(t, `^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'$`,
			page.header.Get("Content-Security-Policy"))
		require.NotContains(t, page.body, wellFormed('1'))
		require.NotContains(t, page.body, "<script")
		require.NotContains(t, page.body, "http://")
	}
	require.Contains(t, s.log.String(), "by=Ann")
	require.NotContains(t, s.log.String(), wellFormed('1'))
}

func TestFormOfAnotherBrowserIsNotTaken(t *testing.T) {
	t.Parallel()
	s := serve(t, untouched(t), Config{})
	path := "/" + wellFormed('1')
	mine, other := s.visit(t), s.visit(t)
	fields := url.Values{"choice": {"approve"}, "who": {"Ann & Bob"}, "comment": {"why not"}}

	refused := func(what string, page answer) {
		t.Helper()
		require.Equal(t, http.StatusForbidden, page.status, what)
		require.Contains(t, page.body, "Nothing was sent yet", what)
		// The fields keep the entered values.
		require.Contains(t, page.body, `value="Ann &amp; Bob"`, what)
		require.Contains(t, page.body, ">why not</textarea>", what)
	}
	refused("without the field and cookie", mine.post(path, fields))
	fields.Set("form", mine.seal(mine.open(path)))
	refused("without a cookie", other.post(path, fields))
	other.open(path)
	refused("with another cookie", other.post(path, fields))
	fields.Set("form", mine.seal(mine.open("/"+wellFormed('2'))))
	refused("of another link", mine.post(path, fields))

	fields.Set("form", mine.seal(mine.open(path)))
	r := mine.request(http.MethodPost, path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	refused("from another site", mine.do(r))
}

func TestFormWithFaults(t *testing.T) {
	t.Parallel()
	s := serve(t, untouched(t), Config{AddressBurst: 100, AddressEvery: time.Second})
	v := s.visit(t)
	path := "/" + wellFormed('1')
	for _, c := range []struct{ choice, who, comment, fault string }{
		{"", "Ann", "", "Please choose an answer by its button."},
		{"explode", "Ann", "", "Please choose an answer by its button."},
		{"approve", " \t ", "", "Please enter your name."},
		{"approve", strings.Repeat("ä", maxName+1), "", "Please enter your name in at most 60 characters."},
		{"approve", "A\x07nn", "", "Please enter your name in"},
		{"approve", "A\xffnn", "", "Please enter your name in"},
		{"approve", "Ann", strings.Repeat("ä", maxComment+1), "Please keep your comment within 2000 characters."},
	} {
		page := v.send(path, c.choice, c.who, c.comment)
		require.Equal(t, http.StatusUnprocessableEntity, page.status, c)
		require.Contains(t, page.body, `role="alert">`+c.fault, c)
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, v.send(path, "approve", "Ann", strings.Repeat("x", maxForm)).status)
	r := v.request(http.MethodPost, path, strings.NewReader("form=%zz"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	require.Equal(t, http.StatusBadRequest, v.do(r).status)
	refused := v.do(v.request(http.MethodDelete, path, http.NoBody))
	require.Equal(t, http.StatusMethodNotAllowed, refused.status)
	require.Equal(t, "GET, HEAD, POST", refused.header.Get("Allow"))
}

func TestEveryOutcomeHasItsPage(t *testing.T) {
	t.Parallel()
	path := "/" + wellFormed('1')
	for _, c := range []struct {
		signal signalFunc
		status int
		says   string
	}{
		{outcome(fabrictype.SignalAccepted), http.StatusOK, "Answers of others may still be needed"},
		{outcome(fabrictype.SignalResumed), http.StatusOK, "it is decided now"},
		{outcome(fabrictype.SignalDuplicate), http.StatusOK, "You have answered already"},
		{outcome(fabrictype.SignalExpired), http.StatusGone, "It is too late"},
		{outcome(fabrictype.SignalClosed), http.StatusConflict, "It is decided already"},
		{func(runtime.Signal) (fabrictype.SignalResult, error) {
			return fabrictype.SignalResult{}, fmt.Errorf("signal: %w", runtime.ErrTooLarge)
		}, http.StatusConflict, "No more answers are taken"},
		{func(runtime.Signal) (fabrictype.SignalResult, error) {
			return fabrictype.SignalResult{}, fmt.Errorf("%w: /comment: is missing", runtime.ErrInvalid)
		}, http.StatusUnprocessableEntity, "/comment: is missing"},
	} {
		page := serve(t, c.signal, Config{}).visit(t).send(path, "approve", "Ann", "")
		require.Equal(t, c.status, page.status, c.says)
		require.Contains(t, page.body, c.says)
	}
	broken := serve(t, signalFunc(func(runtime.Signal) (fabrictype.SignalResult, error) {
		return fabrictype.SignalResult{}, errors.New("connection lost")
	}), Config{})
	page := broken.visit(t).send(path, "approve", "Ann", "")
	require.Equal(t, http.StatusServiceUnavailable, page.status)
	require.NotContains(t, page.body, "connection lost")
	require.Contains(t, broken.log.String(), "connection lost")
}

// Malformed links and those that the engine knows nothing of look the same.
func TestInvalidLinksLookTheSame(t *testing.T) {
	t.Parallel()
	s := serve(t, signalFunc(func(runtime.Signal) (fabrictype.SignalResult, error) {
		return fabrictype.SignalResult{}, runtime.ErrInvalidToken
	}), Config{})
	v := s.visit(t)
	unknown := v.send("/"+wellFormed('1'), "approve", "Ann", "")
	require.Equal(t, http.StatusNotFound, unknown.status)
	for _, path := range []string{"/", "/x", "/" + wellFormed('1') + "=", "/" + strings.Repeat("A", 5000)} {
		page := v.open(path)
		require.Equal(t, unknown.status, page.status, path)
		require.Equal(t, unknown.body, page.body, path)
		require.Equal(t, unknown.body, v.post(path, nil).body, path)
	}
}

// A signal names the visitor in the same way however the name is typed, and the same answer has the same key.
func TestSignals_NormaliseTheVisitor(t *testing.T) {
	t.Parallel()
	var sent []runtime.Signal
	s := serve(t, signalFunc(func(s runtime.Signal) (fabrictype.SignalResult, error) {
		sent = append(sent, s)
		return fabrictype.SignalResult{Outcome: fabrictype.SignalAccepted}, nil
	}), Config{})
	v := s.visit(t)
	path := "/" + wellFormed('1')
	v.send(path, "approve", " Ann  Lee ", " fine ")
	v.send(path, "approve", "ann lee", "")
	v.send(path, "reject", "ann lee", "")
	require.Len(t, sent, 3)
	require.Equal(t, activity.Decision{Choice: "approve", By: "Ann Lee", Comment: "fine"}, sent[0].Payload)
	require.Equal(t, "approve", sent[0].Name)
	require.Equal(t, "ann lee", sent[0].Source)
	require.Equal(t, sent[0].Source, sent[1].Source)
	require.Equal(t, sent[0].IdempotencyKey, sent[1].IdempotencyKey)
	require.NotEqual(t, sent[0].IdempotencyKey, sent[2].IdempotencyKey)
	require.NotContains(t, sent[0].IdempotencyKey, "ann")
}

func TestIdentityOfTheHost(t *testing.T) {
	t.Parallel()
	var sent runtime.Signal
	s := serve(t, signalFunc(func(s runtime.Signal) (fabrictype.SignalResult, error) {
		sent = s
		return fabrictype.SignalResult{Outcome: fabrictype.SignalResumed}, nil
	}), Config{Identity: func(r *http.Request) (string, bool) {
		cookie, err := r.Cookie("session")
		return "Ann@example.com", err == nil && cookie.Value == "good"
	}})
	path := "/" + wellFormed('1')
	stranger := s.visit(t)
	require.Equal(t, http.StatusForbidden, stranger.open(path).status)
	require.Equal(t, http.StatusForbidden, stranger.post(path, url.Values{"choice": {"approve"}}).status)
	require.Empty(t, sent)

	ann := s.visit(t)
	address, err := url.Parse(s.URL)
	require.NoError(t, err)
	ann.client.Jar.SetCookies(address, []*http.Cookie{{Name: "session", Value: "good", Path: "/"}})
	page := ann.open(path)
	require.Contains(t, page.body, "You answer as <strong>Ann@example.com</strong>")
	require.NotContains(t, page.body, `name="who"`)
	require.Equal(t, http.StatusOK, ann.send(path, "approve", "Mallory", "").status)
	require.Equal(t, "Ann@example.com", sent.Source)
	require.Equal(t, "Ann@example.com", sent.Payload.(activity.Decision).By)
}

func TestOtherChoices(t *testing.T) {
	t.Parallel()
	s := serve(t, outcome(fabrictype.SignalAccepted), Config{
		Title: "Shop", Choices: []Choice{{"refund", "Pay back"}, {"wait", "Wait a day"}},
	})
	v := s.visit(t)
	page := v.open("/" + wellFormed('1'))
	require.Contains(t, page.body, "– Shop</title>")
	require.Contains(t, page.body, "Wait a day")
	require.NotContains(t, page.body, "Approve")
	require.Contains(t, v.send("/"+wellFormed('1'), "refund", "Ann", "").body, "Your answer: Pay back.")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	address := func(r *http.Request) string { return r.Header.Get("From") }
	s := serve(t, outcome(fabrictype.SignalAccepted), Config{
		RemoteAddress: address, AddressBurst: 3, AddressEvery: time.Hour, LinkBurst: 1, LinkEvery: time.Hour,
	})
	v := s.visit(t)
	path := "/" + wellFormed('1')
	require.Equal(t, http.StatusOK, v.send(path, "approve", "Ann", "").status)
	require.Equal(t, http.StatusOK, v.open(path).status)
	page := v.open(path)
	require.Equal(t, http.StatusTooManyRequests, page.status)
	require.Equal(t, "3600", page.header.Get("Retry-After"))

	// From another address the page opens, but its answers are used up; another link's are not.
	elsewhere := func(path string) answer {
		r := v.request(http.MethodGet, path, http.NoBody)
		r.Header.Set("From", path)
		fields := url.Values{"form": {v.seal(v.do(r))}, "choice": {"approve"}, "who": {"Bob"}}
		r = v.request(http.MethodPost, path, strings.NewReader(fields.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("From", path)
		return v.do(r)
	}
	require.Equal(t, http.StatusTooManyRequests, elsewhere(path).status)
	require.Equal(t, http.StatusOK, elsewhere("/"+wellFormed('2')).status)
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	l := newLimiter(time.Second, 3)
	now := time.Unix(1_000_000, 0)
	for range 3 {
		_, ok := l.take("a", now)
		require.True(t, ok)
	}
	wait, ok := l.take("a", now)
	require.False(t, ok)
	require.Equal(t, time.Second, wait)
	_, ok = l.take("b", now)
	require.True(t, ok)
	_, ok = l.take("a", now.Add(time.Second))
	require.True(t, ok)
	_, ok = l.take("a", now.Add(time.Second))
	require.False(t, ok)
	require.Len(t, l.free, 2)
	_, ok = l.take("c", now.Add(time.Minute))
	require.True(t, ok)
	require.Len(t, l.free, 1, "quiet keys are forgotten")
}

func TestCookie(t *testing.T) {
	t.Parallel()
	cookie := func(secure bool, config Config) *http.Cookie {
		h, err := newHandler(untouched(t), config)
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodGet, "/"+wellFormed('1'), http.NoBody)
		if secure {
			r.TLS = &tls.ConnectionState{}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		cookies := w.Result().Cookies()
		require.Len(t, cookies, 1)
		return cookies[0]
	}
	require.False(t, cookie(false, Config{}).Secure)
	require.Equal(t, "flowfabric_approvals", cookie(false, Config{}).Name)
	require.True(t, cookie(true, Config{}).Secure)
	require.Equal(t, "__Host-flowfabric_approvals", cookie(true, Config{}).Name)
	c := cookie(false, Config{HTTPS: true})
	require.Equal(t, "__Host-flowfabric_approvals", c.Name)
	require.Equal(t, "/", c.Path, "a cookie of a host has no other path")
	require.Empty(t, c.Domain)
	require.True(t, c.Secure)
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, c.SameSite)
}

// Processes with one key take each other's forms.
func TestKeyIsShared(t *testing.T) {
	t.Parallel()
	key := []byte(strings.Repeat("k", 32))
	a, err := newHandler(untouched(t), Config{Key: key})
	require.NoError(t, err)
	b, err := newHandler(untouched(t), Config{Key: key})
	require.NoError(t, err)
	other, err := newHandler(untouched(t), Config{})
	require.NoError(t, err)
	require.Equal(t, a.seal("nonce", "token", ""), b.seal("nonce", "token", ""))
	require.NotEqual(t, a.seal("nonce", "token", ""), other.seal("nonce", "token", ""))
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.7:1234": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7", "[2001:db8:1:2:3::9]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "@": "@",
	} {
		require.Equal(t, want, connection(&http.Request{RemoteAddr: remote}), remote)
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	_, err := New(nil, Config{
		Key: []byte("short"), Choices: []Choice{{"a b", ""}, {"x", "X"}, {"x", "X"}}, AddressBurst: -1, LinkEvery: -time.Second,
	})
	require.ErrorIs(t, err, ErrInvalid)
	for _, part := range []string{
		"Key must have 32 bytes at least, got: 5", `"a b" has`, `Choices: "a b" has no label`, `Choices: "x" is there twice`,
		"AddressBurst and AddressEvery must not be negative, got: -1 and 2s",
		"LinkBurst and LinkEvery must not be negative, got: 10 and -1s", "client is nil",
	} {
		require.ErrorContains(t, err, part)
	}
	_, err = New(nil, Config{Choices: []Choice{}})
	require.ErrorContains(t, err, "Choices is empty")
}

func TestPath(t *testing.T) {
	t.Parallel()
	token := activity.NewToken(wellFormed('1'))
	require.Equal(t, "/"+wellFormed('1'), Path(token))
	got, err := readPath(Path(token))
	require.NoError(t, err)
	require.Equal(t, token, got)
}

func TestMain(m *testing.M) {
	enginetest.Main(m)
}
