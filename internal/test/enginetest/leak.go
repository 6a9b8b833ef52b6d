package enginetest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// Main runs the tests of a package and fails if one of them leaks a goroutine. Goroutines of shared servers do not
// count, nor do goroutines of the client library that sleep for a few seconds after changes of a cluster.
func Main(m *testing.M) { goleak.VerifyTestMain(m, leakOptions()...) }

// MainOnServers is Main for tests that use flowtest.Engines: they run on a server of each selected kind too.
func MainOnServers(m *testing.M) {
	stop, err := testserver.SetTestURLs()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, append(leakOptions(), goleak.Cleanup(func(code int) {
		stop()
		os.Exit(code)
	}))...)
}

func leakOptions() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction(testserver.Supervisor), goleak.IgnoreAnyFunction(testserver.LateClose),
		goleak.IgnoreAnyFunction(testserver.LateRefresh),
	}
}
