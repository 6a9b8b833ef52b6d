package explain

import (
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// Limits completes the explanation of a node that waits under limits: it names the one that keeps it, by how they stand
// at the time now of the engine. When each of them has room, the node waits for its turn.
func Limits(e fabrictype.Explanation, states []enginerpc.QuotaState, now time.Time) fabrictype.Explanation {
	for _, q := range states {
		full, windowed := q.Cap > 0 && q.Running >= q.Cap, q.Rate > 0 && q.InWindow >= q.Rate
		if !full && !windowed {
			continue
		}
		e.Subject, e.Key = q.Name, q.Key
		if full {
			e.Reason, e.Have, e.Need = waitreason.Limit, int(q.Running), int(q.Cap)
			e.Sentence += fmt.Sprintf("; %d of %d places are taken, %d wait", q.Running, q.Cap, q.Waiting)
			return e
		}
		e.Reason, e.Have, e.Need, e.Until = waitreason.RateWindow, int(q.InWindow), int(q.Rate), q.NextAt
		e.Sentence += fmt.Sprintf("; %d of %d have started within %s", q.InWindow, q.Rate,
			time.Duration(q.WindowMs)*time.Millisecond)
		if left := q.NextAt.Sub(now); !q.NextAt.IsZero() && left > 0 {
			e.Sentence += fmt.Sprintf(", the next may in about %s", left.Round(100*time.Millisecond))
		}
		return e
	}
	return e
}
