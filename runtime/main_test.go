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
		goleak.IgnoreAnyFunction(testserver.LateClose), goleak.IgnoreAnyFunction(testserver.LateRefresh))
}
