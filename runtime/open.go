package runtime

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/lua"
	"github.com/flowfabric/flowfabric-go/runtime/internal/contractmode"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/inspect"
	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
)

// Engine is an open connection to an engine, in this process or on a server. Its methods may be called from several
// goroutines. Clients, workers and keepers share it and end before it is closed.
type Engine struct{ session *engine.Session }

// Why an engine cannot be used.
var (
	errNoEngine     = errors.New("the engine is nil: look at the error of Open")
	errUnmadeEngine = errors.New("the engine was not made by Open")
)

// open tells why the engine cannot be used.
func (e *Engine) open() error {
	switch {
	case e == nil:
		return errNoEngine
	case e.session == nil:
		return errUnmadeEngine
	}
	return nil
}

// Core is the connection with the keys and the typed calls of the library, for packages of this module: its type is internal,
// and may change with any version. Of a nil engine it is nil.
func (e *Engine) Core() *enginerpc.Conn {
	if e.open() != nil {
		return nil
	}
	return e.session.Core
}

// Embedded is the engine of this process, or nil when the engine is a server or nil.
func (e *Engine) Embedded() *embedded.Engine {
	if e.open() != nil {
		return nil
	}
	return e.session.InProcess
}

// InMemory reports whether the engine is in this process and kept nowhere else, so that everything ends with Close.
func (e *Engine) InMemory() bool { return e.open() == nil && e.session.InMemory }

// OpenOption adjusts Open.
type OpenOption func(*openConfig)

type openConfig struct {
	core           enginerpc.Options
	contract       contractmode.ContractConfig
	namespace      string
	logger         *slog.Logger
	tracerProvider trace.TracerProvider
	meterProvider  metric.MeterProvider
	secret         *engine.WaitpointSecret
	keep           flowgraph.Keep
	volatile       bool
	tls            *tls.Config
	watches        int
	mustExist      bool
}

// Prefix begins every key and channel, so that applications can share a server without sharing data: 1 to 32 characters
// of a-z, 0-9 and -. Defaults to "ff".
func Prefix(prefix string) OpenOption { return func(c *openConfig) { c.core.Prefix = prefix } }

// Namespace separates the runs of several applications or tenants under one prefix: a run id belongs to a namespace and
// a flow, and schedules, limits and budgets belong to a namespace. Workers, keepers, lanes, what is paused and the secret of
// tokens are those of all namespaces. It guards against accidents and is no security boundary: who may open one may open
// any. A name has at most 128 bytes without control characters. Defaults to "default", which is also the empty one.
func Namespace(name string) OpenOption {
	return func(c *openConfig) { c.namespace = cmp.Or(name, engine.DefaultNamespace) }
}

// maxNamespace bounds the name of a namespace, in bytes.
const maxNamespace = 128

func checkNamespace(name string) error {
	if len(name) > maxNamespace {
		return fmt.Errorf("namespace %.40q…: it has %d bytes, at most %d are allowed", name, len(name), maxNamespace)
	}
	if strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) {
		return fmt.Errorf("namespace %q: it must be UTF-8 without control characters", name)
	}
	return nil
}

// Logger receives what happens besides the results: lost leases, reconnections, failed attempts. Defaults to
// slog.Default(), also for nil.
func Logger(l *slog.Logger) OpenOption {
	return func(c *openConfig) { c.logger = cmp.Or(l, slog.Default()) }
}

// TLSConfig replaces what a URL with TLS (rediss or valkeys) means by default: the certificate authorities of the system,
// and no certificate of the client's own. A nil RootCAs and an empty ServerName, which is then the host of the URL, keep
// their defaults. Open wraps ErrURL when the URL is without TLS.
func TLSConfig(config *tls.Config) OpenOption { return func(c *openConfig) { c.tls = config } }

// TracerProvider makes the spans of submissions and activities. Defaults to OpenTelemetry's global one, also for nil.
func TracerProvider(p trace.TracerProvider) OpenOption {
	return func(c *openConfig) { c.tracerProvider = cmp.Or(p, otel.GetTracerProvider()) }
}

