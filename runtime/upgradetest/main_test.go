// Package upgradetest runs programs while others replace the function library of their engine.
package upgradetest

import (
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}
