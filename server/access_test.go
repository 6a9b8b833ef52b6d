package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

const (
	userHeader  = "X-Forwarded-User"
	groupHeader = "X-Forwarded-Groups"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// withProxy lets requests name the principal: "all" has all rights, and "not RIGHT" all but one.
func withProxy(c *server.Config) {
	c.Proxy = &server.ProxyLogin{UserHeader: userHeader, GroupsHeader: groupHeader, From: loopback}
	c.Proxy.Grants = []server.Grant{
		{MatchName: "all", Role: api.Admin}, {MatchName: "bound", Role: api.Operator, Flows: "ord*"},
		{MatchGroup: "viewers", Role: api.Viewer}, {MatchName: "bound to all", Role: api.Admin, Flows: "*"},
	}
	for _, right := range httpapi.Rights() {
		others := slices.DeleteFunc(httpapi.Rights(), func(r api.Right) bool { return r == right })
		c.Proxy.Grants = append(c.Proxy.Grants, server.Grant{MatchName: "not " + string(right), Rights: others})
	}
}

// pathOf fills the parameters of an operation's path.
func pathOf(op httpapi.Operation, fill string) string {
	parts := strings.Split(op.Path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = fill
		}
	}
	return strings.Join(parts, "/")
}

// An operation is refused to a principal who lacks its right or has not logged in, and by a read-only server if it
// changes something.
func TestEveryOperationNeedsItsRight(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	reading := newPlace(t, func(c *server.Config) { withProxy(c); c.ReadOnly = true })
	for _, op := range httpapi.Operations() {
		require.Contains(t, httpapi.Rights(), op.Right, "%s has no right", op.Name)
		path := pathOf(op, "x")
		var body any
		if op.Method != http.MethodGet {
			body = map[string]any{}
		}
		var problem api.Problem
		require.Equal(t, http.StatusUnauthorized, p.do(op.Method, path, body, &problem).StatusCode, op.Name)
		reply := p.do(op.Method, path, body, &problem, userHeader, "not "+string(op.Right))
		require.Equal(t, http.StatusForbidden, reply.StatusCode, op.Name)
		require.Equal(t, "forbidden", problem.Code, op.Name)
		require.Contains(t, problem.Detail, string(op.Right))
		if op.Effect != httpapi.Reads {
			reply := reading.do(op.Method, path, body, &problem, userHeader, "all")
			require.Equal(t, [2]any{http.StatusForbidden, "read_only"}, [2]any{reply.StatusCode, problem.Code}, op.Name)
		}
	}
}

func TestProxyLogin(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	status := func(header ...string) int { return p.do("GET", "/runs", nil, nil, header...).StatusCode }
	require.Equal(t, http.StatusUnauthorized, status())
	require.Equal(t, http.StatusOK, status(userHeader, "all"))
	require.Equal(t, http.StatusUnauthorized, status(userHeader, "nobody"))
	require.Equal(t, http.StatusOK, status(userHeader, "nobody", groupHeader, "staff, viewers"))
	require.Equal(t, http.StatusUnauthorized, status(groupHeader, "viewers"), "a group without a name")

	request, err := http.NewRequest("GET", p.url+httpapi.Prefix+"/runs", nil)
	require.NoError(t, err)
	request.Header[userHeader] = []string{"all", "viewers"}
	reply, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	require.Equal(t, http.StatusUnauthorized, reply.StatusCode, "two names")

	elsewhere := newPlace(t, func(c *server.Config) {
		withProxy(c)
		c.Proxy.From = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	require.Equal(t, http.StatusUnauthorized, elsewhere.do("GET", "/runs", nil, nil, userHeader, "all").StatusCode,
		"headers of others than the proxy are ignored")
}

// authority makes certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.issue(&x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"},
	})
	return a
}

