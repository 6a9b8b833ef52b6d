package service

import (
	"context"
	"net/url"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// bulkJobOf describes a job, without the payload of its signals for who may not read payloads.
func bulkJobOf(ctx context.Context, j *fabrictype.BulkJob) api.BulkJob {
	action := j.Action
	if !login.From(ctx).May(api.ReadPayloads) {
		action.Payload = nil
	}
	return api.BulkJob{
		ID: j.ID, Action: action, Query: j.Query, Rate: j.Rate, Most: j.Most, Actor: j.Actor, State: j.State,
		CreatedAt: j.CreatedAt, ClosedAt: j.ClosedAt, StoppedBy: j.StoppedBy, Progress: j.Progress,
	}
}

// ListBulkJobs implements api.ListBulkJobs.
func (s *Service) ListBulkJobs(ctx context.Context, _ *api.Empty) (*api.Page[api.BulkJob], error) {
	return collect(s.client.BulkJobs(ctx), func(j *fabrictype.BulkJob) api.BulkJob { return bulkJobOf(ctx, j) })
}

// GetBulkJob implements api.GetBulkJob.
func (s *Service) GetBulkJob(ctx context.Context, in *api.BulkJobInput) (*api.BulkJob, error) {
	j, err := s.client.DescribeBulkJob(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	out := bulkJobOf(ctx, j)
	return &out, nil
}

func bulkQuery(in *api.BulkInput) (runtime.RunQuery, error) {
	values, err := url.ParseQuery(in.Body.Query)
	if err != nil {
		return runtime.RunQuery{}, faultAt("/query", "must be parameters of a URL: %v", err)
	}
	if len(values) == 0 && !in.Body.EveryRun {
		return runtime.RunQuery{}, faultAt("/query", "selects every run; set every_run to confirm that")
	}
	return runtime.ParseRunQuery(values)
}

// PreviewBulkJob implements api.PreviewBulkJob.
func (s *Service) PreviewBulkJob(ctx context.Context, in *api.BulkInput) (*api.BulkPreview, error) {
	q, err := bulkQuery(in)
	if err != nil {
		return nil, err
	}
	p, err := s.as(ctx).PreviewBulkJob(ctx, q, in.Body.Action, bulkOptions(in))
	if err != nil {
		return nil, err
	}
	sample := pageOf(p.Sample, func(r fabrictype.BulkRun) api.BulkRun {
		return api.BulkRun{Flow: r.Flow, Run: r.Run, State: r.State, CreatedAt: r.CreatedAt}
	})
	return &api.BulkPreview{Runs: p.Runs, States: p.States, Sample: sample.Items, More: p.More}, nil
}

func bulkOptions(in *api.BulkInput) runtime.BulkOptions {
	return runtime.BulkOptions{ID: in.Body.ID, Rate: in.Body.Rate, Most: in.Body.Most}
}

// StartBulkJob implements api.StartBulkJob.
func (s *Service) StartBulkJob(ctx context.Context, in *api.BulkInput) (*api.BulkJob, error) {
	q, err := bulkQuery(in)
	if err != nil {
		return nil, err
	}
	options := bulkOptions(in)
	options.ID = named(ctx, options.ID)
	options.Actor = login.From(ctx).Name
	j, err := s.as(ctx).StartBulkJob(ctx, q, in.Body.Action, options)
	if err != nil {
		return nil, err
	}
	out := bulkJobOf(ctx, j)
	return &out, nil
}

// StopBulkJob implements api.StopBulkJob.
func (s *Service) StopBulkJob(ctx context.Context, in *api.BulkJobInput) (*api.Empty, error) {
	return done(s.as(ctx).StopBulkJob(ctx, in.Job))
}
