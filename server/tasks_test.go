package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// remote is a worker that calls a server over HTTP.
type remote struct {
	t      *testing.T
	b      *enginetest.Bench
	ctx    context.Context
	server *server.Server
	client *httpclient.Client
	url    string
	// receiver is the URL of a receiver of pushed tasks.
	receiver string
	name     string
	lease    time.Duration
}

func newRemote(t *testing.T, b *enginetest.Bench, name string, configure ...func(*server.Config)) *remote {
	t.Helper()
	config := server.Config{Engine: b.Engine, Logger: b.Logger()}
	for _, change := range configure {
		change(&config)
	}
	s, err := server.New(config)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	listener := httptest.NewServer(s.Handler())
	t.Cleanup(listener.Close)
	client, err := httpclient.New(listener.URL, httpclient.Config{Token: config.AdminToken})
	require.NoError(t, err)
	return &remote{
		t: t, b: b, ctx: enginetest.Context(t), server: s, client: client, url: listener.URL, name: name,
		lease: time.Minute,
	}
}

// addToken returns a client with a new token for a worker.
func (r *remote) addToken(name string) *httpclient.Client {
	r.t.Helper()
	created, err := r.client.CreateToken(r.ctx,
		api.CreateTokenInput{Name: name, Role: api.WorkerRole, Rights: []api.Right{}})
	require.NoError(r.t, err)
	client, err := httpclient.New(r.url, httpclient.Config{Token: created.Text})
	require.NoError(r.t, err)
	return client
}

// as returns another worker of the same server.
func (r *remote) as(name string) *remote {
	other := *r
	other.name = name
	return &other
}

// tryClaim makes one call.
func (r *remote) tryClaim(wait time.Duration) (*api.ClaimedTask, error) {
	return r.client.ClaimTask(r.ctx, api.ClaimTaskInput{
		Worker: r.name, Activities: []string{"work"},
		Wait: fabrictype.Duration{Duration: wait}, Lease: fabrictype.Duration{Duration: r.lease},
	})
}

// claim waits for a task.
func (r *remote) claim() *api.Task {
	r.t.Helper()
	for {
		claimed, err := r.tryClaim(30 * time.Second)
		require.NoError(r.t, err)
		require.NotEmpty(r.t, claimed.Instance)
		if claimed.Task != nil {
			return claimed.Task
		}
		require.NoError(r.t, r.ctx.Err())
	}
}

func (r *remote) complete(t *api.Task, result string) error {
	return r.client.CompleteTask(r.ctx, t.Token, json.RawMessage(result))
}

// fail reports a failure, and returns whether another attempt follows.
func (r *remote) fail(t *api.Task, failure api.FailTaskBody) (bool, error) {
	return r.client.FailTask(r.ctx, t.Token, failure)
}

func (r *remote) renew(t *api.Task) (*api.RenewedTask, error) {
	return r.client.RenewTask(r.ctx, t.Token)
}

// start starts a run of one node, whose activity is work.
func (r *remote) start(input int, opts ...activity.Option) *runtime.Run[int] {
	r.t.Helper()
	f := flow.New[int, int]("remote")
	flow.Return(f, flow.Node(f, "only", activity.Declare[int, int]("work", opts...), f.Input()))
	def, err := f.Build()
	require.NoError(r.t, err)
	run, err := runtime.Start(r.ctx, r.b.Client, def, input)
	require.NoError(r.t, err)
	return run
}

func (r *remote) requireResult(run *runtime.Run[int], want int) {
	r.t.Helper()
	out, err := run.Result(r.ctx)
	require.NoError(r.t, err)
	require.Equal(r.t, want, out)
}

func onEngines(t *testing.T, test func(t *testing.T, r *remote)) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		test(t, newRemote(t, b, "one"))
	})
}

