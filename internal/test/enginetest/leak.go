package enginetest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// Main runs the tests of a package and fails when one of them leaves a goroutine behind. Goroutines of shared servers,
// and those of the client library that sleep for a few seconds after changes of a cluster, do not count.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(testserver.Supervisor),
		goleak.IgnoreAnyFunction(testserver.LateClose), goleak.IgnoreAnyFunction(testserver.LateRefresh))
}
