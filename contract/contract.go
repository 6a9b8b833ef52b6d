package contract

import (
	"time"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// Config configures contract mode. The zero value suits most programs.
type Config struct {
	// PollInterval is the interval at which workers and keepers read which work other programs have made eligible or
	// due. They need no poll for changes that this library makes. At least 10 ms. Defaults to 1 s.
	PollInterval time.Duration
	// ReconcileInterval is the interval at which a keeper searches for steps that are half done, because a process
	// ended between two calls or another program ended an execution. At least 10 ms. Defaults to 5 s.
	ReconcileInterval time.Duration
}

// Backend returns the value of runtime.OpenConfig.Backend with which runtime.Open accepts URLs with ?contract=15. Open
// validates the config.
func Backend(c Config) engine.ContractBackend {
	return engine.ContractBackendOf(backend.New(c.PollInterval, c.ReconcileInterval))
}
