package server_test

import (
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// patience is a safeguard: on a working machine no test passes or fails because of it.
const patience = 5 * time.Minute

func TestMain(m *testing.M) { enginetest.Main(m) }
