package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/server"
)

// admin returns the place with all rights.
func (p *place) admin() *place {
	out := *p
	out.token = adminSecret
	return &out
}

// follow opens a stream with the token of the place, and returns the lines that follow its first comment or event.
func (p *place) follow(path string) *bufio.Reader {
	p.t.Helper()
	reply := p.stream(enginetest.Context(p.t), path, "Authorization", "Bearer "+p.token)
	require.Equal(p.t, http.StatusOK, reply.StatusCode)
	lines := bufio.NewReader(reply.Body)
	_, err := lines.ReadString('\n')
	require.NoError(p.t, err)
	return lines
}

// Everything that a token has opened ends when the token is deleted, is replaced by one with fewer rights, or expires.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	ends := map[string]func(p *place){
		"deleted": func(p *place) { p.admin().do("DELETE", "/tokens/ci", nil, nil) },
		"expired": func(*place) {},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, withTokens, func(t *testing.T, p *place) {
				body := map[string]any{"name": "ci", "role": api.Operator}
				if name == "expired" {
					body["expires"] = "3s"
				}
				var created api.CreatedToken
				require.Equal(t, http.StatusCreated, p.admin().do("POST", "/tokens", body, &created).StatusCode)
				ci := *p
				ci.token = created.Text
				ci.start("approval", "one", order{"book", 1})
				streams := []*bufio.Reader{ci.follow("/feed"), ci.follow("/runs/approval/one/events")}
				others := p.as("other", api.Viewer, "").follow("/feed")
				end(p)
				for _, stream := range streams {
					rest, err := io.ReadAll(stream)
					require.NoError(t, err)
					require.Contains(t, string(rest), "event: problem")
					require.Contains(t, string(rest), `"code":"unauthorized"`)
				}
				p.admin().start("approval", "two", order{"book", 1})
				for line := ""; !strings.Contains(line, `"run":"two"`); {
					var err error
					line, err = others.ReadString('\n')
					require.NoError(t, err, "the streams of others continue")
				}
			})
		})
	}
}

// A claim that waits ends with its token.
func TestClaimsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	each(t, withTokens, func(t *testing.T, p *place) {
		worker := p.as("ci", api.WorkerRole, "")
		ended := make(chan error, 1)
		go func() {
			in := api.ClaimTaskInput{Worker: "w", Activities: []string{"nothing"}}
			in.Wait.Duration = 30 * time.Second
			c, err := httpclient.New(p.url, httpclient.Config{Token: worker.token})
			if err == nil {
				_, err = c.ClaimTask(enginetest.Context(t), in)
			}
			ended <- err
		}()
		enginetest.Eventually(t, func() string {
			var workers fabrictype.Page[fabrictype.Worker]
			p.admin().do("GET", "/workers", nil, &workers)
			return map[bool]string{false: "no worker claims"}[len(workers.Items) > 1]
		})
		require.Equal(t, http.StatusNoContent, p.admin().do("DELETE", "/tokens/ci", nil, nil).StatusCode)
		require.Equal(t, "unauthorized", httpclient.Code(<-ended))
	})
}

// A registration ends with the token that made it: neither is a task sent, nor does an answer count.
func TestRegistrationsEndWithTheirToken(t *testing.T) {
	onPush(t, func(r *remote, tasks <-chan pushed) {
		admin, token := r.client, r.addToken("ci")
		r.client = token
		r.register(r.receiver)
		run := r.start(4)
		sent := r.next(tasks)
		require.NoError(r.t, admin.DeleteToken(r.ctx, "ci"))
		enginetest.Eventually(r.t, func() string {
			list, err := admin.ListPushWorkers(r.ctx)
			require.NoError(r.t, err)
			return map[bool]string{false: "it is registered"}[len(list) == 0]
		})
		select {
		case sent.answer <- pushAnswer{http.StatusOK, `{"complete":{"result":5}}`}:
		case <-r.ctx.Done():
		default: // the request has ended
		}
		r.client = admin
		r.name = "another"
		require.NoError(r.t, r.complete(r.claim(), "6"), "another worker gets the task")
		result, err := run.Result(r.ctx)
		require.NoError(r.t, err)
		require.Equal(r.t, 6, result)
	}, withTokens)
}

// Administrators see who has registered, and remove registrations of others.
func TestAdministratorsRemoveRegistrations(t *testing.T) {
	onPush(t, func(r *remote, _ <-chan pushed) {
		admin, other := r.client, r.addToken("other")
		r.client = r.addToken("ci")
		r.register(r.receiver)
		list, err := admin.ListPushWorkers(r.ctx)
		require.NoError(r.t, err)
		require.Len(r.t, list, 1)
		require.Equal(r.t, "ci", list[0].Principal)
		worker, principal, login := list[0].Worker, list[0].Principal, list[0].Login
		err = other.RemovePushWorker(r.ctx, worker, principal, login)
		require.Equal(r.t, "forbidden", httpclient.Code(err))
		err = admin.RemovePushWorker(r.ctx, worker, principal, login)
		require.NoError(r.t, err)
		entries, err := admin.ListAudit(r.ctx, api.ListAuditInput{Action: "remove_push_worker"})
		require.NoError(r.t, err)
		require.Len(r.t, entries.Items, 1)
		require.Equal(r.t, "ci", entries.Items[0].Name)
		require.Contains(r.t, entries.Items[0].Detail, worker)
		err = admin.RemovePushWorker(r.ctx, worker, principal, login)
		require.Equal(r.t, "push_worker_not_found", httpclient.Code(err))
	}, withTokens)
}

// One principal leaves streams and registrations to others.
func TestOnePrincipalDoesNotTakeAllStreams(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) { withTokens(c); c.Streams, c.StreamsPerPrincipal = 10, 3 })
	viewer := p.as("ci", api.Viewer, "")
	open := func(who *place) *http.Response {
		return p.stream(t.Context(), "/feed", "Authorization", "Bearer "+who.token)
	}
	for range 3 {
		require.Equal(t, http.StatusOK, open(viewer).StatusCode)
	}
	refused := open(viewer)
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	text, err := io.ReadAll(refused.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "a principal has at most 3 streams")
	require.Equal(t, http.StatusOK, open(p.admin()).StatusCode)
}

// Credentials that are refused count for a rate of their address, as requests without any do.
func TestRefusedCredentialsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) { withTokens(c); c.RequestsPerSecond = 1.0 / 3600 })
	status := func(token string) int {
		return p.do("GET", "/server", nil, nil, "Authorization", "Bearer "+token).StatusCode
	}
	require.Equal(t, http.StatusUnauthorized, status("ffk_none"))
	for i := range 5 {
		require.Equal(t, http.StatusTooManyRequests, status(fmt.Sprint("ffk_none", i)))
		require.Equal(t, http.StatusTooManyRequests, status("none"))
	}
	require.Equal(t, http.StatusOK, status(adminSecret), "which others of the address have")
}