// A worker over HTTP serves a node of an ordinary flow.
func TestTaskOverHTTP(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		run := r.start(4)
		task := r.claim()
		require.Equal(t, "work", task.Activity)
		require.Equal(t, "remote", task.Flow)
		require.Equal(t, "only", task.Node)
		require.Equal(t, run.ID(), task.Run)
		require.Equal(t, 1, task.Attempt)
		require.EqualValues(t, 1, task.LeaseEpoch)
		require.JSONEq(t, "4", string(task.Input))
		require.Positive(t, task.LeaseLeft.Duration)
		renewed, err := r.renew(task)
		require.NoError(t, err)
		require.Equal(t, api.TaskHeld, renewed.State)

		require.NoError(t, r.client.ReportProgress(r.ctx, task.Token, 50, "half"))
		text := "hello"
		frames := []api.TaskFrame{{Kind: "line", Text: &text}, {Kind: "point", JSON: json.RawMessage(`{"x":1}`)}}
		require.NoError(t, r.client.AppendFrames(r.ctx, task.Token, frames))
		frames[0].JSON = json.RawMessage(`1`)
		err = r.client.AppendFrames(r.ctx, task.Token, frames)
		require.Equal(t, "invalid", httpclient.Code(err), "either json or text")

		require.NoError(t, r.complete(task, "5"))
		require.NoError(t, r.complete(task, "5"), "it is safe to repeat")
		_, err = r.fail(task, api.FailTaskBody{Reason: "late"})
		require.Equal(t, "task_settled", httpclient.Code(err))
		r.requireResult(run, 5)

		var kinds []string
		for frame, err := range r.client.FollowFrames(r.ctx, "remote", run.ID(), "only", "", false) {
			require.NoError(t, err)
			kinds = append(kinds, frame.Kind)
		}
		require.Equal(t, []string{"line", "point"}, kinds)
		r.b.Settle(t)
	})
}

// A failure is retried by the policy of the node, unless the worker reports that no attempt can succeed.
func TestTaskOverHTTPFails(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		policy := activity.Retry(activity.RetryPolicy{Attempts: 3, First: time.Millisecond, Factor: 1})
		run := r.start(1, policy)
		first := r.claim()
		retries, err := r.fail(first, api.FailTaskBody{Reason: "the disk is full"})
		require.NoError(t, err)
		require.True(t, retries)
		second := r.claim()
		require.Equal(t, 2, second.Attempt)
		require.NotEqual(t, first.Token, second.Token)
		require.NoError(t, r.complete(second, "7"))
		r.requireResult(run, 7)

		run = r.start(2, policy)
		retries, err = r.fail(r.claim(), api.FailTaskBody{
			Reason: "no such file", Category: "input", NonRetryable: true,
			Details: []api.TaskDetail{{Name: "files.missing", Value: json.RawMessage(`{"path":"a"}`)}},
		})
		require.NoError(t, err)
		require.False(t, retries)
		_, err = run.Result(r.ctx)
		var failure *runtime.RunError
		require.ErrorAs(t, err, &failure)
		require.Equal(t, "input", failure.Failures[0].Category)
		require.Contains(t, failure.Failures[0].Reason, "no such file")
		require.Equal(t, "files.missing", failure.Failures[0].Details[0].Name)
		require.JSONEq(t, `{"path":"a"}`, string(failure.Failures[0].Details[0].Value))
		r.b.Settle(t)
	})
}

// A task waits for a signal without a worker, and the next worker that claims it gets the signal.
func TestTaskOverHTTPSuspends(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		run := r.start(1)
		task := r.claim()
		in := api.SuspendTaskBody{Signals: []string{"go"}, OnTimeout: "fail"}
		_, err := r.client.SuspendTask(r.ctx, task.Token, in)
		require.Equal(t, "invalid", httpclient.Code(err), "on_timeout needs a timeout")
		in.OnTimeout = ""
		suspended, err := r.client.SuspendTask(r.ctx, task.Token, in)
		require.NoError(t, err)
		again, err := r.client.SuspendTask(r.ctx, task.Token, in)
		require.NoError(t, err)
		require.Equal(t, suspended, again)

		_, err = r.client.SignalToken(r.ctx, suspended, api.SignalBody{Name: "go", Payload: json.RawMessage(`{"n":8}`)})
		require.NoError(t, err)
		other := r.as("two")
		resumed := other.claim()
		require.Equal(t, 1, resumed.Attempt, "it is the same attempt")
		require.Len(t, resumed.Signals, 1)
		require.Equal(t, "go", resumed.Signals[0].Name)
		require.JSONEq(t, `{"n":8}`, string(resumed.Signals[0].JSON))
		require.NoError(t, other.complete(resumed, "8"))
		r.requireResult(run, 8)
		r.b.Settle(t)
	})
}

