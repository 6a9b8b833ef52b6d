package propertytest

import (
	"os"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

func TestMain(m *testing.M) {
	if stage := os.Getenv(childStageVariable); stage != "" {
		os.Exit(runTalker(stage))
	}
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	enginetest.Main(m)
}
