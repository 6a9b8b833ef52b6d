package server_test

import (
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// patience is a safeguard: on a working machine no test passes or fails because of it.
const patience = enginetest.Patience

func TestMain(m *testing.M) { enginetest.Main(m) }