// A task asks people for approval by the same rule as an activity in Go: different people approve, or one rejects.
func TestTaskOverHTTPAsksForApproval(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		run := r.start(1)
		task := r.claim()
		_, err := r.client.SuspendTask(r.ctx, task.Token, api.SuspendTaskBody{Approvers: 2, Needed: 1})
		require.ErrorContains(t, err, "replaces signals, all, needed and decisive")
		token, err := r.client.SuspendTask(r.ctx, task.Token, api.SuspendTaskBody{Approvers: 2, Title: "Go live?"})
		require.NoError(t, err)
		waits, err := r.client.ListRunWaits(r.ctx, "remote", run.ID(), false)
		require.NoError(t, err)
		require.Len(t, waits, 1)
		require.Equal(t, []string{"approve", "reject"}, waits[0].Signals)
		require.Equal(t, 2, waits[0].Needed)
		require.True(t, waits[0].Distinct)
		send := func(name, source, payload string) error {
			_, err := r.client.SignalToken(r.ctx, token, api.SignalBody{Name: name, Source: source, Payload: json.RawMessage(payload)})
			return err
		}
		require.NoError(t, send("approve", "ann", `{"choice": "approve", "by": "ann"}`))
		require.Equal(t, "signal_does_not_count", httpclient.Code(send("approve", "ann", `{"choice": "approve"}`)))
		require.Equal(t, "invalid", httpclient.Code(send("reject", "bob", `{"choice": "approve"}`)), "it contradicts itself")
		require.NoError(t, send("reject", "bob", `{"choice": "reject", "comment": "not yet"}`))
		resumed := r.as("two").claim()
		require.Equal(t, "reject", resumed.Signals[len(resumed.Signals)-1].Name)
		require.NoError(t, r.as("two").complete(resumed, "8"))
		r.requireResult(run, 8)
	})
}

// The lease of a worker that is gone ends, and another worker has the node. Reports of the first one are refused.
func TestTaskOverHTTPIsLost(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		run := r.start(1)
		gone := r.as("gone")
		gone.lease = 300 * time.Millisecond
		lost := gone.claim()
		task := r.claim()
		require.Greater(t, task.LeaseEpoch, lost.LeaseEpoch)
		require.Equal(t, "lease_lost", httpclient.Code(gone.complete(lost, "1")))
		_, err := gone.renew(lost)
		require.Equal(t, "lease_lost", httpclient.Code(err))
		_, err = gone.fail(lost, api.FailTaskBody{Reason: "late"})
		require.Equal(t, "lease_lost", httpclient.Code(err))
		require.NoError(t, r.complete(task, "2"))
		r.requireResult(run, 2)
		require.Equal(t, "lease_lost", httpclient.Code(r.complete(&api.Task{Token: "0123"}, "2")))
		r.b.Settle(t)
	})
}

// A server that stops releases the tasks that it holds: another one hands them out at once.
func TestTaskOverHTTPOfAServerThatStops(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		run := r.start(1)
		held := r.claim()
		r.server.Close()
		other := newRemote(t, r.b, "one")
		task := other.claim()
		require.Equal(t, "lease_lost", httpclient.Code(other.complete(held, "1")), "the other server does not know it")
		require.Equal(t, held.Attempt, task.Attempt, "no attempt is spent")
		require.NoError(t, other.complete(task, "3"))
		r.requireResult(run, 3)
		_, err := r.tryClaim(time.Second)
		require.Equal(t, "server_stopping", httpclient.Code(err))
		r.b.Settle(t)
	})
}

