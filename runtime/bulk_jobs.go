package runtime

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/answer"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/bulkjob"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
)

// BulkOptions adjust a bulk job.
type BulkOptions struct {
	// ID is the id of the job, unique within the namespace: 1 to 256 bytes of UTF-8 without control characters.
	// Starting the same job again with the same id has no further effect. Defaults to a random UUID.
	ID string
	// Rate is the most runs a second that the job handles, on average; 0 is unbounded. Up to a fifth of a second's
	// runs, and at least one, are handled together.
	Rate float64
	// Most is how many runs the job handles at most; 0 is all.
	Most int
	// Actor names who acts, for the records of the job and of the runs. Defaults to "client".
	Actor string
}

// maxPreview is how many runs a preview counts, and maxSample how many it lists.
const (
	maxPreview = 100_000
	maxSample  = 20
)

// maxBulkJobID is the most bytes of the id of a bulk job.
const maxBulkJobID = 256

// StartBulkJob begins a job that performs an action on all runs that the query selects and that existed when the job
// began, in the order of the query. Keepers perform the job in bounded steps from a stored cursor: it continues when
// the program that began it, or a keeper, has stopped. Keepers read each run when its turn comes, so a run that has
// left or entered a state in the meantime is selected by its new state.
//
// A run is handled once. If a keeper is killed after it has acted on a run and before it has recorded that, the next
// one repeats this run, which changes nothing: a cancelled run stays cancelled, and reruns and signals of the job are
// known.
//
// With BulkOptions.ID, the call can be repeated: while there is a job with that id, also one that is over, it returns
// that job and begins nothing. The error matches ErrInvalid for a query, an action or options that cannot be used,
// ErrConflict when the id belongs to another job, or in contract mode ErrNotInContract.
func (c *Client) StartBulkJob(
	ctx context.Context, q RunQuery, a fabrictype.BulkAction, o BulkOptions,
) (*fabrictype.BulkJob, error) {
	fail := func(err error) (*fabrictype.BulkJob, error) {
		return nil, fmt.Errorf("start bulk job %s: %w", o.ID, err)
	}
	store, err := library(ctx, c, "bulk jobs")
	if err != nil {
		return fail(err)
	}
	o.ID, o.Actor = cmp.Or(o.ID, uuid.NewString()), cmp.Or(o.Actor, c.actorName())
	spec, err := bulkSpec(q, a, o)
	if err != nil {
		return fail(err)
	}
	data, err := spec.Encode()
	if err != nil {
		return fail(err)
	}
	id, p, err := c.locateBulkJob(o.ID)
	if err != nil {
		return fail(err)
	}
	entry := fabrictype.AuditEntry{Actor: o.Actor, Action: auditlink.StartBulkJob, Name: o.ID, Detail: bulkDetail(spec)}
	call := interceptor.ClientCall{Flow: q.Flow, Action: string(a.Kind)}
	err = c.auditedCall(ctx, entry, call, func(ctx context.Context) error {
		reply, err := store.StartBulkJob(ctx, enginerpc.StartBulkJobCall{
			Partition: p, BulkJobID: id, Namespace: c.session.Namespace, Spec: data,
		})
		if err == nil && !bytes.Equal(reply.Spec, data) {
			err = engine.ErrBulkJobConflict
		}
		return err
	})
	if err != nil {
		return fail(err)
	}
	return c.BulkJob(o.ID).Describe(ctx)
}

// PreviewBulkJob returns the runs on which a job would act, and changes nothing: it counts the runs that the query
// selects now, by state, and lists the first of them. It reads each of these runs. Its errors are the errors of
// StartBulkJob.
func (c *Client) PreviewBulkJob(
	ctx context.Context, q RunQuery, a fabrictype.BulkAction, o BulkOptions,
) (*fabrictype.BulkPreview, error) {
	_, err := library(ctx, c, "bulk jobs")
	if err == nil {
		o.ID = cmp.Or(o.ID, "preview")
		_, err = bulkSpec(q, a, o)
	}
	if err != nil {
		return nil, fmt.Errorf("preview a bulk job: %w", err)
	}
	most := maxPreview
	if o.Most > 0 {
		most = min(most, o.Most)
	}
	preview := &fabrictype.BulkPreview{States: make(map[fabrictype.RunState]int), Sample: []fabrictype.Run{}}
	for run, err := range c.Runs(ctx, q) {
		if err != nil {
			return nil, fmt.Errorf("preview a bulk job: %w", err)
		}
		if preview.Runs == most {
			preview.More = true
			break
		}
		preview.Runs++
		preview.States[run.State]++
		if len(preview.Sample) < maxSample {
			preview.Sample = append(preview.Sample, run)
		}
	}
	return preview, nil
}

