package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrNotReady is wrapped by the checks of workers and keepers, and says with them what is missing.
var ErrNotReady = errors.New("not ready")

// Check asks the engine whether it answers, has the function library that this program needs, takes work and keeps it. It loads
// the library where it is missing, as Open does. The errors are those of Open, such as enginecore.ErrNotReachable, or match
// ErrNotReady: the server evicts keys, refuses writes because its memory or its disk is full (enginecore.ErrFull), is a replica, or
// has no log on disk (appendonly no), unless AllowVolatile says that this is intended; an engine of this process cannot write its
// log, and the error wraps that of the operating system. Inspect tells more.
func (e *Engine) Check(ctx context.Context) error {
	if err := e.open(); err != nil {
		return err
	}
	if e.session.inProcess != nil {
		if err := embeddedHealth(e.session.inProcess); err != nil { // which a call would find out by waiting
			return fmt.Errorf("engine: %w", err)
		}
	}
	if err := e.session.core.Check(ctx); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if err := e.session.ready(ctx); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// keeperSilence is after which time without a successful step a keeper is not ready: two sweeps, and some time for the steps.
const keeperSilence = 2*keeperSweep + 3*time.Second

// Check tells whether the keeper runs, and does its work: it is not ready when the last step failed in each of its partitions,
// nor without a successful step for 21 s. It asks nobody and returns at once; the error matches ErrNotReady.
func (k *Keeper) Check(context.Context) error {
	if k == nil || k.fleet == nil || len(k.rounds) == 0 {
		return errUnmadeKeeper
	}
	if err := k.vitals.check("keeper", keeperSilence); err != nil {
		return err
	}
	if err := k.rounds[0].agenda.allFailing(); err != nil {
		return fmt.Errorf("keeper: %w: its last step failed in each of its partitions: %w", ErrNotReady, err)
	}
	return nil
}

// vitals are what shows that something runs.
type vitals struct {
	running atomic.Bool
	// contact is when the engine answered last, by this process' monotonic clock.
	contact atomic.Pointer[time.Time]
}

// begin notes that a run begins; the returned function ends it.
func (v *vitals) begin() (end func()) {
	v.running.Store(true)
	return func() {
		v.running.Store(false)
		v.contact.Store(nil)
	}
}

func (v *vitals) touch() {
	now := time.Now()
	v.contact.Store(&now)
}

func (v *vitals) check(name string, limit time.Duration) error {
	if !v.running.Load() {
		return fmt.Errorf("%s: %w: it does not run", name, ErrNotReady)
	}
	contact := v.contact.Load()
	if contact == nil {
		return fmt.Errorf("%s: %w: it has not reached the engine yet", name, ErrNotReady)
	}
	if silence := time.Since(*contact); silence > limit {
		return fmt.Errorf("%s: %w: the engine has not answered for %s", name, ErrNotReady, silence.Round(time.Second))
	}
	return nil
}
