package runtime

import (
	"context"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

// stepCounts numbers the steps of one call of a function.
type stepCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

// Count implements activitycontext.Steps.
func (s *stepCounts) Count(kind, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = make(map[string]int, 1)
	}
	s.counts[kind+":"+name]++
	return s.counts[kind+":"+name]
}

// Counted implements activitycontext.Steps.
func (s *stepCounts) Counted(kind, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[kind+":"+name]
}

// Recorded implements activitycontext.Steps.
func (e *execution) Recorded(string) ([]byte, bool) { return nil, false }

// Record implements activitycontext.Steps.
func (e *execution) Record(context.Context, string, []byte) ([]byte, error) { return nil, errNoWaits }

// Await implements activitycontext.Steps.
func (e *execution) Await(context.Context, string, activitycontext.Wait) (activitycontext.Awaited, error) {
	return activitycontext.Awaited{}, errNoWaits
}

// Open implements activitycontext.Steps.
func (e *execution) Open(context.Context, string, time.Duration) (string, error) {
	return "", errNoWaits
}

// Emit implements activitycontext.Steps.
func (e *execution) Emit(ctx context.Context, frame activitycontext.Frame) error {
	return e.task.output().emit(ctx, frame)
}

var _ activitycontext.Steps = (*execution)(nil)
