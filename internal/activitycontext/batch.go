package activitycontext

import (
	"context"
	"sync"
)

// BatchSpace holds one Gatherer for each batch activity in one run of a worker. The zero value is ready, and safe for
// concurrent use.
type BatchSpace struct {
	mu       sync.Mutex
	open     map[any]Gatherer
	stopping bool
}

// Gatherer gathers the executions of one activity.
type Gatherer interface {
	// Stop ends the waiting for further executions: those that wait, and each that comes later, are called at once.
	Stop()
}

// Of returns the Gatherer of an activity's executions; make creates it for the first of them.
func (s *BatchSpace) Of(activity any, make func() Gatherer) Gatherer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[activity] == nil {
		if s.open == nil {
			s.open = map[any]Gatherer{}
		}
		s.open[activity] = make()
		if s.stopping {
			s.open[activity].Stop()
		}
	}
	return s.open[activity]
}

// Stop stops all gatherers, also those that are made later. A worker calls it when it takes no more executions.
func (s *BatchSpace) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for _, g := range s.open {
		g.Stop()
	}
}

// Batches is the interface of a worker for functions that it calls for several executions at once.
type Batches interface {
	// Batches returns where the worker gathers them.
	Batches() *BatchSpace
}

// BatchesFrom returns where the executions of the worker that ctx belongs to are gathered, and nil outside a worker.
func BatchesFrom(ctx context.Context) *BatchSpace {
	if b, ok := ctx.Value(key{}).(Batches); ok {
		return b.Batches()
	}
	return nil
}

// Panic is a panic of a function that ran in another goroutine than the one that panics with it, where it was raised.
type Panic struct {
	Value any
	Stack []byte
}
