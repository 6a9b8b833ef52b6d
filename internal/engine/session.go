package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/engine/feeds"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/payload"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// DefaultNamespace is the namespace of programs that configure none.
const DefaultNamespace = "default"

// Session is an open connection to an engine with the state that clients, workers and keepers share. It is safe for
// concurrent use once Connect has returned. The fields that configure it (InProcess, Shared, InMemory, Volatile,
// Namespace, Keep, Logger, Logged, Telemetry) are set before Connect, which sets the others.
type Session struct {
	Core      *enginerpc.Conn
	Backend   Backend
	Client    rueidis.Client
	transport *transport.Transport
	Watches   *transport.Watches
	feeds     *feeds.Events
	runFeeds  *feeds.Runs
	Silence   time.Duration // after which a server that does not answer is given up; 0 in this process
	Hub       *transport.Hub
	InProcess *embedded.Engine // nil when the engine is a server
	Shared    bool             // the owner of InProcess closes it, not the session
	InMemory  bool
	Volatile  bool // OpenConfig.AllowVolatile
	Replicas  int  // OpenConfig.Replication
	Quiet     bool // see enginelink.Link
	Namespace keyspace.Namespace
	// Origin is the name of the process in the engine: messages about the ends of runs go to the channel of that name.
	Origin string
	// Ends passes on the ends of runs that the workers of the session have ended.
	Ends Ends
	// Workers are the workers of the session that run.
	Workers LocalWorkers
	// Starting counts the calls under way that start runs.
	Starting  atomic.Int64
	Secrets   *keyring
	search    searchSecret
	Keep      flowgraph.Keep
	Graphs    flowgraph.Graphs // of runs that were read
	Logger    *slog.Logger
	Logged    *observe.RepeatLimiter // wrapped by Logger
	Telemetry *observe.Telemetry
	// Intervals are times that workers and keepers read when they are made.
	Intervals Intervals
	// Propagators carry values of the contexts of starts to activities.
	Propagators []Propagator
	// closed ends with Close.
	closed context.Context
	end    context.CancelFunc
	// Keeper is the keeper that the workers of the session share. It is set before the first worker or keeper is made.
	Keeper sharedKeeper
}

// Intervals replace default times of workers and keepers; 0 keeps the default. Tests set them.
type Intervals struct {
	// WorkerSweep is the time between two searches of a worker for work that no message announced.
	WorkerSweep time.Duration
	// KeeperSweep is the longest time between two ticks of a partition that a keeper owns.
	KeeperSweep time.Duration
	// LibraryCheck is the time between two checks of the server's library by a keeper.
	LibraryCheck time.Duration
	// FailureHold is how long a worker holds OnRunFailed without renewal.
	FailureHold time.Duration
}

// sharedKeeper is the keeper that the workers of an engine share.
type sharedKeeper interface {
	// Join runs the keeper on behalf of a worker, or, if without is set, only checks whether the engine has a keeper.
	// leave ends that and returns the error of the keeper.
	Join(without bool) (leave func() error)
	// Yield stops the shared keeper, in favour of another one, until end is called.
	Yield() (end func())
}

// SharedOrigin is the origin of all processes in contract mode, whose runs do not name the process that has started
// them.
const SharedOrigin = "contract"

// originBytes is the length of an origin. Processes whose origins are the same by chance receive the ends of each
// other's runs, too.
const originBytes = 8

// Connection holds the addresses and options with which a session connects.
type Connection struct {
	// Prefix begins every key. Defaults to the default prefix.
	Prefix string
	// Partitions are the counts for a deployment that has none stored yet; stored ones win.
	Partitions keyspace.Partitioning
	// Payloads changes the values of users on their way to the engine and back. Defaults to none.
	Payloads *payload.Pipeline
	// RetryFor bounds how long one call is retried while the server is away or not ready. Defaults to 15 s.
	RetryFor time.Duration
	// ReplaceForeignLibrary replaces a library named flowfabric that is not ours.
	ReplaceForeignLibrary bool
	// ContractOnly binds the session to the functions of the contract, as the server's own library offers them.
	ContractOnly bool
	// ReplicationTimeout bounds how long a call waits for the replicas of the session.
	ReplicationTimeout time.Duration

	Client  rueidis.ClientOption
	Watches int              // the most connections of watches
	Secret  *WaitpointSecret // nil for a random one
	Logins  transport.Logins // in place of the logins of Client
	// Wrap returns the connection to use in place of a new one. Nil means that the new one is used.
	Wrap func(net.Conn) (net.Conn, error)
	// Guest makes the backend of the session. Nil means the backend of the whole library.
	Guest Guest
}

