package flowgraph

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// KeepForever is the retention of runs that are kept until RunRef.Purge removes them.
const KeepForever time.Duration = -1

// MaxKeep is the longest retention.
const MaxKeep = 100 * 365 * 24 * time.Hour

// ErrRetention marks a retention that is too long or negative, or for an outcome that does not exist.
var ErrRetention = errors.New("bad retention")

// Keep is the retention of a run after its end, by its outcome. 0 is the engine's default, KeepForever means
// unlimited. Whole milliseconds.
type Keep struct {
	Succeeded, Failed, Cancelled, Expired time.Duration
	// unknown is a name given to With that is not an outcome; Check reports it.
	unknown fabrictype.Outcome
}

// With returns k with another retention for the outcomes, all of them if none is named. Check reports invalid outcomes.
func (k Keep) With(keep time.Duration, outcomes ...fabrictype.Outcome) Keep {
	if keep > 0 {
		keep = activityspec.Milliseconds(keep)
	}
	if len(outcomes) == 0 {
		return Keep{Succeeded: keep, Failed: keep, Cancelled: keep, Expired: keep, unknown: k.unknown}
	}
	for _, outcome := range outcomes {
		if place := k.of(outcome); place != nil {
			*place = keep
		} else {
			k.unknown = outcome // for Check, so that no call on the way has to return an error
		}
	}
	return k
}

func (k *Keep) of(outcome fabrictype.Outcome) *time.Duration {
	switch outcome {
	case fabrictype.OutcomeSucceeded:
		return &k.Succeeded
	case fabrictype.OutcomeFailed:
		return &k.Failed
	case fabrictype.OutcomeCancelled:
		return &k.Cancelled
	case fabrictype.OutcomeExpired:
		return &k.Expired
	}
	return nil
}

// Outcomes lists the outcomes in the order in which they are stored.
func Outcomes() []fabrictype.Outcome {
	return []fabrictype.Outcome{
		fabrictype.OutcomeSucceeded, fabrictype.OutcomeFailed, fabrictype.OutcomeCancelled, fabrictype.OutcomeExpired,
	}
}

// For returns the retention after an outcome, 0 for the engine's default.
func (k Keep) For(outcome fabrictype.Outcome) time.Duration {
	if place := k.of(outcome); place != nil {
		return *place
	}
	return 0
}

// Check returns the faults of k as an error that matches ErrRetention, or nil.
func (k Keep) Check() error {
	if k.unknown != "" {
		return fmt.Errorf("%w: %.40q is not an outcome; the outcomes are %v", ErrRetention, k.unknown, Outcomes())
	}
	for _, outcome := range Outcomes() {
		switch keep := k.For(outcome); {
		case keep > MaxKeep:
			return fmt.Errorf("%w: %s after %s, the limit is 100 years", ErrRetention, keep, outcome)
		case keep < 0 && keep != KeepForever:
			return fmt.Errorf("%w: %s after %s is negative; KeepForever is for ever", ErrRetention, keep, outcome)
		case keep > 0 && keep%time.Millisecond != 0:
			return fmt.Errorf("%w: %s after %s is not in whole milliseconds", ErrRetention, keep, outcome)
		}
	}
	return nil
}

func (v *Validation) keep() {
	if err := v.G.Keep.Check(); err != nil {
		v.Faults.Cause("", "retention", ErrOption, err)
	}
}

// storedKeep is the stored form of a Keep, in milliseconds; -1 is for ever.
type storedKeep struct {
	Success   int64 `json:"success"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
}

func (w *writer) keep(k Keep) {
	if k == (Keep{}) {
		return
	}
	w.raw(`,"keep_ms":{`)
	first := true
	for _, outcome := range Outcomes() {
		keep := k.For(outcome)
		ms := keep.Milliseconds()
		switch {
		case keep == 0:
			continue
		case keep < 0:
			ms = -1
		}
		if first {
			w.key(string(outcome))
			w.buf = fmt.Append(w.buf, ms)
			first = false
		} else {
			w.number(string(outcome), ms)
		}
	}
	w.raw("}")
}

func (r *reader) keep(s *storedKeep) Keep {
	if s == nil {
		return Keep{}
	}
	read := func(outcome fabrictype.Outcome, ms int64) time.Duration {
		if ms == -1 {
			return KeepForever
		}
		return r.duration("keep_ms."+string(outcome), ms)
	}
	return Keep{
		Succeeded: read(fabrictype.OutcomeSucceeded, s.Success), Failed: read(fabrictype.OutcomeFailed, s.Failed),
		Cancelled: read(fabrictype.OutcomeCancelled, s.Cancelled), Expired: read(fabrictype.OutcomeExpired, s.Expired),
	}
}
