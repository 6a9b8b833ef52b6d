package submit

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// DefaultRetention is how long a run is kept after its end where neither the flow nor the engine sets another time.
const DefaultRetention = 7 * 24 * time.Hour

// RetentionOf returns the stored form of a run's retention, from the retention of its flow and the engine's default:
// one time in milliseconds for all outcomes, or one for each, separated by commas. A negative time means for ever, and
// so does "".
func RetentionOf(engine, own flowgraph.Keep) string {
	times := make([]int64, 0, 8)
	for _, outcome := range flowgraph.Outcomes() {
		keep := own.For(outcome)
		if keep == 0 {
			keep = engine.For(outcome)
		}
		switch {
		case keep == 0:
			keep = DefaultRetention
		case keep < 0:
			keep = -time.Millisecond
		}
		times = append(times, keep.Milliseconds())
	}
	if slices.Equal(times[1:], times[:len(times)-1]) {
		return strings.TrimPrefix(strconv.FormatInt(times[0], 10), "-1")
	}
	texts := make([]string, len(times))
	for i := range times {
		texts[i] = strconv.FormatInt(times[i], 10)
	}
	return strings.Join(texts, ",")
}

// keptForLessThan reports whether a run with a stored retention may be purged so soon after its end.
func keptForLessThan(retention string, d time.Duration) bool {
	for text := range strings.SplitSeq(retention, ",") {
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 && ms < d.Milliseconds() {
			return true
		}
	}
	return false
}
