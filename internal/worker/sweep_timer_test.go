package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Workers that start together know no peers at first. None of them sweeps at the interval of a single worker
// once it knows its peers, and one that loses its peers does so again.
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
	assert.Equal(t, []time.Duration{5 * time.Minute, 10 * time.Minute, 11 * time.Minute, 12 * time.Minute}, swept)
}