func (a *authority) issue(about *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	about.SerialNumber, about.NotBefore, about.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = about, key
	}
	der, err := x509.CreateCertificate(rand.Reader, about, parent, key.Public(), signer)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert, key
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	trusted, other := newAuthority(t), newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(trusted.cert)
	p := newPlace(t, func(c *server.Config) {
		c.TLSConfig = &tls.Config{ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven}
		c.Certificates = []server.Grant{
			{MatchName: "ann@example.com", Role: api.Admin}, {MatchGroup: "deployers", Role: api.Viewer},
		}
	})
	secure := httptest.NewUnstartedServer(p.server.Handler())
	secure.TLS = &tls.Config{ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	ask := func(by *authority, about *x509.Certificate) (status int, text string) {
		client := secure.Client()
		transport := client.Transport.(*http.Transport).Clone()
		defer transport.CloseIdleConnections()
		if about != nil {
			about.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			cert, key := by.issue(about)
			// A client that sends its certificate without checking whether the server trusts its issuer.
			transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}, nil
			}
		}
		reply, err := (&http.Client{Transport: transport}).Get(secure.URL + httpapi.Prefix + "/server")
		if err != nil {
			return 0, err.Error()
		}
		defer reply.Body.Close()
		body, err := io.ReadAll(reply.Body)
		require.NoError(t, err)
		return reply.StatusCode, string(body)
	}
	status, _ := ask(nil, nil)
	require.Equal(t, http.StatusUnauthorized, status)
	status, text := ask(trusted, &x509.Certificate{EmailAddresses: []string{"ann@example.com"}})
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"login":"certificate"`)
	require.Contains(t, text, `"administer"`)
	status, text = ask(trusted, &x509.Certificate{Subject: pkix.Name{CommonName: "bot", OrganizationalUnit: []string{"deployers"}}})
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, text, `"operate"`)
	status, _ = ask(trusted, &x509.Certificate{Subject: pkix.Name{CommonName: "somebody"}})
	require.Equal(t, http.StatusUnauthorized, status)
	status, text = ask(other, &x509.Certificate{EmailAddresses: []string{"ann@example.com"}})
	require.Zero(t, status, "another authority says so: %s", text)
}

// Secrets in any part of a request do not appear in the logs.
func TestNothingSecretInLogs(t *testing.T) {
	t.Parallel()
	each(t, func(c *server.Config) { withTokens(c); withProxy(c) }, func(t *testing.T, p *place) {
		const secret = "s3cr3t-of-the-request"
		user := p.as("ann", api.Operator, "")
		for _, op := range httpapi.Operations() {
			path := pathOf(op, secret)
			if op.Name == "run-keeper-task" || op.Streams {
				continue
			}
			body := any(map[string]any{"input": secret, "payload": secret, "token": secret, "reason": secret})
			if op.Method == http.MethodGet {
				body = nil
			}
			for _, token := range []string{user.token, adminSecret, "ffk_" + secret, secret} {
				caller := *p
				caller.token = token
				caller.do(op.Method, path+"?x="+secret, body, nil, "Cookie", "session="+secret, "Idempotency-Key", secret)
				caller.do(op.Method, path, body, nil)
			}
		}
		text := p.log.String() + p.bench.Log()
		for _, hidden := range []string{secret, adminSecret, user.token} {
			at := strings.Index(text, hidden)
			if at >= 0 {
				t.Fatalf("the log has a secret: %s", text[max(0, at-300):min(len(text), at+100)])
			}
		}
	})
}

// For a principal who is bound to some flows, a hidden run and a run that does not exist have the same answers.
func TestHiddenRunsDoNotExist(t *testing.T) {
	t.Parallel()
	each(t, withProxy, func(t *testing.T, p *place) {
		var started api.StartedRun
		p.do("POST", "/flows/approval/runs", map[string]any{"id": "there", "input": order{"book", 1}}, &started, userHeader, "all")
		for _, op := range httpapi.Operations() {
			if !strings.Contains(op.Path, "{flow}") {
				continue
			}
			answers := map[string]string{}
			for _, run := range []string{"there", "not-there"} {
				path := strings.NewReplacer("{flow}", "approval", "{run}", run, "{node}", "approve", "{wait}", "w").Replace(op.Path)
				var body any
				if op.Method != http.MethodGet {
					body = map[string]any{"input": order{"book", 1}, "name": "x", "node": "approve", "scope": "all", "priority": 1}
				}
				var problem api.Problem
				reply := p.do(op.Method, path, body, &problem, userHeader, "bound")
				answers[run] = fmt.Sprint(reply.StatusCode, strings.ReplaceAll(problem.Error(), run, "RUN"), problem.Code)
				require.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, reply.StatusCode, op.Name)
			}
			require.Equal(t, answers["there"], answers["not-there"], op.Name)
		}
	})
}

// A principal who may approve answers under the name of the login; to answer under another name needs the right to
// operate.
func TestAnswerUnderAnotherNameNeedsRight(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	ctx := enginetest.Context(t)
	answer := func(id, user, source string, out any) int {
		body := map[string]any{"node": "approve", "name": "answer", "payload": decision{true}}
		if source != "" {
			body["source"] = source
		}
		return p.do("POST", "/runs/approval/"+id+"/signals", body, out, userHeader, user).StatusCode
	}
	const approver = "not operate" // which has all other rights
	for _, c := range []struct{ user, source, want string }{
		{approver, "", approver}, {approver, approver, approver}, {"all", "bob", "bob"},
	} {
		run, err := runtime.Start(ctx, p.client, approvals(t), order{"book", 1})
		require.NoError(t, err)
		var waits []runtime.Waitpoint
		enginetest.Eventually(t, func() string {
			if waits, err = run.Waitpoints(ctx); err != nil || len(waits) != 1 {
				return fmt.Sprint("the wait to be open: ", len(waits), " ", err)
			}
			return ""
		})
		var problem api.Problem
		require.Equal(t, http.StatusForbidden, answer(run.ID(), approver, "bob", &problem))
		require.Contains(t, problem.Detail, `answer as "bob", not as "not operate": this needs the right operate`)
		require.Equal(t, http.StatusOK, answer(run.ID(), c.user, c.source, nil))
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "shipped", result)
		for s, err := range run.ReceivedSignals(ctx, waits[0]) {
			require.NoError(t, err)
			require.Equal(t, c.want, s.Source)
		}
	}
}

// Who may act on one run may act on many: an operator does all but purge and signal.
func TestBulkJobsNeedTheRightOfTheirAction(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	start := func(user, query string, action map[string]any) int {
		body := map[string]any{"query": query, "action": action}
		return p.do("POST", "/bulk", body, nil, userHeader, user).StatusCode
	}
	rerun, purge := map[string]any{"kind": "rerun", "scope": "failed"}, map[string]any{"kind": "purge"}
	signal := map[string]any{"kind": "signal", "signal": "answer"}
	require.Equal(t, http.StatusOK, start("not administer", "search=failed", rerun))
	require.Equal(t, http.StatusForbidden, start("not administer", "search=failed", purge))
	require.Equal(t, http.StatusOK, start("all", "search=failed", purge))
	require.Equal(t, http.StatusForbidden, start("not approve", "search=failed", signal))
	require.Equal(t, http.StatusForbidden, start("not operate", "search=failed", rerun))
	require.Equal(t, http.StatusForbidden, start("bound", "search=failed", rerun), "it selects runs of all flows")
	require.Equal(t, http.StatusForbidden, start("bound", "run=approval/x", rerun))
}
