package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// ErrWaitNotFound is returned for a wait that the run does not have.
var ErrWaitNotFound = errors.New("no such wait")

// ListWaits implements httpapi.ListWaits.
func (s *Service) ListWaits(
	ctx context.Context, in *httpapi.ListWaitsInput,
) (*fabrictype.Page[fabrictype.Wait], error) {
	var q runtime.WaitQuery
	err := q.ReadValues(in.Query, pagingParameters...)
	if err != nil {
		return nil, err
	}
	page, err := s.client.ListWaits(ctx, q, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	out := pageOf(visible(ctx, page.Items, flowOfWait), dataOf)
	out.Next = page.Next
	return out, nil
}

// ListRunWaits implements httpapi.ListRunWaits.
func (s *Service) ListRunWaits(
	ctx context.Context, in *httpapi.ListRunWaitsInput,
) (*fabrictype.Page[fabrictype.Wait], error) {
	waits, err := s.waits(ctx, s.run(ctx, in.RunName), in.Closed)
	if err != nil {
		return nil, err
	}
	return pageOf(waits, dataOf), nil
}

// dataOf returns a wait without its token.
func dataOf(w runtime.Waitpoint) fabrictype.Wait { return w.Wait }

// wait finds a wait of a run, or of one of its child runs that the caller may see, by its id.
func (s *Service) wait(ctx context.Context, name httpapi.WaitName) (*runtime.RunRef, runtime.Waitpoint, error) {
	run := s.run(ctx, name.RunName)
	waits, err := s.waits(ctx, run, true)
	if err != nil {
		return nil, runtime.Waitpoint{}, err
	}
	for _, w := range waits {
		if w.ID == name.Wait {
			return run, w, nil
		}
	}
	return nil, runtime.Waitpoint{}, fmt.Errorf("%w: %q", ErrWaitNotFound, name.Wait)
}

// ResumeWait implements httpapi.ResumeWait.
func (s *Service) ResumeWait(ctx context.Context, in *httpapi.ResumeWaitInput) (*httpapi.Empty, error) {
	run, w, err := s.wait(ctx, in.WaitName)
	if err != nil {
		return nil, err
	}
	return done(run.ResumeWait(ctx, w, in.Body.Payload))
}

// CancelWait implements httpapi.CancelWait.
func (s *Service) CancelWait(ctx context.Context, in *httpapi.CancelWaitInput) (*httpapi.Empty, error) {
	run, w, err := s.wait(ctx, in.WaitName)
	if err != nil {
		return nil, err
	}
	return done(run.CancelWait(ctx, w, in.Body.Reason))
}
