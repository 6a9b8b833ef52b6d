package runtime_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/flowfabric/flowfabric-go/internal/testserver"
)

func TestMain(m *testing.M) {
	if stage := os.Getenv(childStageVariable); stage != "" {
		os.Exit(runTalker(stage))
	}
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(testserver.Supervisor),
		// The client library closes the connections to servers that have left a cluster a while later.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
