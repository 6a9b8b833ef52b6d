package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// defaultNamespace is the namespace of programs that name none.
const defaultNamespace = "default"

// session is an open connection to an engine with what clients, workers and keepers share of it.
type session struct {
	core      *enginerpc.Conn
	backend   backend
	client    rueidis.Client
	dialer    *dialer // nil in this process
	watches   *watches
	silence   time.Duration // after which a server that does not answer is given up; 0 in this process
	hub       *hub
	inProcess *embedded.Engine // nil when the engine is a server
	inMemory  bool
	volatile  bool // AllowVolatile
	namespace enginecore.Namespace
	secrets   *keyring
	keep      flowgraph.Keep
	logger    *slog.Logger
	logged    *repeatLimiter // behind the logger
	telemetry *telemetry
	// keeper is set before the first worker or keeper is made.
	keeper sharedKeeper
}

// sharedKeeper is the keeper that the workers of an engine share.
type sharedKeeper interface {
	// join keeps for a worker that runs, or only looks for keepers when it is to have none (without). The returned function ends
	// that and returns what went wrong.
	join(without bool) (leave func() error)
	// yield makes room for another keeper until the returned function is called.
	yield() (end func())
}

// connection is what a session connects to, and how.
type connection struct {
	core    enginerpc.Options
	client  rueidis.ClientOption
	watches int              // the most connections of watches
	secret  *waitpointSecret // nil for a random one
	// newBackend makes the backend; nil makes that of the whole library.
	newBackend func(context.Context, *session) (backend, error)
}

// connect makes the connections to an engine, which is in this process when inProcess is set. After an error, close ends those
// that were made.
func (s *session) connect(ctx context.Context, c connection) error {
	option, isEmbedded := c.client, s.inProcess != nil
	if !isEmbedded {
		s.silence = timely(&option)
	}
	client, dialer, err := newClient(ctx, option, isEmbedded)
	if err != nil {
		return enginerpc.ConnectError(err)
	}
	s.dialer = dialer
	s.client = pinnedReads{client, dialer}
	s.watches = newWatches(option, isEmbedded, c.watches)
	s.hub = newHub(s.client, s.logger)
	if s.core, err = enginerpc.Connect(ctx, s.client, c.core); err != nil {
		return err
	}
	s.backend = nativeBackend{s.core}
	if c.newBackend != nil {
		if s.backend, err = c.newBackend(ctx, s); err != nil {
			return err
		}
	}
	s.secrets = newKeyring(s.core, c.secret)
	if isEmbedded && !s.inMemory {
		return s.endLeases(ctx)
	}
	return nil
}

// endLeases makes everything that was running when the process before ended claimable.
func (s *session) endLeases(ctx context.Context) error {
	for _, p := range s.partitions() {
		for {
			reply, err := s.backend.EndLeases(ctx, enginerpc.EndLeasesCall{Partition: p})
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

// partitions lists the partitions of flows.
func (s *session) partitions() []enginecore.Partition { return s.partitionsOf(enginecore.FlowFamily) }

// partitionsOf lists the partitions of a family.
func (s *session) partitionsOf(family enginecore.Family) []enginecore.Partition {
	counts := s.core.Partitioning()
	count := map[enginecore.Family]int{
		enginecore.FlowFamily: counts.Flow, enginecore.BudgetFamily: counts.Budget, enginecore.QuotaFamily: counts.Quota,
	}[family]
	list := make([]enginecore.Partition, count)
	for i := range list {
		list[i] = enginecore.Partition{Family: family, Index: uint16(i)}
	}
	return list
}

// whileServed returns a context that ends with ctx, or when the engine is found not to serve this program any more.
func (s *session) whileServed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-s.core.Outdated():
			cancel(s.core.OutdatedErr())
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		cancel(nil)
	}
}

// libraryCheck is how often workers and keepers look at the server's library.
const libraryCheck = time.Minute

// guardLibrary replaces an older library, until ctx ends. A server that has lost its library gets that of the program which
// notices first, and to a newer program most of its functions may look the same. One that does not serve this program any more
// is noticed by programs that make no calls otherwise.
func (s *session) guardLibrary(ctx context.Context, every time.Duration) {
	if s.inProcess != nil {
		return
	}
	for pause(ctx, every); ctx.Err() == nil; pause(ctx, every) {
		if err := s.core.Check(ctx); err != nil && ctx.Err() == nil {
			s.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: could not look at the server's library, it is tried again",
				eventLibraryUnchecked.attr(), slog.Any("error", err))
		}
	}
}

// close ends the connections that were made and, in this process, the engine.
func (s *session) close() error {
	if s.logged != nil {
		defer func() { s.logged.finish(context.Background(), time.Now()) }()
	}
	s.dialer.end()
	if s.hub != nil {
		s.hub.close()
	}
	if s.watches != nil {
		s.watches.close()
	}
	closeClient(s.client, s.dialer)
	if s.inProcess != nil {
		if err := s.inProcess.Close(); err != nil {
			return fmt.Errorf("close engine: %w", err)
		}
	}
	return nil
}
