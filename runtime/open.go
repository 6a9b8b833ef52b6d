package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/engineurl"
	"github.com/flowfabric/flowfabric-go/internal/inspect"
	"github.com/flowfabric/flowfabric-go/internal/keeper"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Engine is an open connection to an engine in this process or on a server. It is safe for concurrent use. Clients,
// workers and keepers share it; end them before you close it.
type Engine struct {
	session *engine.Session
	grants  *admission.GrantIssuer
}

// Why an engine cannot be used.
var (
	errNoEngine     = invalid("the engine is nil: look at the error of Open")
	errUnmadeEngine = invalid("the engine was not made by Open")
)

var errNoContext = invalid("the context is nil")

// checkContext returns an error for a nil context.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	return nil
}

// made returns an error unless Open has returned the engine, which may be closed by now.
func (e *Engine) made() error {
	switch {
	case e == nil:
		return errNoEngine
	case e.session == nil:
		return errUnmadeEngine
	}
	return nil
}

// open returns why the engine cannot be used: it was not made by Open, or it is closed (enginecore.ErrClosed).
func (e *Engine) open() error {
	if err := e.made(); err != nil {
		return err
	}
	return e.session.ClosedErr()
}

// ready returns why the engine cannot be used for a call with ctx; nil when it can.
func (e *Engine) ready(ctx context.Context) error {
	if err := e.open(); err != nil {
		return err
	}
	return checkContext(ctx)
}

// Embedded is the engine of this process, or nil when the engine is a server or nil.
func (e *Engine) Embedded() *embedded.Engine {
	if e.made() != nil {
		return nil
	}
	return e.session.InProcess
}

// InMemory reports whether the engine is in this process and kept nowhere else, so that everything ends with Close.
func (e *Engine) InMemory() bool { return e.made() == nil && e.session.InMemory }

// Open connects to the engine that the URL names:
//
//	""  embedded:                          in this process, in memory
//	embedded:DIR                           in this process, stored in a directory; ?fsync=always|everysec|never
//	redis://  valkey://                    one server: [user[:password]@]host[:port][/database]
//	rediss://  valkeys://                  the same over TLS
//	redis+cluster://  valkey+cluster://    a cluster: host[:port][,host[:port]…]
//	redis+sentinel://  valkey+sentinel://  a server behind sentinels: host[:port][,…]/name-of-the-primary
//	unix:  redis+unix:  valkey+unix:       one server by its socket: [//[user[:password]@]]/path/of/the.sock
//
// Programs that use several databases of one server must give each database its own prefix (OpenConfig.Prefix), because
// publish/subscribe channels are shared by all databases. With one prefix, keepers and workers would count the keepers
// and workers of the other databases as peers and leave work to them, and Result could return the result of a run of
// the same flow and id in another database.
//
// The URLs of servers and of the embedded engine accept ?contract=15, which selects contract mode: the engine calls
// only the ff_* functions of the FlowFabric contract, and OpenConfig.Backend must be set to the backend of package
// contract. The URLs of servers also accept client_name, db, dial_timeout, write_timeout (durations such as 5s),
// max_retries=0, protocol=2 and, with TLS, skip_verify. The URLs of sentinels accept sentinel_password,
// sentinel_username and sentinel_tls=true|false in addition; without them, sentinels use TLS as the server does, and
// one that requires a login gets the login of the server. Open refuses other parameters, parameters that are given
// twice, and a database of a cluster.
//
// A server must be a primary, except in a cluster, where the servers name it. Each connection is checked when it is
// made, when a write is refused (READONLY), and every few seconds. When the address has begun to lead to another
// server, or sentinels have named one, all connections are made anew.
//
// Open and every call end when their context ends, also while a connection is being made. The library gives up on a
// connection to a server that does not answer for 3.3 s, a third of a worker's default lease, and connects again. Of
// these 3.3 s, 2.3 s are the time for a reply, which write_timeout replaces.
//
// Open waits for a server that is not ready: one that loads its data, runs a long script, is a replica, or is a part of
// a cluster that is not whole. It waits until ctx ends; if ctx has no deadline, for 15 s, or for as long as a server
// loads. The error of a server that does not become ready wraps enginecore.ErrUnavailable.
//
// Open loads the function library if it is missing or older, except in contract mode. The error wraps
// enginecore.ErrNotReachable, ErrUnauthorized, ErrUnsupportedServer, ErrForeignLibrary, ErrNoLibrary or
// ErrIncompatibleLibrary; embedded.ErrLocked for a directory that another process uses; or ErrInvalid for an invalid
// URL or config, of which it joins all faults. If the user lacks rights on commands, keys or channels, the error lists
// the missing ACL rules, and nothing was written.
//
// Opening a directory ends all leases in it, because the workers that held them ended with the previous process.
// Workers can claim those executions at once.
func Open(ctx context.Context, url string, config OpenConfig) (*Engine, error) {
	if err := checkContext(ctx); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	config = config.withDefaults()
	target, err := engineurl.Parse(url)
	if err == nil {
		err = config.checkConnection(&target)
	}
	keeping, keeperErr := config.Keeper.resolve("Keeper.")
	replicationErr := config.Replication.check(target.Embedded, target.Contract)
	if err := errors.Join(err, config.check(target.Contract), replicationErr, keeperErr); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	telemetry, err := observe.NewTelemetry(config.TracerProvider, config.MeterProvider)
	if err != nil {
		return nil, fmt.Errorf("open engine: metrics: %w", err)
	}
	limiter := observe.NewRepeatLimiter(config.Logger.Handler())
	s := &engine.Session{
		Keep:      config.Retention.keep(),
		Volatile:  config.AllowVolatile,
		Replicas:  config.Replication.Replicas,
		Namespace: keyspace.Namespace(config.Namespace),
		Logger:    slog.New(limiter),
		Logged:    limiter,
		Telemetry: telemetry,
	}
	for _, p := range config.Propagators {
		s.Propagators = append(s.Propagators, p)
	}
	link := enginelink.Of(config.Internal)
	s.Quiet = link != nil && link.Quiet
	s.Keeper = keeper.NewSharedKeeper(s, keeping)
	e := &Engine{s, admission.NewGrantIssuer(s)}
	err = target.Connect(ctx, s, config.settings(link))
	if err == nil && config.Partitions != 0 && s.Core.Partitioning().Flow != config.Partitions {
		err = invalid("Partitions %d: the deployment has %d, which cannot be changed", config.Partitions,
			s.Core.Partitioning().Flow)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open engine %s: %w", target, target.Explain(err)), e.Close())
	}
	if s.InMemory && !s.Volatile {
		s.Logger.LogAttrs(ctx, slog.LevelInfo, "flowfabric: the engine runs in this process and in memory: its data "+
			"does not outlive the process, and other processes cannot use it", observe.EventEngineInMemory.Attr())
	}
	inspect.Warn(ctx, s)
	return e, nil
}

// Close ends the connection and, in this process, the engine. Result, Watch and Stream that wait return
// enginecore.ErrClosed. Further calls do nothing, and neither does one of a nil engine.
func (e *Engine) Close() error {
	if e.made() != nil {
		return nil
	}
	return e.session.Close()
}