// A worker learns of a cancellation from the reply to a renewal.
func TestTaskOverHTTPIsCancelled(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		run := r.start(1)
		task := r.claim()
		require.NoError(t, run.Cancel(r.ctx, "no longer needed"))
		enginetest.Eventually(t, func() string {
			renewed, err := r.renew(task)
			require.NoError(t, err)
			if renewed.State == api.TaskHeld {
				return "the task is held"
			}
			require.Equal(t, api.TaskCancelled, renewed.State)
			return ""
		})
		require.Equal(t, "task_cancelled", httpclient.Code(r.complete(task, "1")))
		_, err := run.Result(r.ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		r.b.Settle(t)
	})
}

// A worker that an operator drains gets no further tasks, and can settle the tasks that it has.
func TestWorkerOverHTTPDrains(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		run := r.start(1)
		claimed, err := r.tryClaim(30 * time.Second)
		require.NoError(t, err)
		require.NotNil(t, claimed.Task)
		require.NoError(t, r.client.DrainWorker(r.ctx, claimed.Instance))
		enginetest.Eventually(t, func() string {
			if _, err := r.tryClaim(time.Millisecond); httpclient.Code(err) != "worker_draining" {
				return "the worker claims"
			}
			return ""
		})
		require.NoError(t, r.complete(claimed.Task, "4"))
		r.requireResult(run, 4)
	})
}

// raw is a codec that is not JSON.
type raw struct{}

func (raw) Name() string                         { return "raw" }
func (raw) Encode(value any) ([]byte, error)     { return []byte("<" + value.(string) + ">"), nil }
func (raw) Decode(data []byte, target any) error { return errors.New("not read here") }

// A node with another codec than JSON fails with a reason that names the codec.
func TestTaskOverHTTPOfAnotherCodec(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		f := flow.New[string, string]("raw", flow.WithCodec(raw{}))
		flow.Return(f, flow.Node(f, "only",
			activity.Declare[string, string]("work", activity.WithCodec(raw{})), f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(r.ctx, r.b.Client, def, "in")
		require.NoError(t, err)
		claimed, err := r.tryClaim(time.Second)
		require.NoError(t, err)
		require.Nil(t, claimed.Task)
		_, err = run.Result(r.ctx)
		var failure *runtime.RunError
		require.ErrorAs(t, err, &failure)
		require.Equal(t, "codec", failure.Failures[0].Category)
		require.Contains(t, failure.Failures[0].Reason, `activity "work" has a codec other than json`)
	})
}

// Only principals with the right may claim, and a task belongs to the one that has claimed it.
func TestRightToWork(t *testing.T) {
	t.Parallel()
	const secret = "a secret of the administrator"
	p := newPlace(t, func(c *server.Config) { c.Tokens, c.AdminToken = true, secret })
	create := func(name string, role api.Role) *httpclient.Client {
		created, err := p.http(secret).CreateToken(t.Context(), api.CreateTokenInput{Name: name, Role: role})
		require.NoError(t, err)
		return p.http(created.Text)
	}
	in := api.ClaimTaskInput{Worker: "w", Activities: []string{"remote-only"}}
	_, err := create("vera", api.Operator).ClaimTask(t.Context(), in)
	require.Equal(t, "forbidden", httpclient.Code(err))
	one, two := create("one", api.WorkerRole), create("two", api.WorkerRole)
	_, err = one.ListRuns(t.Context(), nil, api.Paging{})
	require.Equal(t, "forbidden", httpclient.Code(err), "a worker can do nothing else")
	run, err := runtime.Do(t.Context(), p.client, activity.Declare[int, int]("remote-only"), 1)
	require.NoError(t, err)
	in.Wait.Duration = 30 * time.Second
	claimed, err := one.ClaimTask(t.Context(), in)
	require.NoError(t, err)
	err = two.CompleteTask(t.Context(), claimed.Task.Token, json.RawMessage("2"))
	require.Equal(t, "lease_lost", httpclient.Code(err))
	require.NoError(t, one.CompleteTask(t.Context(), claimed.Task.Token, json.RawMessage("2")))
	out, err := run.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, out)
	in.Activities, in.Lease.Duration = []string{"no name"}, time.Second
	_, err = one.ClaimTask(t.Context(), in)
	require.Equal(t, "invalid", httpclient.Code(err))
}