// BulkJobRef refers to one bulk job by its id. Client.BulkJob returns one. It holds no state of the job: each call
// queries the engine, in the namespace of the client. It is safe for concurrent use, as long as its client is open.
//
// The error of every call wraps ErrNotFound, ErrInvalid for an id that no job can have, and in contract mode
// ErrNotInContract.
type BulkJobRef struct {
	client *Client
	id     string
}

// BulkJob returns a reference to a bulk job. It sends nothing, and the job need not exist.
func (c *Client) BulkJob(id string) *BulkJobRef { return &BulkJobRef{client: c, id: id} }

// Describe returns the job with its progress.
func (j *BulkJobRef) Describe(ctx context.Context) (*fabrictype.BulkJob, error) {
	store, err := library(ctx, j.client, "bulk jobs")
	if err != nil {
		return nil, fmt.Errorf("bulk job %s: %w", j.id, err)
	}
	stored, p, err := j.client.locateBulkJob(j.id)
	if err != nil {
		return nil, fmt.Errorf("bulk job %s: %w", j.id, err)
	}
	reply, err := store.ReadBulkJob(ctx, enginerpc.ReadBulkJobCall{Partition: p, BulkJobID: stored})
	if err != nil {
		return nil, fmt.Errorf("bulk job %s: %w", j.id, bulkJobFault(err))
	}
	return describeBulkJob(reply.Jobs[0])
}

// BulkJobs yields the jobs of the client's namespace, in no particular order: those that run, and those that ended
// within a week. It reads them in pages; a job that begins or is removed during the iteration may be included or not.
// An error ends the iteration; in contract mode it wraps ErrNotInContract.
func (c *Client) BulkJobs(ctx context.Context) iter.Seq2[*fabrictype.BulkJob, error] {
	return func(yield func(*fabrictype.BulkJob, error) bool) {
		store, err := library(ctx, c, "bulk jobs")
		if err != nil {
			yield(nil, fmt.Errorf("list bulk jobs: %w", err))
			return
		}
		for _, p := range c.session.Partitions() {
			goOn, err := c.yieldBulkJobs(ctx, store, p, yield)
			if err != nil {
				yield(nil, fmt.Errorf("list bulk jobs: %w", err))
				return
			}
			if !goOn {
				return
			}
		}
	}
}

// yieldBulkJobs yields the jobs of a partition, each once.
func (c *Client) yieldBulkJobs(
	ctx context.Context, store engine.Library, p keyspace.Partition, yield func(*fabrictype.BulkJob, error) bool,
) (bool, error) {
	call := enginerpc.ListBulkJobsCall{Partition: p, Namespace: c.session.Namespace}
	seen := make(map[keyspace.BulkJobID]bool)
	for {
		reply, err := store.ListBulkJobs(ctx, call)
		if err != nil {
			return false, err
		}
		for _, stored := range reply.Jobs {
			if seen[stored.BulkJobID] {
				continue
			}
			seen[stored.BulkJobID] = true
			job, err := describeBulkJob(stored)
			if err != nil {
				return false, err
			}
			if !yield(job, nil) {
				return false, nil
			}
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return true, nil
		}
	}
}