// MeterProvider makes the metrics of clients, workers and keepers. Defaults to OpenTelemetry's global one, also for nil.
func MeterProvider(p metric.MeterProvider) OpenOption {
	return func(c *openConfig) { c.meterProvider = cmp.Or(p, otel.GetMeterProvider()) }
}

// Partitions is the number of partitions that a new deployment gets for its flows. A deployment that exists keeps its
// own. Defaults to 64 on a server and 8 in this process.
func Partitions(n int) OpenOption { return func(c *openConfig) { c.core.Partitions.Flow = n } }

// DefaultMaxWatches is how many Watch and Stream of one Engine may go on at a time.
const DefaultMaxWatches = 1000

// MaxWatches is how many Watch and Stream of the engine may go on at a time, 1 to 100,000: each has a connection to the server
// of its own while it waits. One more yields ErrTooManyWatches at once. Defaults to 1,000.
func MaxWatches(n int) OpenOption { return func(c *openConfig) { c.watches = n } }

// MustExist makes Open refuse an engine of this process that would be made anew: a directory in which no engine has been
// opened before, of which it makes nothing then, and an engine in memory. The error wraps fs.ErrNotExist. A server is there or not.
func MustExist() OpenOption { return func(c *openConfig) { c.mustExist = true } }

// ReplaceForeignLibrary lets Open replace a function library named flowfabric that is not this project's. It excludes
// ContractOnly, which leaves every library in place.
func ReplaceForeignLibrary() OpenOption {
	return func(c *openConfig) { c.core.ReplaceForeignLibrary = true }
}

// Partition counts of a new engine in this process.
const (
	embeddedFlowPartitions   = 8
	embeddedBudgetPartitions = 2
	embeddedQuotaPartitions  = 2
)

// Open connects to the engine that the URL names:
//
//	""  embedded:                          in this process, in memory
//	embedded:DIR                           in this process, kept in a directory; ?fsync=always|everysec|never
//	redis://  valkey://                    one server: [user[:password]@]host[:port][/database]
//	rediss://  valkeys://                  the same over TLS
//	redis+cluster://  valkey+cluster://    a cluster: host[:port][,host[:port]…]
//	redis+sentinel://  valkey+sentinel://  a server behind sentinels: host[:port][,…]/name-of-the-primary
//
// Programs on several databases of one server hear each other's messages: give each database a prefix of its own (Prefix), or
// keepers and workers count those of other databases among theirs, and work waits for them; and Result may return what a run of
// the same flow and id has returned in another database.
//
// A server's URL and embedded take ?contract=15, which is ContractOnly. A server's takes client_name, db, dial_timeout, write_timeout
// (times such as 5s), max_retries=0, protocol=2 and, with TLS, skip_verify besides. Others are an error.
//
// Open and every call end with their contexts, also while a connection is being made. A server that does not answer for 3.3 s, a
// third of a worker's default lease, is given up, and connections are made anew. Of these, 2.3 s are what an answer may take, which
// write_timeout replaces.
//
// It loads the function library where it is missing or older, but for ContractOnly. The error names what is wrong: enginecore.ErrNotReachable,
// ErrUnauthorized, ErrUnsupportedServer, ErrForeignLibrary, ErrNoLibrary or ErrIncompatibleLibrary, embedded.ErrLocked for a directory
// that another process uses, ErrURL for a URL that cannot be read. What rights of the user are missing, on commands, keys and
// channels, it says before anything is written, with the ACL rules that give them.
//
// Opening a directory ends all leases in it, because the workers that held them lived in the process before: what they
// ran is taken up at once.
func Open(ctx context.Context, url string, opts ...OpenOption) (*Engine, error) {
	config := openConfig{namespace: engine.DefaultNamespace, logger: slog.Default(), tracerProvider: otel.GetTracerProvider(),
		meterProvider: otel.GetMeterProvider(), watches: DefaultMaxWatches}
	fault := apply(&config, opts)
	if err := errors.Join(fault, config.secret.Check(), checkNamespace(config.namespace), engine.CheckMaxWatches(config.watches)); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	target, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	if err := target.useTLS(config.tls); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	if err := config.keep.Check(); err != nil {
		return nil, fmt.Errorf("open engine: retention: %w", err)
	}
	telemetry, err := engine.NewTelemetry(config.tracerProvider, config.meterProvider)
	if err != nil {
		return nil, fmt.Errorf("open engine: metrics: %w", err)
	}
	limiter := engine.NewRepeatLimiter(config.logger.Handler())
	config.logger = slog.New(limiter)
	config.core.Logger = config.logger
	config.core.ContractOnly = config.core.ContractOnly || target.contract
	if config.core.ContractOnly && config.core.ReplaceForeignLibrary {
		return nil, errors.New("open engine: ContractOnly, also as ?contract=15, leaves the library as it is; ReplaceForeignLibrary replaces it")
	}
	s := &engine.Session{
		Keep:      config.keep,
		Volatile:  config.volatile,
		Namespace: enginecore.Namespace(config.namespace),
		Logger:    config.logger,
		Logged:    limiter,
		Telemetry: telemetry,
	}
	s.Keeper = keeper.NewSharedKeeper(s, defaultKeeperConfig())
	e := &Engine{s}
	if err := config.connect(ctx, s, target); err != nil {
		return nil, errors.Join(fmt.Errorf("open engine %s: %w", target, target.explain(err)), e.Close())
	}
	if s.InMemory {
		s.Logger.LogAttrs(ctx, slog.LevelInfo, "flowfabric: the engine is in this process and in memory: nothing outlives it, and "+
			"no other process sees it", engine.EventEngineInMemory.Attr())
	}
	inspect.Warn(ctx, s)
	return e, nil
}

