package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

const pushSecret = "0123456789abcdef0123456789abcdef"

// pushed is a task that a receiver got; its answer goes to answer.
type pushed struct {
	task   *api.Task
	answer chan pushAnswer
}

type pushAnswer struct {
	status int
	body   string
}

// with answers the task.
func (p pushed) with(status int, body string) { p.answer <- pushAnswer{status, body} }

// onPush registers a receiver for activity work at a server. With a configuration, the test does that.
func onPush(t *testing.T, test func(r *remote, tasks <-chan pushed), configure ...func(*server.Config)) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		tasks := make(chan pushed)
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			task, err := httpclient.PushedTask(r, pushSecret)
			if err != nil {
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			p := pushed{task, make(chan pushAnswer)}
			select {
			case tasks <- p:
			case <-r.Context().Done():
				return
			}
			select {
			case a := <-p.answer:
				w.WriteHeader(a.status)
				_, _ = io.WriteString(w, a.body)
			case <-r.Context().Done():
			}
		}))
		t.Cleanup(receiver.Close)
		configure := append(configure, func(c *server.Config) { c.PushTo = []string{receiver.URL} })
		r := newRemote(t, b, "caller", configure...)
		r.receiver = receiver.URL + "/tasks"
		if len(configure) == 1 {
			r.register(r.receiver)
		}
		test(r, tasks)
	})
}

// next waits for a task that is sent.
func (r *remote) next(tasks <-chan pushed) pushed {
	r.t.Helper()
	select {
	case p := <-tasks:
		return p
	case <-r.ctx.Done():
		require.FailNow(r.t, "no task was sent")
		return pushed{}
	}
}

func (r *remote) register(url string) {
	in := api.RegisterPushWorkerInput{URL: url, Secret: pushSecret, Activities: []string{"work"}}
	in.Lease.Duration = time.Minute
	_, err := r.client.RegisterPushWorker(r.ctx, "receiver", in)
	require.NoError(r.t, err)
}

// A worker that has registered a URL answers tasks at once.
func TestPush(t *testing.T) {
	onPush(t, func(r *remote, tasks <-chan pushed) {
		run := r.start(4, activity.Retry(activity.RetryPolicy{Attempts: 3, First: time.Millisecond, Factor: 1}))
		first := r.next(tasks)
		require.Equal(r.t, 1, first.task.Attempt)
		require.JSONEq(r.t, "4", string(first.task.Input))
		first.with(http.StatusOK, `{"fail":{"reason":"busy"}}`)
		second := r.next(tasks)
		require.Equal(r.t, 2, second.task.Attempt)
		second.with(http.StatusOK, `{"suspend":{"signals":["go"],"title":"Go on?"}}`)
		enginetest.Eventually(r.t, func() string {
			waits, err := run.Waitpoints(r.ctx)
			require.NoError(r.t, err)
			if len(waits) == 0 {
				return "no wait"
			}
			_, err = r.b.Client.Signal(r.ctx, waits[0].Token, runtime.Signal{Name: "go", Payload: 1})
			require.NoError(r.t, err)
			return ""
		})
		third := r.next(tasks)
		require.Equal(r.t, "go", third.task.Signals[0].Name)
		third.with(http.StatusOK, `{"complete":{"result":5}}`)
		r.requireResult(run, 5)
		list, err := r.client.ListPushWorkers(r.ctx)
		require.NoError(r.t, err)
		require.Len(r.t, list, 1)
		require.Equal(r.t, "receiver", list[0].Worker)
		require.Positive(r.t, list[0].Sent)
		r.b.Settle(r.t)
	})
}

// A worker can report later, by the token.
func TestPushIsAnsweredLater(t *testing.T) {
	onPush(t, func(r *remote, tasks <-chan pushed) {
		run := r.start(1)
		p := r.next(tasks)
		p.with(http.StatusAccepted, "")
		renewed, err := r.renew(p.task)
		require.NoError(r.t, err)
		require.Equal(r.t, api.TaskHeld, renewed.State)
		require.NoError(r.t, r.complete(p.task, "2"))
		r.requireResult(run, 2)
	})
}

// A task that the worker could not take is sent again without spending an attempt; an answer without an action is a
// failure of the attempt.
func TestPushFails(t *testing.T) {
	onPush(t, func(r *remote, tasks <-chan pushed) {
		run := r.start(1, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		p := r.next(tasks)
		p.with(http.StatusServiceUnavailable, "")
		again := r.next(tasks)
		require.Equal(r.t, 1, again.task.Attempt)
		require.NotEqual(r.t, p.task.Token, again.task.Token)
		again.with(http.StatusOK, `{}`)
		_, err := run.Result(r.ctx)
		var failure *runtime.RunError
		require.ErrorAs(r.t, err, &failure)
		require.Equal(r.t, "push", failure.Failures[0].Category)
		list, err := r.client.ListPushWorkers(r.ctx)
		require.NoError(r.t, err)
		require.Contains(r.t, list[0].Failure, "one of complete, fail and suspend")

		err = r.client.RemovePushWorker(r.ctx, "receiver", "", "")
		require.NoError(r.t, err)
		err = r.client.RemovePushWorker(r.ctx, "receiver", "", "")
		require.Equal(r.t, "push_worker_not_found", httpclient.Code(err))
		in := api.RegisterPushWorkerInput{Secret: pushSecret, Activities: []string{"work"}}
		for _, url := range []string{"http://169.254.169.254/", "nonsense", "http://user@localhost/"} {
			in.URL = url
			_, err = r.client.RegisterPushWorker(r.ctx, "receiver", in)
			require.Equal(r.t, "push_not_allowed", httpclient.Code(err), url)
		}
	})
}

// A request counts only with the signature of the secret over its time and body, and only for some minutes.
func TestPushSignature(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(api.Task{Token: "t", Input: json.RawMessage("1")})
	require.NoError(t, err)
	read := func(at time.Time, signed, sent []byte, secret string) error {
		request := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(string(sent)))
		request.Header.Set(httpapi.PushTimestamp, strconv.FormatInt(at.Unix(), 10))
		request.Header.Set(httpapi.PushSignature, httpapi.SignPush(secret, at, signed))
		_, err := httpclient.PushedTask(request, pushSecret)
		return err
	}
	now := time.Now()
	require.NoError(t, read(now, body, body, pushSecret))
	require.ErrorIs(t, read(now, body, append(body, ' '), pushSecret), httpclient.ErrNotSigned)
	require.ErrorIs(t, read(now, body, body, pushSecret+"x"), httpclient.ErrNotSigned)
	require.ErrorIs(t, read(now.Add(-time.Hour), body, body, pushSecret), httpclient.ErrNotSigned)
	require.ErrorIs(t, read(now.Add(time.Hour), body, body, pushSecret), httpclient.ErrNotSigned)
}