// Stop stops the job for good: the run that a keeper acts on at this moment is the last one. Effects on runs stay.
// Stopping a job that is over is not an error. The error wraps ErrInvalid for an invalid actor.
func (j *BulkJobRef) Stop(ctx context.Context, opts ...ActionOption) error {
	store, err := library(ctx, j.client, "bulk jobs")
	if err != nil {
		return fmt.Errorf("stop bulk job %s: %w", j.id, err)
	}
	by, err := j.client.actionOf(opts)
	stored, p, locateErr := j.client.locateBulkJob(j.id)
	if err = errors.Join(err, locateErr); err == nil {
		entry := fabrictype.AuditEntry{Actor: by.actor, Action: auditlink.StopBulkJob, Name: j.id}
		err = j.client.audited(ctx, entry, func(ctx context.Context) error {
			_, err := store.StopBulkJob(ctx,
				enginerpc.StopBulkJobCall{Partition: p, BulkJobID: stored, Actor: by.actor})
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("stop bulk job %s: %w", j.id, bulkJobFault(err))
	}
	return nil
}

// locateBulkJob finds where a job of the client's namespace lives.
func (c *Client) locateBulkJob(name string) (keyspace.BulkJobID, keyspace.Partition, error) {
	if err := checkBulkJobID(name); err != nil {
		return "", keyspace.Partition{}, err
	}
	id := keyspace.BulkJobIDFor(c.session.Namespace, name)
	p, err := c.session.Core.Partitioning().BulkJobPartition(id)
	return id, p, err
}

func bulkJobFault(err error) error {
	if errors.Is(err, errorcode.BulkJobNotFound) {
		return engine.ErrBulkJobNotFound
	}
	return err
}

func checkBulkJobID(id string) error {
	if id == "" {
		return invalid("bulk job id: must not be empty")
	}
	if err := recordtext.Check("bulk job id", id, maxBulkJobID); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := recordtext.PathFault(id); err != nil {
		return invalid("bulk job id: %w", err)
	}
	return nil
}

// bulkSpec checks a job, and returns its stored form, which is the same for the same job.
func bulkSpec(q RunQuery, a fabrictype.BulkAction, o BulkOptions) (bulkjob.Spec, error) {
	o.Actor = cmp.Or(o.Actor, "client")
	err := errors.Join(q.Check(), checkBulkAction(a), checkBulkJobID(o.ID),
		engine.CheckText("actor", o.Actor, engine.MaxActor))
	if o.Rate < 0 || math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0) || o.Rate > 0 && o.Rate < minBulkRate {
		err = errors.Join(err, invalid("rate %v: must be 0, or at least %v runs a second", o.Rate, minBulkRate))
	}
	if o.Most < 0 {
		err = errors.Join(err, invalid("most %d: must not be negative", o.Most))
	}
	if err != nil {
		return bulkjob.Spec{}, err
	}
	values := q.Values()
	canonical, err := ParseRunQuery(values)
	if err != nil {
		return bulkjob.Spec{}, err
	}
	return bulkjob.Spec{
		ID: o.ID, Action: a, Query: values.Encode(), Search: canonical.stored(), Rate: o.Rate, Most: o.Most,
		Actor: o.Actor,
	}, nil
}

// bulkDetail is a job in the audit log: its action and query, without the payload of signals.
func bulkDetail(s bulkjob.Spec) string {
	text := string(s.Action.Kind)
	for _, part := range []string{string(s.Action.Scope), s.Action.Signal} {
		if part != "" {
			text += " " + part
		}
	}
	if s.Action.Kind == fabrictype.BulkPriority {
		text += " " + strconv.Itoa(s.Action.Priority)
	}
	text += " of runs with " + s.Query
	if s.Query == "" {
		text = strings.TrimSuffix(text, "runs with ") + "all runs"
	}
	if s.Action.Reason != "" {
		text += fmt.Sprintf(", reason %q", s.Action.Reason)
	}
	if s.Most > 0 {
		text += fmt.Sprintf(", at most %d runs", s.Most)
	}
	if s.Rate > 0 {
		text += fmt.Sprintf(", %v a second", s.Rate)
	}
	return text
}

// minBulkRate is the lowest rate of a job: one run an hour.
const minBulkRate = 1.0 / 3600

// checkBulkAction checks the fields that an action needs; the other fields must be empty.
func checkBulkAction(a fabrictype.BulkAction) error {
	rest := a
	rest.Kind = ""
	var err error
	switch a.Kind {
	case fabrictype.BulkCancel, fabrictype.BulkCancelPending, fabrictype.BulkPause:
		err, rest.Reason = engine.CheckReason(a.Reason), ""
	case fabrictype.BulkRerun:
		err, rest.Scope = checkScope(a.Scope), ""
	case fabrictype.BulkPriority:
		err, rest.Priority = runcontrol.CheckPriority(a.Priority), 0
	case fabrictype.BulkSignal:
		err, rest.Signal, rest.Payload = checkBulkSignal(a), "", nil
	case fabrictype.BulkPurge, fabrictype.BulkResume:
	default:
		return invalid("action %q: must be made by a function of package bulk", a.Kind)
	}
	if err == nil && (rest.Reason != "" || rest.Scope != "" || rest.Priority != 0 || rest.Signal != "" ||
		len(rest.Payload) > 0) {
		err = invalid("action %q: has fields of other actions: make it by a function of package bulk", a.Kind)
	}
	return err
}

func checkBulkSignal(a fabrictype.BulkAction) error {
	if err := activityspec.CheckName(a.Signal); err != nil {
		return invalid("signal %q: %w", a.Signal, err)
	}
	if len(a.Payload) > 0 {
		if err := activityspec.CheckJSON(a.Payload); err != nil {
			return invalid("signal %q: the payload is not fit: %w", a.Signal, err)
		}
	}
	if len(a.Payload) > answer.MaxPayload {
		return invalid("signal %q: payload has %d bytes, at most %d are allowed", a.Signal, len(a.Payload),
			answer.MaxPayload)
	}
	return nil
}

func describeBulkJob(stored enginerpc.BulkJobRecord) (*fabrictype.BulkJob, error) {
	spec, err := bulkjob.ReadSpec(stored.Spec)
	if err != nil {
		return nil, err
	}
	progress, err := bulkjob.ReadProgress(stored.Progress)
	if err != nil {
		return nil, err
	}
	return &fabrictype.BulkJob{
		ID: spec.ID, Action: spec.Action, Query: spec.Query, Rate: spec.Rate, Most: spec.Most, Actor: spec.Actor,
		State: fabrictype.BulkState(stored.State), CreatedAt: stored.CreatedAt, ClosedAt: stored.ClosedAt,
		StoppedBy: stored.StoppedBy, Progress: progress,
	}, nil
}
