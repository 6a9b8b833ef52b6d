package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Workers that begin together know of nobody else at first. None of them sweeps as if it were alone once it has heard of the
// others, and one that is left alone does so again.
func TestSweepsOfManyWorkers(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1000, 0)
	rounds := sweepTimer{every: serverSweep, last: begun}
	var swept []time.Duration
	for tick := 1; tick <= 12; tick++ {
		others := 49
		if tick > 9 {
			others = 0
		}
		at := time.Duration(tick) * serverSweep
		if rounds.isDue(begun.Add(at), others) {
			swept = append(swept, at)
		}
	}
	assert.Equal(t, []time.Duration{time.Minute, 2 * time.Minute, 150 * time.Second, 165 * time.Second, 3 * time.Minute}, swept)
}
