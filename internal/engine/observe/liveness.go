package observe

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrNotReady is wrapped by the errors of the checks of workers and keepers. Their text names the missing condition.
var ErrNotReady = errors.New("not ready")

// Liveness records that a worker or keeper runs and when the engine answered it last. The zero value does not run. It
// is safe for concurrent use.
type Liveness struct {
	running atomic.Bool
	// contact is when the engine answered last, by this process' monotonic clock.
	contact atomic.Pointer[time.Time]
}

// Begin marks the worker or keeper as running until end is called.
func (l *Liveness) Begin() (end func()) {
	l.running.Store(true)
	return func() {
		l.running.Store(false)
		l.contact.Store(nil)
	}
}

// Touch records that the engine has answered now.
func (l *Liveness) Touch() {
	now := time.Now()
	l.contact.Store(&now)
}

// Silence returns the time since the engine's last answer; a long time without one.
func (l *Liveness) Silence() time.Duration {
	if contact := l.contact.Load(); contact != nil {
		return time.Since(*contact)
	}
	return time.Hour
}

// Check returns an error that wraps [ErrNotReady] unless name runs and the engine has answered within limit.
func (l *Liveness) Check(name string, limit time.Duration) error {
	if !l.running.Load() {
		return fmt.Errorf("%s: %w: it does not run", name, ErrNotReady)
	}
	contact := l.contact.Load()
	if contact == nil {
		return fmt.Errorf("%s: %w: it has not reached the engine yet", name, ErrNotReady)
	}
	if silence := time.Since(*contact); silence > limit {
		return fmt.Errorf("%s: %w: the engine has not answered for %s", name, ErrNotReady, silence.Round(time.Second))
	}
	return nil
}