// Connect opens the connections to the engine: to the one in this process if InProcess is set, otherwise to the servers
// of c. After an error, the caller must call Close.
func (s *Session) Connect(ctx context.Context, c Connection) error {
	s.closed, s.end = context.WithCancel(context.Background())
	s.Origin = rand.Text()[:originBytes]
	if c.ContractOnly {
		s.Origin = SharedOrigin
	}
	isEmbedded := s.InProcess != nil
	options := enginerpc.Options{
		Prefix: c.Prefix, Partitions: c.Partitions, RetryFor: c.RetryFor, Logger: s.Logger,
		ReplaceForeignLibrary: c.ReplaceForeignLibrary, ContractOnly: c.ContractOnly, Closed: s.closed.Done(),
		InProcess: isEmbedded, Replication: enginerpc.Replication{
			Replicas: s.Replicas, Timeout: c.ReplicationTimeout, Missed: s.replicationMissed,
		},
		Payloads: c.Payloads,
	}
	var err error
	s.transport, err = transport.Connect(ctx, s.closed, transport.Config{
		Core: options, Client: c.Client, Embedded: isEmbedded, Watches: c.Watches, Held: s.LookEvery, Logins: c.Logins,
		Wrap: c.Wrap, Logger: s.Logger,
	})
	if err != nil {
		return err
	}
	s.Client, s.Watches = s.transport.Client, s.transport.Watches
	s.Hub, s.Silence = s.transport.Hub, s.transport.Silence
	if s.Core, err = enginerpc.Connect(ctx, s.Client, options); err != nil {
		return err
	}
	s.transport.Connected()
	s.feeds = feeds.NewEvents(s.Watches, s.Core.Keys(), s.InCluster(), s.LookEvery(feeds.FeedLook))
	s.runFeeds = feeds.NewRuns(s.feeds, s.Core, s.Namespace)
	s.Backend = nativeBackend{s.Core, s.feeds}
	if c.Guest != nil {
		if s.Backend, err = c.Guest.Open(ctx, s); err != nil {
			return err
		}
	}
	s.Secrets = newKeyring(s.Core, c.Secret)
	if isEmbedded && !s.InMemory {
		return s.endLeases(ctx)
	}
	return nil
}

// endLeases makes everything that was running when the process before ended claimable.
func (s *Session) endLeases(ctx context.Context) error {
	for _, p := range s.Partitions() {
		for {
			reply, err := s.Backend.EndLeases(ctx, enginerpc.EndLeasesCall{Partition: p})
			if err != nil {
				return fmt.Errorf("end the leases of the process before: %w", err)
			}
			if !reply.More {
				break
			}
		}
	}
	return nil
}

// Partitions returns all flow partitions, by index.
func (s *Session) Partitions() []keyspace.Partition { return s.PartitionsOf(keyspace.FlowFamily) }

// PartitionsOf returns all partitions of a family, by index; none for an unknown family.
func (s *Session) PartitionsOf(family keyspace.Family) []keyspace.Partition {
	return s.Core.Partitioning().Of(family)
}

// InCluster reports whether the partitions lie on several servers.
func (s *Session) InCluster() bool {
	return s.Client != nil && s.Client.Mode() == rueidis.ClientModeCluster
}

// quietLook is the time between two checks of a quiet session for events that were not announced to it.
const quietLook = 365 * 24 * time.Hour

// LookEvery returns how long the session waits for a message before it looks without one: the given time, and in a
// quiet session, where no message is lost, a year.
func (s *Session) LookEvery(d time.Duration) time.Duration {
	if s.Quiet {
		return quietLook
	}
	return d
}

// WhileServed returns a context that ends with ctx, when the session is closed, or when the engine stops serving this
// version of the program. [Session.ServedErr] returns why. The caller must call the returned function.
func (s *Session) WhileServed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-s.Core.Outdated():
			cancel(s.Core.OutdatedErr())
		case <-s.Closed().Done():
			cancel(s.ClosedErr())
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		cancel(nil)
	}
}

// ServedErr returns why a context of WhileServed has ended: [enginerpc.Conn.OutdatedErr], or an error that wraps
// enginecore.ErrClosed if the session was closed before the context given to WhileServed ended. It returns nil if that
// one ended, and while neither has.
func (s *Session) ServedErr(ctx context.Context) error {
	if err := s.Core.OutdatedErr(); err != nil {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, enginecore.ErrClosed) {
		return cause
	}
	return nil
}

