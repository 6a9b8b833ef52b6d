package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// passedRecord is a record that the limiter has passed on.
type passedRecord struct {
	event, cause string
	suppressed   int64
	at           time.Time
}

type recordsHandler struct{ passed []passedRecord }

func (*recordsHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *recordsHandler) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h *recordsHandler) WithGroup(string) slog.Handler          { return h }
func (h *recordsHandler) Handle(_ context.Context, r slog.Record) error {
	x := passedRecord{at: r.Time}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "event":
			x.event = a.Value.String()
		case "error":
			x.cause = a.Value.String()
		case "suppressed":
			x.suppressed = a.Value.Int64()
		}
		return true
	})
	h.passed = append(h.passed, x)
	return nil
}

func TestRepeatedWarningsAreCounted(t *testing.T) {
	t.Parallel()
	sink := &recordsHandler{}
	limiter := NewRepeatLimiter(sink)
	now := time.Unix(1000, 0)
	log := func(level slog.Level, event LogEvent, err error, attrs ...slog.Attr) {
		r := slog.NewRecord(now, level, "x", 0)
		r.AddAttrs(append(attrs, event.Attr(), slog.Any("error", err))...)
		require.NoError(t, limiter.Handle(t.Context(), r))
	}
	full := fmt.Errorf("ffx_claim: %w: %w: OOM", enginecore.ErrFull, enginecore.ErrUnavailable)
	away := fmt.Errorf("ffx_claim: %w", enginecore.ErrUnavailable)

	// A minute of 65 warnings a second.
	for i := range 60 * 65 {
		now = time.Unix(1000, int64(i)*int64(time.Second)/65)
		log(slog.LevelWarn, EventClaimFailed, fmt.Errorf("partition %d: %w", i%64, full))
	}
	require.Len(t, sink.passed, 6, "one at once, then one each ten seconds")
	told := 0
	for i, p := range sink.passed {
		told += int(p.suppressed) + 1
		require.Equal(t, i > 0, p.suppressed > 0, "%d", i)
	}
	require.Equal(t, 50*65+1, told)

	// A record with another cause or event is not suppressed, and neither is a record about one execution.
	sink.passed = nil
	log(slog.LevelWarn, EventClaimFailed, away)
	log(slog.LevelWarn, EventTickFailed, full)
	log(slog.LevelError, EventTickFailed, full)
	log(slog.LevelWarn, EventTickFailed, errors.New("something else"))
	log(slog.LevelInfo, EventTickFailed, full)
	log(slog.LevelWarn, EventResultLost, full, slog.String("execution", "a"))
	log(slog.LevelWarn, EventResultLost, full, slog.String("execution", "b"))
	require.Len(t, sink.passed, 6)

	sink.passed = nil
	limiter.Finish(t.Context(), now)
	limiter.Finish(t.Context(), now)
	left := map[string]int64{}
	for _, p := range sink.passed {
		left[p.event] += p.suppressed
	}
	require.Equal(t, map[string]int64{string(EventClaimFailed): 10*65 - 1, string(EventTickFailed): 1}, left)
}

// The limiter remembers a bounded number of causes.
func TestRepeatedWarningsOfManyCauses(t *testing.T) {
	t.Parallel()
	sink := &recordsHandler{}
	limiter := NewRepeatLimiter(sink)
	for i := range 3 * maxLogCauses {
		r := slog.NewRecord(time.Unix(1000+int64(i), 0), slog.LevelWarn, "x", 0)
		r.AddAttrs(EventClaimFailed.Attr(), slog.Any("error", fmt.Errorf("cause %d", i)))
		require.NoError(t, limiter.Handle(t.Context(), r))
	}
	require.Len(t, sink.passed, 3*maxLogCauses)
	require.LessOrEqual(t, len(limiter.seen.known), maxLogCauses)
}
