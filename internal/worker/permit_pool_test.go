package worker

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// starterOfTest starts goroutines, which a test waits for.
type starterOfTest struct {
	admittedStarter
	sync.WaitGroup
}

func (s *starterOfTest) goTask(do func()) { s.Go(do) }

// A function that returns after its run is over gives its permit back to the pool, which makes no call any more: without
// an engine, one would panic.
func TestPermitPoolMakesNoCallAfterTheRun(t *testing.T) {
	t.Parallel()
	base, end := context.WithCancelCause(t.Context())
	end(engine.ErrStopping)
	starter := &starterOfTest{}
	pools := permitPools{run: &services{base: base}, queue: dispatch.NewQueue(1), limits: &limitCache{}, slots: starter}
	pools.queue.Close()
	pool := &permitPool{permitPools: &pools, wakeup: make(chan struct{}, 1), users: 1, held: 1, used: 1}
	pool.leave(true)
	starter.Wait()
	require.False(t, pool.running)
}