// LibraryCheck is the time between two checks of the server's library by a keeper.
const LibraryCheck = time.Minute

// GuardLibrary checks the server's library every so often until ctx ends, and replaces an older or missing one. Without
// it, a server that lost its library would keep the one of the first program that reloads it, and a program that makes
// no calls would not notice that the engine no longer serves its version. In this process it returns at once.
func (s *Session) GuardLibrary(ctx context.Context, every time.Duration) {
	if s.InProcess != nil {
		return
	}
	for sleep.For(ctx, every); ctx.Err() == nil; sleep.For(ctx, every) {
		if err := s.Core.Check(ctx); err != nil && ctx.Err() == nil {
			s.Logger.LogAttrs(ctx, slog.LevelWarn,
				"flowfabric: the session could not check the server's library and retries",
				observe.EventLibraryUnchecked.Attr(), slog.Any("error", err))
		}
	}
}

// Probe checks that each server is reachable, and still the primary, unless the engine is in this process. It closes
// connections to servers that do not answer in time, so that the calls that wait for them fail and are repeated.
func (s *Session) Probe(ctx context.Context) {
	if s.InProcess != nil {
		return
	}
	s.transport.Probe(ctx)
}

// replicationMissed logs that a call of a worker or keeper continues although its writes are on too few replicas.
func (s *Session) replicationMissed(ctx context.Context, err error) {
	s.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: too few replicas have what was written; the work goes on",
		observe.EventReplicationMissed.Attr(), slog.Int("replicas", s.Replicas), slog.Any("error", err))
}

// ClosedErr returns an error that wraps enginecore.ErrClosed once the session is closed; nil before.
func (s *Session) ClosedErr() error {
	if s.Closed().Err() != nil {
		return fmt.Errorf("the engine: %w", enginecore.ErrClosed)
	}
	return nil
}

// Closed returns a context that ends when the session is closed.
func (s *Session) Closed() context.Context {
	if s.closed == nil {
		return context.Background() // not connected
	}
	return s.closed
}

// Close closes the connections, and the engine if it is in this process. It may be called after a failed Connect.
func (s *Session) Close() error {
	if s.Logged != nil {
		defer func() { s.Logged.Finish(context.Background(), time.Now()) }()
	}
	if s.end != nil {
		s.end()
	}
	s.transport.Stop()
	s.feeds.Wait()
	s.runFeeds.Wait()
	s.transport.Close()
	if s.InProcess != nil && !s.Shared {
		if err := s.InProcess.Close(); err != nil {
			return fmt.Errorf("close engine: %w", err)
		}
	}
	return nil
}

// ListenToRuns opens the feed of runs and returns a listener, from the given positions on or, for partitions without
// one, from now on. In contract mode the error is [ErrNotInContract].
func (s *Session) ListenToRuns(
	ctx context.Context, filter feeds.Filter, from map[keyspace.Partition]string,
) (*feeds.Listener, error) {
	if _, err := s.Library("the feed of all runs"); err != nil {
		return nil, err
	}
	return s.runFeeds.Listen(ctx, filter, from)
}

// Listeners counts the subscribers of each channel over all servers (PUBSUB NUMSUB). If a server refuses the command
// or does not answer, fault is its error; the subscribers on the other servers are counted nevertheless.
func (s *Session) Listeners(ctx context.Context, channels ...string) (total map[string]int64, fault error) {
	total = make(map[string]int64, len(channels))
	for _, node := range s.Client.Nodes() {
		counts, err := node.Do(ctx, node.B().PubsubNumsub().Channel(channels...).Build()).AsIntMap()
		if err != nil {
			fault = err
			continue
		}
		for channel, n := range counts {
			total[channel] += n
		}
	}
	return total, fault
}

// KeepersSeen counts the connections that subscribe to the keepers' channel, also of keepers on standby.
// known is false if none was counted and a server did not answer. A keeper whose machine vanished counts until the
// server notices, after the time of its tcp-keepalive setting.
func (s *Session) KeepersSeen(ctx context.Context) (seen int64, known bool) {
	channel := s.Core.ChannelKeepers()
	counts, fault := s.Listeners(ctx, channel)
	return counts[channel], fault == nil || counts[channel] > 0
}
