package service

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

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

// mayTouch returns an error that wraps [login.ErrForbidden] if a query may select runs of flows that the caller may not
// see: a principal who is bound to flows has to name one of them, or the runs.
func mayTouch(ctx context.Context, q runtime.RunQuery) error {
	who := login.From(ctx)
	if !who.Restricted() {
		return nil
	}
	flows := []string{q.Flow}
	if len(q.Runs) > 0 {
		flows = nil
	}
	for _, name := range q.Runs {
		flow, _, _ := strings.Cut(name, "/")
		flows = append(flows, flow)
	}
	for _, flow := range flows {
		if flow == "" || !who.Sees(flow) {
			return fmt.Errorf("%w: the query selects runs of flows that you may not see: name one of your flows",
				login.ErrForbidden)
		}
	}
	return nil
}

// mayTouchJob is mayTouch for a stored job.
func mayTouchJob(ctx context.Context, j *fabrictype.BulkJob) error {
	values, err := url.ParseQuery(j.Query)
	if err != nil {
		return err
	}
	var q runtime.RunQuery
	if err := q.ReadValues(values); err != nil {
		return err
	}
	return mayTouch(ctx, q)
}

// ListBulkJobs implements httpapi.ListBulkJobs.
func (s *Service) ListBulkJobs(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[fabrictype.BulkJob], error) {
	page, err := collect(s.client.BulkJobs(ctx),
		func(j *fabrictype.BulkJob) fabrictype.BulkJob { return *shownJob(ctx, j) })
	if err == nil && login.From(ctx).Restricted() {
		page.Items = slices.DeleteFunc(page.Items,
			func(j fabrictype.BulkJob) bool { return mayTouchJob(ctx, &j) != nil })
	}
	return page, err
}

// GetBulkJob implements httpapi.GetBulkJob.
func (s *Service) GetBulkJob(ctx context.Context, in *httpapi.BulkJobInput) (*fabrictype.BulkJob, error) {
	j, err := s.client.BulkJob(in.Job).Describe(ctx)
	if err == nil {
		err = mayTouchJob(ctx, j)
	}
	if err != nil {
		return nil, err
	}
	return shownJob(ctx, j), nil
}

func bulkQuery(ctx context.Context, in *httpapi.BulkInput) (runtime.RunQuery, error) {
	values, err := url.ParseQuery(in.Body.Query)
	if err != nil {
		return runtime.RunQuery{}, faultAt("/query", "must be parameters of a URL: %v", err)
	}
	if len(values) == 0 && !in.Body.EveryRun {
		return runtime.RunQuery{}, faultAt("/query", "selects every run; set every_run to confirm that")
	}
	var q runtime.RunQuery
	if err := q.ReadValues(values); err != nil {
		return q, err
	}
	return q, mayTouch(ctx, q)
}

// PreviewBulkJob implements httpapi.PreviewBulkJob.
func (s *Service) PreviewBulkJob(ctx context.Context, in *httpapi.BulkInput) (*fabrictype.BulkPreview, error) {
	q, err := bulkQuery(ctx, in)
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

// needForAction returns an error unless the caller may perform the action on one run: that is enough for many runs.
func needForAction(ctx context.Context, kind string) error {
	switch kind {
	case "purge":
		return login.Need(ctx, api.Administer)
	case "signal":
		return login.Need(ctx, api.Approve)
	}
	return nil // the operation itself needs the right operate
}

// StartBulkJob implements httpapi.StartBulkJob.
func (s *Service) StartBulkJob(ctx context.Context, in *httpapi.BulkInput) (*fabrictype.BulkJob, error) {
	if err := needForAction(ctx, in.Body.Action.Kind); err != nil {
		return nil, err
	}
	q, err := bulkQuery(ctx, in)
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
	if _, err := s.GetBulkJob(ctx, in); err != nil {
		return nil, err
	}
	return done(s.as(ctx).BulkJob(in.Job).Stop(ctx))
}
