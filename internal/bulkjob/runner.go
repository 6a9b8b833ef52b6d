package bulkjob

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/runsearch"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

const (
	// stepRuns and stepTime bound one step of a job: then others have their turn.
	stepRuns = 100
	stepTime = 2 * time.Second
	// stepsPerSecond is in how many steps the runs of a second are handled, for a job with a rate.
	stepsPerSecond = 5
	// retryAfter is when a job is due again whose step has failed.
	retryAfter = 5 * time.Second
	// jobsAtOnce bounds the jobs that a runner works on at a time.
	jobsAtOnce = 4
	// stopPatience is how long a keeper that stops may take for the run that it acts on, and then to give its jobs
	// back.
	stopPatience = 5 * time.Second
	// maxFailureText bounds the stored text of a failure in bytes.
	maxFailureText = 256
)

// Runner takes the steps of jobs, for a keeper. NewRunner makes one, Close ends it. It is safe for concurrent use.
type Runner struct {
	session   *engine.Session
	submitter *submit.Submitter
	claimant  string
	slots     chan struct{} // bounds the jobs that are worked on at a time
	tasks     sync.WaitGroup
}

// NewRunner returns a runner for a keeper, whose ID is unique; the caller must Close it.
func NewRunner(s *engine.Session, keeper string) *Runner {
	return &Runner{
		session: s, submitter: submit.NewSubmitter(s), claimant: keeper,
		slots: make(chan struct{}, jobsAtOnce),
	}
}

// Close waits for the steps under way. To end them early, end the ctx of Begin first.
func (r *Runner) Close() {
	r.tasks.Wait()
	r.submitter.Close()
}

// Begin takes one step of each of the due jobs of a partition in the background. It logs failures; the engine reports
// such a job again.
func (r *Runner) Begin(ctx context.Context, p keyspace.Partition, due []keyspace.BulkJobID) {
	for _, id := range due {
		r.tasks.Go(func() {
			select {
			case r.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-r.slots }()
			r.work(ctx, p, id)
		})
	}
}

// work takes one step of a job.
func (r *Runner) work(ctx context.Context, p keyspace.Partition, id keyspace.BulkJobID) {
	defer func() {
		if fault := recover(); fault != nil {
			r.session.Logger.LogAttrs(ctx, slog.LevelError,
				"flowfabric: the keeper recovered from a panic and continues",
				observe.EventKeeperPanicked.Attr(), slog.Any("tasks", []engine.TaskID{engine.TaskBulkJob}),
				slog.Any("panic", fault), slog.String("stack", string(debug.Stack())))
		}
	}()
	err := r.step(ctx, p, id)
	if err == nil || ctx.Err() != nil || errors.Is(err, errorcode.BulkJobNotFound) ||
		errors.Is(err, errorcode.BulkJobOver) || errors.Is(err, errorcode.BulkJobTaken) {
		return
	}
	r.session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the keeper could not go on with a bulk job and retries",
		observe.EventBulkJobFailed.Attr(), slog.String("bulk_job_id", string(id)), slog.Any("error", err))
}

// step is one step of a job that this keeper has taken.
type step struct {
	*Runner
	actor
	partition keyspace.Partition
	taken     enginerpc.TakeBulkJobReply
	progress  progress
	// again reports whether the action on a run is repeated.
	again bool
	// now is the engine's time of the last reply.
	now time.Time
}

// step takes a job, handles some of its runs, and gives it back.
func (r *Runner) step(ctx context.Context, p keyspace.Partition, id keyspace.BulkJobID) error {
	call := enginerpc.TakeBulkJobCall{Partition: p, BulkJobID: id, Claimant: r.claimant}
	taken, err := r.session.Core.TakeBulkJob(ctx, call)
	if err != nil {
		return err
	}
	spec, err := ReadSpec(taken.Spec)
	if err != nil {
		return err // left to a keeper that can read it
	}
	s := &step{Runner: r, partition: p, taken: taken, now: taken.Now, actor: actor{
		session: r.session, submitter: r.submitter, job: id, spec: spec, began: taken.CreatedAt,
	}}
	if s.progress, err = readProgress(taken.Progress); err != nil {
		return err
	}
	due, completed, err := s.handleSome(ctx)
	switch {
	case errors.Is(err, errorcode.BulkJobTaken), errors.Is(err, errStopped):
		return nil
	case err != nil && ctx.Err() == nil:
		due = s.now.Add(retryAfter)
	case err != nil:
		due = s.now // the keeper stops, another one continues
	}
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	return errors.Join(err, s.save(saving, due, completed))
}

