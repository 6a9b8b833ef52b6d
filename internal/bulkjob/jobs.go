package bulkjob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/answer"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// maxID is the most bytes of the id of a bulk job.
const maxID = 256

// CheckID returns an error that wraps [engine.ErrInvalid] for an id that no job can have.
func CheckID(id string) error {
	if id == "" {
		return engine.Invalid("bulk job id: must not be empty")
	}
	if err := recordtext.Check("bulk job id", id, maxID); err != nil {
		return engine.Invalid("%w", err)
	}
	if err := recordtext.PathFault(id); err != nil {
		return engine.Invalid("bulk job id: %w", err)
	}
	return nil
}

// CheckAction checks the fields that an action needs; the other fields must be empty. The error wraps
// [engine.ErrInvalid].
func CheckAction(a fabrictype.BulkAction) error {
	rest := a
	rest.Kind = ""
	var err error
	switch a.Kind {
	case "cancel", "cancel_pending", "pause":
		err, rest.Reason = engine.CheckReason(a.Reason), ""
	case "rerun":
		err, rest.Scope = submit.CheckScope(a.Scope), ""
	case "priority":
		err, rest.Priority = runcontrol.CheckPriority(a.Priority), 0
	case "signal":
		err, rest.Signal, rest.Payload = checkSignal(a), "", nil
	case "purge", "resume":
	default:
		return engine.Invalid(
			"action %q: must be one of cancel, cancel_pending, pause, priority, purge, rerun, resume, signal", a.Kind)
	}
	if err == nil && (rest.Reason != "" || rest.Scope != "" || rest.Priority != 0 || rest.Signal != "" ||
		len(rest.Payload) > 0) {
		err = engine.Invalid("action %q: has fields of other actions", a.Kind)
	}
	return err
}

func checkSignal(a fabrictype.BulkAction) error {
	if err := activityspec.CheckName(a.Signal); err != nil {
		return engine.Invalid("signal %q: %w", a.Signal, err)
	}
	if len(a.Payload) > 0 {
		if err := activityspec.CheckJSON(a.Payload); err != nil {
			return engine.Invalid("signal %q: the payload is not fit: %w", a.Signal, err)
		}
	}
	if len(a.Payload) > answer.MaxPayload {
		return engine.Invalid("signal %q: payload has %d bytes, at most %d are allowed", a.Signal, len(a.Payload),
			answer.MaxPayload)
	}
	return nil
}

// Detail is the job in the audit log: its action and query, without the payload of signals.
func (s Spec) Detail() string {
	text := s.Action.Kind
	for _, part := range []string{string(s.Action.Scope), s.Action.Signal} {
		if part != "" {
			text += " " + part
		}
	}
	if s.Action.Kind == "priority" {
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

// Job identifies a bulk job of a namespace, and knows where the engine keeps it.
type Job struct {
	session   *engine.Session
	core      engine.Library
	name      string
	id        keyspace.BulkJobID
	partition keyspace.Partition
}

// Find returns a job of the session's namespace. It sends nothing, and the job need not exist. Its error wraps
// [engine.ErrInvalid] for an id that no job can have.
func Find(s *engine.Session, core engine.Library, id string) (Job, error) {
	if err := CheckID(id); err != nil {
		return Job{}, err
	}
	j := Job{session: s, core: core, name: id, id: keyspace.BulkJobIDFor(s.Namespace, id)}
	var err error
	j.partition, err = s.Core.Partitioning().BulkJobPartition(j.id)
	return j, err
}

// Start begins the job of an encoded spec. The error wraps [engine.ErrBulkJobConflict] if the id belongs to another
// job.
func (j Job) Start(ctx context.Context, spec []byte) error {
	reply, err := j.core.StartBulkJob(ctx, enginerpc.StartBulkJobCall{
		Partition: j.partition, BulkJobID: j.id, Namespace: j.session.Namespace, Spec: spec,
	})
	if err == nil && !bytes.Equal(reply.Spec, spec) {
		err = engine.ErrBulkJobConflict
	}
	return err
}

// Describe returns the job with its progress. The error wraps [engine.ErrBulkJobNotFound].
func (j Job) Describe(ctx context.Context) (*fabrictype.BulkJob, error) {
	reply, err := j.core.ReadBulkJob(ctx, enginerpc.ReadBulkJobCall{Partition: j.partition, BulkJobID: j.id})
	if err != nil {
		return nil, fmt.Errorf("bulk job %s: %w", j.name, fault(err))
	}
	return describe(reply.Jobs[0])
}

// Stop stops the job for good. The error wraps [engine.ErrBulkJobNotFound].
func (j Job) Stop(ctx context.Context, actor string) error {
	_, err := j.core.StopBulkJob(ctx,
		enginerpc.StopBulkJobCall{Partition: j.partition, BulkJobID: j.id, Actor: actor})
	return fault(err)
}

func fault(err error) error {
	if errors.Is(err, errorcode.BulkJobNotFound) {
		return engine.ErrBulkJobNotFound
	}
	return err
}

// List yields the jobs of the session's namespace, in no particular order. An error ends the iteration.
func List(ctx context.Context, s *engine.Session, core engine.Library) iter.Seq2[*fabrictype.BulkJob, error] {
	return func(yield func(*fabrictype.BulkJob, error) bool) {
		for _, p := range s.Partitions() {
			more, err := yieldJobs(ctx, s, core, p, yield)
			if err != nil {
				yield(nil, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// yieldJobs yields the jobs of a partition, each once, and reports whether the caller wants more.
func yieldJobs(
	ctx context.Context, s *engine.Session, core engine.Library, p keyspace.Partition,
	yield func(*fabrictype.BulkJob, error) bool,
) (more bool, err error) {
	call := enginerpc.ListBulkJobsCall{Partition: p, Namespace: s.Namespace}
	seen := make(map[keyspace.BulkJobID]bool)
	for {
		reply, err := core.ListBulkJobs(ctx, call)
		if err != nil {
			return false, err
		}
		for _, stored := range reply.Jobs {
			if seen[stored.BulkJobID] {
				continue
			}
			seen[stored.BulkJobID] = true
			job, err := describe(stored)
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

func describe(stored enginerpc.BulkJobRecord) (*fabrictype.BulkJob, error) {
	spec, err := ReadSpec(stored.Spec)
	if err != nil {
		return nil, err
	}
	progress, err := readProgress(stored.Progress)
	if err != nil {
		return nil, err
	}
	return &fabrictype.BulkJob{
		ID: spec.ID, Action: spec.Action, Query: spec.Query, Rate: spec.Rate, Most: spec.Most, Actor: spec.Actor,
		State: fabrictype.BulkState(stored.State), CreatedAt: stored.CreatedAt, ClosedAt: stored.ClosedAt,
		StoppedBy: stored.StoppedBy, Progress: progress.BulkProgress,
	}, nil
}
