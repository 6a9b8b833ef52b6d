package engine

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

// DefaultNamespace is the namespace of programs that name none.
const DefaultNamespace = "default"

// Session is an open connection to an engine with what clients, workers and keepers share of it.
type Session struct {
	Core      *enginerpc.Conn
	Backend   Backend
	Client    rueidis.Client
	dialer    *dialer // nil in this process
	Watches   *watches
	Silence   time.Duration // after which a server that does not answer is given up; 0 in this process
	Hub       *hub
	InProcess *embedded.Engine // nil when the engine is a server
	InMemory  bool
	Volatile  bool // AllowVolatile
	Namespace enginecore.Namespace
	Secrets   *keyring
	Keep      flowgraph.Keep
	Logger    *slog.Logger
	Logged    *repeatLimiter // behind the logger
	Telemetry *Telemetry
	// Keeper is set before the first worker or keeper is made.
	Keeper sharedKeeper
}

// sharedKeeper is the keeper that the workers of an engine share.
type sharedKeeper interface {
	// Join keeps for a worker that runs, or only looks for keepers when it is to have none (without). The returned
	// function ends that and returns what went wrong.
	Join(without bool) (leave func() error)
	// Yield makes room for another keeper until the returned function is called.
	Yield() (end func())
}

// Connection is what a session connects to, and how.
type Connection struct {
	Core    enginerpc.Options
	Client  rueidis.ClientOption
	Watches int              // the most connections of watches
	Secret  *WaitpointSecret // nil for a random one
	// NewBackend makes the backend; nil makes that of the whole library.
	NewBackend func(context.Context, *Session) (Backend, error)
}

// Connect makes the connections to an engine, which is in this process when InProcess is set. After an error, close
// ends those that were made.
func (s *Session) Connect(ctx context.Context, c Connection) error {
	option, isEmbedded := c.Client, s.InProcess != nil
	if !isEmbedded {
		s.Silence = timely(&option)
	}
	client, dialer, err := newClient(ctx, option, isEmbedded)
	if err != nil {
		return enginerpc.ConnectError(err)
	}
	s.dialer = dialer
	s.Client = pinnedReads{client, dialer}
	s.Watches = newWatches(option, isEmbedded, c.Watches)
	s.Hub = newHub(s.Client, s.Logger)
	if s.Core, err = enginerpc.Connect(ctx, s.Client, c.Core); err != nil {
		return err
	}
	s.Backend = nativeBackend{s.Core}
	if c.NewBackend != nil {
		if s.Backend, err = c.NewBackend(ctx, s); err != nil {
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

// Partitions lists the partitions of flows.
func (s *Session) Partitions() []enginecore.Partition { return s.PartitionsOf(enginecore.FlowFamily) }

// PartitionsOf lists the partitions of a family.
func (s *Session) PartitionsOf(family enginecore.Family) []enginecore.Partition {
	counts := s.Core.Partitioning()
	count := map[enginecore.Family]int{
		enginecore.FlowFamily: counts.Flow, enginecore.BudgetFamily: counts.Budget, enginecore.QuotaFamily: counts.Quota,
	}[family]
	list := make([]enginecore.Partition, count)
	for i := range list {
		list[i] = enginecore.Partition{Family: family, Index: uint16(i)}
	}
	return list
}

// WhileServed returns a context that ends with ctx, or when the engine is found not to serve this program any more.
func (s *Session) WhileServed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-s.Core.Outdated():
			cancel(s.Core.OutdatedErr())
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		cancel(nil)
	}
}

// LibraryCheck is how often workers and keepers look at the server's library.
const LibraryCheck = time.Minute

// GuardLibrary replaces an older library, until ctx ends. A server that has lost its library gets that of the program
// which notices first, and to a newer program most of its functions may look the same. One that does not serve this
// program any more is noticed by programs that make no calls otherwise.
func (s *Session) GuardLibrary(ctx context.Context, every time.Duration) {
	if s.InProcess != nil {
		return
	}
	for Pause(ctx, every); ctx.Err() == nil; Pause(ctx, every) {
		if err := s.Core.Check(ctx); err != nil && ctx.Err() == nil {
			s.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: could not look at the server's library, it is tried again",
				EventLibraryUnchecked.Attr(), slog.Any("error", err))
		}
	}
}

// Close ends the connections that were made and, in this process, the engine.
func (s *Session) Close() error {
	if s.Logged != nil {
		defer func() { s.Logged.finish(context.Background(), time.Now()) }()
	}
	s.dialer.end()
	if s.Hub != nil {
		s.Hub.close()
	}
	if s.Watches != nil {
		s.Watches.close()
	}
	closeClient(s.Client, s.dialer)
	if s.InProcess != nil {
		if err := s.InProcess.Close(); err != nil {
			return fmt.Errorf("close engine: %w", err)
		}
	}
	return nil
}
