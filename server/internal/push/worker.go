package push

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

const (
	claimWait = 30 * time.Second
	// requestTimeout bounds a request; longer work is answered with status 202.
	requestTimeout = time.Minute
	// maxAnswer is the largest answer, in bytes.
	maxAnswer = 2 << 20
	// firstPause and longestPause bound the time without requests after a failure.
	firstPause   = 500 * time.Millisecond
	longestPause = time.Minute
	// reportTimeout bounds the report of an answer.
	reportTimeout = 30 * time.Second
)

// CategoryPush is the category of attempts that failed because a worker gave an answer that cannot be read.
const CategoryPush = "push"

// worker sends tasks to one URL.
type worker struct {
	registry *Registry
	stop     context.CancelFunc
	// leave counts the registration no more. The lock of the registry guards it.
	leave func()
	in    httpapi.RegisterPushWorkerInput
	slots chan struct{} // one value for each task that is being sent or done

	mu    sync.Mutex
	about api.PushWorker
	pause time.Duration
	until time.Time // no task is claimed before
}

func (w *worker) describe() api.PushWorker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.about
}

// run claims tasks and sends each in a goroutine until the context ends. Then it waits for the requests, which
// continue until valid ends with the credentials of the principal that registered.
func (w *worker) run(ctx, valid context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for ctx.Err() == nil {
		w.rest(ctx)
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		task, err := w.claim(ctx)
		if err != nil && ctx.Err() == nil {
			w.failed(fmt.Errorf("claim: %w", err))
		}
		if task == nil {
			<-w.slots
			continue
		}
		sending.Go(func() {
			defer func() { <-w.slots }()
			w.send(valid, task)
		})
	}
}

func (w *worker) claim(ctx context.Context) (*api.Task, error) {
	b := &w.in.Body
	var in httpapi.ClaimTaskInput
	in.Body.Worker, in.Body.Activities, in.Body.Lanes = w.in.Worker, b.Activities, b.Lanes
	in.Body.Capabilities, in.Body.Lease = b.Capabilities, b.Lease
	in.Body.Wait = fabrictype.Duration{Duration: claimWait}
	// Tasks that were answered with status 202 count for the worker until they are reported.
	in.Body.Slots = b.Slots
	claimed, err := w.registry.config.Tasks.ClaimTask(ctx, &in)
	if err != nil {
		return nil, err
	}
	return claimed.Task, nil
}

// rest waits until tasks may be sent again after a failure.
func (w *worker) rest(ctx context.Context) {
	w.mu.Lock()
	left := time.Until(w.until)
	w.mu.Unlock()
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// failed notes that nothing can be sent for some time, which grows.
func (w *worker) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pause = min(max(firstPause, 2*w.pause), longestPause)
	w.until, w.about.Failure = time.Now().Add(w.pause), err.Error()
}

func (w *worker) succeeded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pause, w.about.Failure = 0, ""
	w.about.Sent++
}

// send posts a task, renews its lease until the answer arrives, and reports the answer.
func (w *worker) send(ctx context.Context, task *api.Task) {
	sending, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	done := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() { w.renew(sending, cancel, task, done) })
	answer, err := w.post(sending, task)
	close(done)
	renewing.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, login.ErrEnded) {
		err = cause // the principal that registered is no longer valid: another worker gets the task
	}
	reporting, stop := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer stop()
	if err := w.report(reporting, task, answer, err); err != nil {
		w.registry.config.Logger.WarnContext(ctx, "the answer to a pushed task was not accepted",
			"event", "server.push_not_reported", "worker", w.in.Worker, "execution", task.Execution, "error", err)
	}
}

// renew renews the lease of a task until done is closed. If the task has ended, the request ends, too.
func (w *worker) renew(ctx context.Context, cancel context.CancelFunc, task *api.Task, done <-chan struct{}) {
	tick := time.NewTicker(w.in.Body.Lease.Duration / 3)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			r, err := w.registry.config.Tasks.RenewTask(ctx, &httpapi.TaskInput{Task: task.Token})
			if err == nil && r.State != api.TaskHeld {
				cancel()
				return
			}
		}
	}
}

// answer is the answer of a worker.
type answer struct {
	api.PushAnswer
	// later reports whether the worker reports by the token.
	later bool
}

// errBadAnswer is the error of an answer without a usable action.
var errBadAnswer = errors.New("the worker's answer cannot be used")

// post sends a task. The error matches errBadAnswer if the worker has had it.
func (w *worker) post(ctx context.Context, task *api.Task) (answer, error) {
	body, err := json.Marshal(task)
	if err != nil {
		return answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.in.Body.URL, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	now := time.Now()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(httpapi.PushTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(httpapi.PushSignature, httpapi.SignPush(w.in.Body.Secret, now, body))
	reply, err := w.registry.client.Do(request)
	if err != nil {
		var wrapped *url.Error // its text has the whole URL
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return answer{}, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxAnswer+1))
	switch {
	case reply.StatusCode == http.StatusAccepted:
		return answer{later: true}, nil
	case err != nil:
		return answer{}, err
	case reply.StatusCode == http.StatusTooManyRequests, reply.StatusCode >= http.StatusInternalServerError:
		return answer{}, fmt.Errorf("the worker answers %s", reply.Status)
	case reply.StatusCode != http.StatusOK:
		return answer{}, fmt.Errorf("%w: %s", errBadAnswer, reply.Status)
	case len(text) > maxAnswer:
		return answer{}, fmt.Errorf("%w: more than %d bytes", errBadAnswer, maxAnswer)
	}
	return read(text)
}

// read parses an answer, which contains exactly one action.
func read(text []byte) (answer, error) {
	var a answer
	if err := activityspec.CheckJSON(text); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errBadAnswer, err)
	}
	if err := json.Unmarshal(text, &a.PushAnswer); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errBadAnswer, err)
	}
	said := 0
	for _, is := range []bool{a.Complete != nil, a.Fail != nil, a.Suspend != nil} {
		if is {
			said++
		}
	}
	if said != 1 {
		return answer{}, fmt.Errorf("%w: it must have one of complete, fail and suspend", errBadAnswer)
	}
	return a, nil
}

// report reports an answer, or the failure to send the task.
func (w *worker) report(ctx context.Context, task *api.Task, a answer, failure error) error {
	tasks, named := w.registry.config.Tasks, httpapi.TaskInput{Task: task.Token}
	var err error
	switch {
	case errors.Is(failure, errBadAnswer):
		w.failed(failure)
		_, err = tasks.FailTask(ctx, &httpapi.FailTaskInput{
			TaskInput: named, Body: api.FailTaskBody{Reason: failure.Error(), Category: CategoryPush},
		})
		return err
	case failure != nil:
		w.failed(failure)
		_, err = tasks.ReleaseTask(ctx, &named)
		return err
	}
	w.succeeded()
	switch {
	case a.later:
	case a.Complete != nil:
		in := httpapi.CompleteTaskInput{TaskInput: named}
		if in.Body.Result = a.Complete.Result; len(in.Body.Result) == 0 {
			in.Body.Result = json.RawMessage("null")
		}
		_, err = tasks.CompleteTask(ctx, &in)
	case a.Fail != nil:
		if a.Fail.Reason == "" {
			a.Fail.Reason = "the worker gave no reason"
		}
		_, err = tasks.FailTask(ctx, &httpapi.FailTaskInput{TaskInput: named, Body: *a.Fail})
	case a.Suspend != nil:
		_, err = tasks.SuspendTask(ctx, &httpapi.SuspendTaskInput{TaskInput: named, Body: *a.Suspend})
	}
	return err
}
