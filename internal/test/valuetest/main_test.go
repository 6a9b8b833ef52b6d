package valuetest

import (
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }
