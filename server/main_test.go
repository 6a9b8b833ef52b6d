package server_test

import (
	"log/slog"
	"os"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// patience is a safeguard: on a working machine no test passes or fails because of it.
const patience = enginetest.Patience

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		serveAsChild()
		return
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the provider of the tests of OIDC logs each request
	enginetest.Main(m)
}
