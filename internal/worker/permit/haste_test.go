package permit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The promised time grows beyond each reply that a connection waits for, so that renewals of a permit come to an end.
func TestHasteGrowsBeyondSlowReplies(t *testing.T) {
	t.Parallel()
	for _, reply := range []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 4 * time.Second} {
		var h haste
		renewals := 0
		for late := reply - h.within(1000); late > 0; late = reply - h.within(1000) {
			h.observe(late)
			renewals++
			require.Less(t, renewals, 5, reply)
		}
	}
}
