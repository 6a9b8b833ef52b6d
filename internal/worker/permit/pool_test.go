package permit

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// starterOfTest starts goroutines, which a test waits for.
type starterOfTest struct {
	Starter
	tasks sync.WaitGroup
}

func (s *starterOfTest) Go(do func()) { s.tasks.Go(do) }

// A function that returns after the end of its run returns its permit to the pool, which no longer makes calls:
// without an engine, a call would panic.
func TestPermitPoolMakesNoCallAfterTheRun(t *testing.T) {
	t.Parallel()
	base, end := context.WithCancelCause(t.Context())
	end(engine.ErrStopping)
	starter := &starterOfTest{}
	pools := poolSet{user: &user{base: base, queue: dispatch.NewQueue(1), slots: starter}}
	pools.queue.Close()
	pool := &pool{poolSet: &pools, wakeup: make(chan struct{}, 1), users: 1, held: 1, used: 1}
	pool.leave(true)
	starter.tasks.Wait()
	require.False(t, pool.running)
}

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
