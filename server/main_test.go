package server_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is a safeguard: on a working machine no test passes or fails because of it.
const patience = 5 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
