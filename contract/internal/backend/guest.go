package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
)

const (
	defaultPoll      = time.Second
	defaultReconcile = 5 * time.Second
	// minInterval bounds the intervals from below.
	minInterval = 10 * time.Millisecond
)

// Guest makes backends. It implements [engine.Guest].
type Guest struct {
	poll, reconcile time.Duration
}

// New returns a guest. The intervals are the fields of contract.Config; 0 is the default.
func New(poll, reconcile time.Duration) *Guest {
	return &Guest{poll: cmp.Or(poll, defaultPoll), reconcile: cmp.Or(reconcile, defaultReconcile)}
}

// Check implements [engine.Guest].
func (g *Guest) Check() error {
	var faults []error
	if g.poll < minInterval {
		faults = append(faults, fmt.Errorf("contract.Config.PollInterval %s: must be at least %s", g.poll, minInterval))
	}
	if g.reconcile < minInterval {
		faults = append(faults,
			fmt.Errorf("contract.Config.ReconcileInterval %s: must be at least %s", g.reconcile, minInterval))
	}
	return errors.Join(faults...)
}

// Open implements [engine.Guest].
func (g *Guest) Open(ctx context.Context, s *engine.Session) (engine.Backend, error) {
	return newContract(ctx, s, g)
}
