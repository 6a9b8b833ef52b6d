package observe

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// repeatedLogPause is the shortest time between two records of the same event with the same cause.
	repeatedLogPause = 10 * time.Second
	// maxLogCauses bounds the causes that are remembered. Beyond it, records are passed on as they come.
	maxLogCauses = 256
	// maxLogCause bounds the text of a cause, in bytes.
	maxLogCause = 160
)

// RepeatLimiter is a slog.Handler that passes on the first warning of an event and suppresses those that follow within
// repeatedLogPause with the same cause. The next record that it passes on has their number in its attribute
// "suppressed". While an engine is unavailable or full, every activity of workers and keepers fails with it, many times
// a second. Records about one execution are never suppressed.
type RepeatLimiter struct {
	slog.Handler
	seen *repeats
}

// repeats are the records of late.
type repeats struct {
	mu    sync.Mutex
	known map[repeatedLog]*repeat
}

// repeatedLog is the key by which records count as repeated.
type repeatedLog struct{ event, cause string }

type repeat struct {
	passed     time.Time
	suppressed int
}

// NewRepeatLimiter returns a handler that suppresses repeated warnings before they reach h.
func NewRepeatLimiter(h slog.Handler) *RepeatLimiter {
	return &RepeatLimiter{h, &repeats{known: make(map[repeatedLog]*repeat)}}
}

// Handle implements slog.Handler.
func (l *RepeatLimiter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return l.Handler.Handle(ctx, r)
	}
	which, ok := repeatedLogOf(r)
	if !ok {
		return l.Handler.Handle(ctx, r)
	}
	suppressed, pass := l.seen.pass(which, r.Time)
	if !pass {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *RepeatLimiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &RepeatLimiter{l.Handler.WithAttrs(attrs), l.seen}
}

// WithGroup implements slog.Handler.
func (l *RepeatLimiter) WithGroup(name string) slog.Handler {
	return &RepeatLimiter{l.Handler.WithGroup(name), l.seen}
}

// Finish logs the numbers of suppressed records that no later record has reported.
func (l *RepeatLimiter) Finish(ctx context.Context, at time.Time) {
	for which, n := range l.seen.untold() {
		r := slog.NewRecord(at, slog.LevelWarn, "flowfabric: the engine session suppressed repeated records", 0)
		r.AddAttrs(slog.String("event", which.event), slog.String("error", which.cause), slog.Int("suppressed", n))
		if l.Enabled(ctx, slog.LevelWarn) {
			_ = l.Handler.Handle(ctx, r) // a failing logger cannot be reported
		}
	}
}

// pass reports whether a record is to be passed on, and how many before it were not.
func (s *repeats) pass(which repeatedLog, at time.Time) (suppressed int, pass bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.known[which]
	switch {
	case x == nil:
		s.forget(at)
		if len(s.known) < maxLogCauses {
			s.known[which] = &repeat{passed: at}
		}
		return 0, true
	case at.Sub(x.passed) < repeatedLogPause:
		x.suppressed++
		return 0, false
	}
	suppressed = x.suppressed
	*x = repeat{passed: at}
	return suppressed, true
}

// forget frees entries: it drops records that were not repeated. The caller holds the lock.
func (s *repeats) forget(at time.Time) {
	if len(s.known) < maxLogCauses {
		return
	}
	for which, x := range s.known {
		if x.suppressed == 0 && at.Sub(x.passed) >= repeatedLogPause {
			delete(s.known, which)
		}
	}
}

func (s *repeats) untold() map[repeatedLog]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := make(map[repeatedLog]int)
	for which, x := range s.known {
		if x.suppressed > 0 {
			left[which] = x.suppressed
			x.suppressed = 0
		}
	}
	return left
}

// repeatedLogOf returns event and cause of a record; ok is false if it has none or is about one execution.
func repeatedLogOf(r slog.Record) (which repeatedLog, ok bool) {
	ok = true
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "event":
			which.event = a.Value.String()
		case "error", "panic":
			which.cause = logCause(a.Value)
		case "execution":
			ok = false
		}
		return ok
	})
	return which, ok && which.event != "" && which.cause != ""
}

// logCause returns the kind of an error if the engine is the cause, otherwise the text, shortened.
func logCause(v slog.Value) string {
	err, isError := v.Any().(error)
	if !isError {
		return cutCause(v.String())
	}
	for _, kind := range []error{
		enginecore.ErrFull, enginecore.ErrUnauthorized, enginecore.ErrNotReachable, enginecore.ErrUnavailable,
		enginecore.ErrOutcomeUnknown,
		context.DeadlineExceeded,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if server, isServer := errors.AsType[*enginecore.ServerError](err); isServer {
		return cutCause(server.Message)
	}
	return cutCause(err.Error())
}

func cutCause(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxLogCause)], "")
}
