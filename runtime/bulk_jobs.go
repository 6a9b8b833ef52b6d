package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/bulkjob"
	"github.com/flowfabric/flowfabric-go/internal/engine"
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
	job, err := bulkjob.Find(c.session, store, o.ID)
	if err != nil {
		return fail(err)
	}
	entry := fabrictype.AuditEntry{Actor: o.Actor, Action: auditlink.StartBulkJob, Name: o.ID, Detail: spec.Detail()}
	call := interceptor.ClientCall{Flow: q.Flow, Action: a.Kind}
	err = c.auditedCall(ctx, entry, call, func(ctx context.Context) error { return job.Start(ctx, data) })
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
	job, err := bulkjob.Find(j.client.session, store, j.id)
	if err != nil {
		return nil, fmt.Errorf("bulk job %s: %w", j.id, err)
	}
	return job.Describe(ctx)
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
		for job, err := range bulkjob.List(ctx, c.session, store) {
			if err != nil {
				err = fmt.Errorf("list bulk jobs: %w", err)
			}
			if !yield(job, err) {
				return
			}
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
	job, findErr := bulkjob.Find(j.client.session, store, j.id)
	if err = errors.Join(err, findErr); err == nil {
		entry := fabrictype.AuditEntry{Actor: by.actor, Action: auditlink.StopBulkJob, Name: j.id}
		err = j.client.audited(ctx, entry, func(ctx context.Context) error { return job.Stop(ctx, by.actor) })
	}
	if err != nil {
		return fmt.Errorf("stop bulk job %s: %w", j.id, err)
	}
	return nil
}

// bulkSpec checks a job, and returns its stored form, which is the same for the same job.
func bulkSpec(q RunQuery, a fabrictype.BulkAction, o BulkOptions) (bulkjob.Spec, error) {
	o.Actor = cmp.Or(o.Actor, "client")
	err := errors.Join(q.Check(), bulkjob.CheckAction(a), bulkjob.CheckID(o.ID),
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
	var canonical RunQuery
	err = canonical.ReadValues(values)
	if err != nil {
		return bulkjob.Spec{}, err
	}
	return bulkjob.Spec{
		ID: o.ID, Action: a, Query: values.Encode(), Search: canonical.stored(), Rate: o.Rate, Most: o.Most,
		Actor: o.Actor,
	}, nil
}

// minBulkRate is the lowest rate of a job: one run an hour.
const minBulkRate = 1.0 / 3600
