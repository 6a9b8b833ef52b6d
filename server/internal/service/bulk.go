package service

import (
	"context"
	"net/url"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// shownJob returns a job, without the payload of its signals for who may not read payloads.
func shownJob(ctx context.Context, j *fabrictype.BulkJob) *fabrictype.BulkJob {
	if !login.From(ctx).May(api.ReadPayloads) {
		j.Action.Payload = nil
	}
	return j
}

// ListBulkJobs implements httpapi.ListBulkJobs.
func (s *Service) ListBulkJobs(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[fabrictype.BulkJob], error) {
	return collect(s.client.BulkJobs(ctx), func(j *fabrictype.BulkJob) fabrictype.BulkJob { return *shownJob(ctx, j) })
}

// GetBulkJob implements httpapi.GetBulkJob.
func (s *Service) GetBulkJob(ctx context.Context, in *httpapi.BulkJobInput) (*fabrictype.BulkJob, error) {
	j, err := s.client.BulkJob(in.Job).Describe(ctx)
	if err != nil {
		return nil, err
	}
	return shownJob(ctx, j), nil
}

func bulkQuery(in *httpapi.BulkInput) (runtime.RunQuery, error) {
	values, err := url.ParseQuery(in.Body.Query)
	if err != nil {
		return runtime.RunQuery{}, faultAt("/query", "must be parameters of a URL: %v", err)
	}
	if len(values) == 0 && !in.Body.EveryRun {
		return runtime.RunQuery{}, faultAt("/query", "selects every run; set every_run to confirm that")
	}
	var q runtime.RunQuery
	err = q.ReadValues(values)
	return q, err
}

// PreviewBulkJob implements httpapi.PreviewBulkJob.
func (s *Service) PreviewBulkJob(ctx context.Context, in *httpapi.BulkInput) (*fabrictype.BulkPreview, error) {
	q, err := bulkQuery(in)
	if err != nil {
		return nil, err
	}
	p, err := s.as(ctx).PreviewBulkJob(ctx, q, in.Body.Action, bulkOptions(in))
	if err != nil {
		return nil, err
	}
	return p, nil
}

func bulkOptions(in *httpapi.BulkInput) runtime.BulkOptions {
	return runtime.BulkOptions{ID: in.Body.ID, Rate: in.Body.Rate, Most: in.Body.Most}
}

// StartBulkJob implements httpapi.StartBulkJob.
func (s *Service) StartBulkJob(ctx context.Context, in *httpapi.BulkInput) (*fabrictype.BulkJob, error) {
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
	return shownJob(ctx, j), nil
}

// StopBulkJob implements httpapi.StopBulkJob.
func (s *Service) StopBulkJob(ctx context.Context, in *httpapi.BulkJobInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).BulkJob(in.Job).Stop(ctx))
}
