package approvals

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/flowfabric/flowfabric-go/internal/testserver"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(testserver.Supervisor),
		goleak.IgnoreAnyFunction(testserver.LateClose), goleak.IgnoreAnyFunction(testserver.LateRefresh))
}