// connect connects a session to a target.
func (config *openConfig) connect(ctx context.Context, s *engine.Session, target target) error {
	c := engine.Connection{Core: config.core, Client: target.option, Watches: config.watches, Secret: config.secret}
	if target.embedded {
		if err := config.openEmbedded(ctx, s, target); err != nil {
			return err
		}
		c.Client = s.InProcess.ClientOption()
		if c.Core.Partitions == (enginecore.Partitioning{}) {
			c.Core.Partitions = enginecore.Partitioning{
				Flow: embeddedFlowPartitions, Budget: embeddedBudgetPartitions, Quota: embeddedQuotaPartitions,
			}
		}
	}
	if config.core.ContractOnly {
		c.NewBackend = func(ctx context.Context, s *engine.Session) (engine.Backend, error) {
			return contractmode.NewContract(ctx, s, config.contract)
		}
	}
	return s.Connect(ctx, c)
}

// openEmbedded opens the engine of this process.
func (config *openConfig) openEmbedded(ctx context.Context, s *engine.Session, target target) (err error) {
	s.InMemory = target.dir == ""
	if config.mustExist {
		if err := checkExists(target.dir); err != nil {
			return err
		}
	}
	library := lua.Source()
	if config.core.ContractOnly {
		library = lua.ContractSource()
	}
	s.InProcess, err = embedded.Open(ctx, embedded.Options{
		Library: library, Dir: target.dir, Fsync: target.fsync, Logger: config.logger,
	})
	return err
}

// checkExists refuses a directory without an engine, and none at all.
func checkExists(dir string) error {
	if dir == "" {
		return fmt.Errorf("an engine in memory is new in each process: %w", fs.ErrNotExist)
	}
	exists, err := embedded.Exists(dir)
	if err == nil && !exists {
		err = fmt.Errorf("there is no engine in the directory %s: %w", dir, fs.ErrNotExist)
	}
	return err
}

// Close ends the connection and, in this process, the engine. Result, Watch and Stream that wait return enginecore.ErrClosed.
// Further calls do nothing, and neither does one of a nil engine.
func (e *Engine) Close() error {
	if e.open() != nil {
		return nil
	}
	return e.session.Close()
}