// errStopped reports a job that was stopped while it ran.
var errStopped = errors.New("bulk job is stopped")

// save saves the progress: with due, the job is given back until then.
func (s *step) save(ctx context.Context, due time.Time, completed bool) error {
	data, err := json.Marshal(s.progress)
	if err != nil {
		return err
	}
	reply, err := s.Runner.session.Core.SaveBulkJob(ctx, enginerpc.SaveBulkJobCall{
		Partition: s.partition, BulkJobID: s.job, Claimant: s.claimant, Progress: data, DueAt: due,
		Completed: completed,
	})
	if err != nil {
		return err
	}
	s.now = reply.Now
	if fabrictype.BulkState(reply.State) == fabrictype.BulkStopped {
		return errStopped
	}
	return nil
}

// share is how many runs one step handles.
func (s *step) share() int {
	n := stepRuns
	if s.spec.Rate > 0 {
		n = min(n, max(1, int(s.spec.Rate/stepsPerSecond)))
	}
	if s.spec.Most > 0 {
		n = min(n, s.spec.Most-s.progress.Handled())
	}
	return n
}

// outlasting returns a context that ends the given time after ctx, so that a keeper that stops can still record an
// action that it has begun on a run. The caller calls end.
func outlasting(ctx context.Context, by time.Duration) (longer context.Context, end func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(by, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() {
		unwatch()
		cancel()
	}
}

// handleSome handles runs after the cursor, and returns when the job is due again or that it is completed.
func (s *step) handleSome(ctx context.Context) (due time.Time, completed bool, err error) {
	index, err := s.Runner.session.Library("run search")
	if err != nil {
		return due, false, err
	}
	query := s.spec.query(string(s.taken.Namespace), s.began)
	if err := s.finish(ctx, query); err != nil {
		return due, false, err
	}
	share := s.share()
	if share <= 0 {
		return due, true, nil
	}
	search, err := runsearch.New(ctx, s.Runner.session, index, query, s.progress.Cursor, share)
	if err != nil {
		return due, false, err
	}
	page, next, err := search.Page(ctx, share)
	if err != nil {
		return due, false, err
	}
	acting, end := outlasting(ctx, stopPatience)
	defer end()
	began, handled := time.Now(), 0
	for i, run := range page {
		if i > 0 && time.Since(began) > stepTime {
			next = s.progress.Cursor
			break
		}
		if ctx.Err() != nil {
			return due, false, ctx.Err()
		}
		s.progress.Acting = &run
		if err := s.save(acting, time.Time{}, false); err != nil { // with the one before
			return due, false, err
		}
		if err := s.handle(acting, run); err != nil {
			return due, false, err
		}
		s.passed(query, run)
		handled++
	}
	if next == "" {
		return due, true, nil
	}
	s.progress.Cursor = next
	due = s.taken.Now
	if s.spec.Rate > 0 {
		due = due.Add(time.Duration(float64(handled) / s.spec.Rate * float64(time.Second)))
	}
	return due, s.share() <= 0, nil
}

// finish acts again on the run that a step before this one had begun with, as far as is known, and counts it.
func (s *step) finish(ctx context.Context, query runsearch.Query) error {
	if s.progress.Acting == nil {
		return nil
	}
	acting, end := outlasting(ctx, stopPatience)
	defer end()
	run := *s.progress.Acting
	s.again = true
	err := s.handle(acting, run)
	s.again = false
	if err != nil {
		return err
	}
	s.passed(query, run)
	return nil
}

// passed notes that a run was handled.
func (s *step) passed(query runsearch.Query, run enginerpc.Run) {
	s.progress.Cursor, s.progress.Acting = runsearch.CursorAfter(query, run), nil
}

// failureText is the text of an error, cut to the length that is stored.
func failureText(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxFailureText)], "")
}

// handle acts on one run and counts it. The error is not the run's: it is to be tried again.
func (s *step) handle(ctx context.Context, run enginerpc.Run) error {
	err := s.act(ctx, run)
	switch {
	case err == nil, s.again && s.isDone(err):
		s.progress.Done++
	case isPassing(ctx, err):
		return err
	case isSkip(err):
		s.progress.Skipped++
	default:
		s.progress.Failed++
		if len(s.progress.Failures) < maxFailures {
			s.progress.Failures = append(s.progress.Failures, fabrictype.BulkFailure{
				Flow: run.FlowName, Run: run.RunID, Error: failureText(err),
			})
		}
	}
	return nil
}
