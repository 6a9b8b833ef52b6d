package runtime

import (
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// engine is an open connection to an engine with what clients, workers and keepers share of it.
type session struct {
	core      *enginecore.Engine
	calls     calls
	client    rueidis.Client
	dialer    *dialer // nil in this process
	watches   *watches
	silence   time.Duration // after which a server that does not answer is given up; 0 in this process
	hub       *hub
	inProcess *embedded.Engine // nil when the engine is a server
	inMemory  bool
	volatile  bool // AllowVolatile
	namespace enginecore.Namespace
	secrets   *secretBook
	keep      flowgraph.Keep
	logger    *slog.Logger
	logged    *repeatLimiter // behind the logger
	telemetry *telemetry
	builtIn   builtInKeeper
	// keeperLook is how often workers without a keeper look whether there is one.
	keeperLook time.Duration
}

// isOneServer reports whether one server has all partitions and the whole library, so that it can choose among partitions.
func (e *session) isOneServer() bool {
	_, err := e.composites()
	return err == nil && e.client.Mode() != rueidis.ClientModeCluster
}
