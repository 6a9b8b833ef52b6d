package linearizability

import (
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// Concurrent clients of a healthy engine see one order of calls.
func TestConcurrentClients(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		each(t, func(seed uint64) *History {
			return record(newClients(t, b, newContexts(t)), seed, nil)
		})
	})
}
