package embedded

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/aof"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/pubsub"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/script"
	"github.com/flowfabric/flowfabric-go/internal/luameter"
)

// Fsync selects when a write becomes durable.
type Fsync int

const (
	// FsyncDefault is FsyncAlways with a data directory and means nothing without one.
	FsyncDefault Fsync = iota
	// FsyncAlways sends no reply before everything that it rests on is on disk. Calls of many connections share a sync.
	FsyncAlways
	// FsyncEverySecond syncs once a second: a crash of the machine loses up to that much, a crash of the process
	// nothing.
	FsyncEverySecond
	// FsyncNever leaves syncing to the operating system: a crash of the process loses nothing.
	FsyncNever
)

// Options configures Open. The zero value is an empty engine in memory without functions.
type Options struct {
	// Library is the source of a Lua function library, its "#!lua name=…" line included, which Open loads. Libraries
	// are not kept in the data directory. Defaults to none; FUNCTION LOAD adds libraries later.
	Library string
	// Dir is the data directory. It is created when missing and locked for this process. Defaults to "": all data is in
	// memory and lost after Close.
	Dir string
	// Fsync selects when writes become durable. Defaults to FsyncAlways. Without Dir it has no effect.
	Fsync Fsync
	// Clock is the time that commands see, for expiry, TIME and stream ids; it is fixed during one command or function.
	// Defaults to time.Now. It is called by one goroutine at a time.
	Clock func() time.Time
	// Logger receives events that no caller learns otherwise: torn log tails, slow functions, that the log has failed
	// and that it can be written again (with the attribute event: storage.failed, storage.restored), messages of
	// redis.log. Defaults to slog.Default.
	Logger *slog.Logger
	// ScriptTimeout is how long a function may run until it is reported, and interrupted if it has written nothing.
	// While the process has used less processor time than that since the function began, the function continues.
	// Defaults to 5 s.
	ScriptTimeout time.Duration
	// LogLimit is the size in bytes from which the log is replaced by a snapshot, once it also exceeds twice the last
	// snapshot. Defaults to 64 MiB.
	LogLimit int64

	// fault and retryPause are for tests: see aof.Options.
	fault      func(op aof.Op, name string) error
	retryPause time.Duration
}

var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("embedded: engine is closed")
	// ErrLocked is returned by Open when another engine, in this process or another, has the data directory open.
	ErrLocked = aof.ErrLocked
	// ErrCorrupt is returned by Open when the data directory holds a damaged file. The error is a *CorruptError.
	ErrCorrupt = aof.ErrCorrupt
)

// CorruptError describes the damage of a data directory. It matches ErrCorrupt.
type CorruptError struct {
	Path   string
	Offset int64
	Reason string
}

// Error names file, offset in bytes and reason.
func (e *CorruptError) Error() string { return (*aof.CorruptError)(e).Error() }

// Is reports whether target is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Engine is a data store with functions that lives in this process. All methods may be called together.
type Engine struct {
	clock   func() time.Time
	logger  *slog.Logger
	started time.Time
	runID   string // 40 random hexadecimal digits, as servers have

	// gate admits one command, transaction or function call at a time; it guards everything down to the blank line.
	gate      sync.Mutex
	store     keyspace.Store
	commands  map[string]*boundCommand
	lua       *script.Interpreter
	broker    *pubsub.Broker
	published []pubsub.Message
	grown     []string                         // streams that the running command added to
	blocked   map[string]map[*session]struct{} // sessions waiting for a stream to grow
	record    []byte                           // effects of the running unit
	refused   *aof.Failure                     // why the running unit must not see or change data, or nil
	shut      bool

	log *aof.Log // nil without a data directory

	mu        sync.Mutex
	sessions  map[*session]struct{}
	listeners map[net.Listener]struct{}
	closed    bool
	done      chan struct{}
	work      sync.WaitGroup
	nextID    atomic.Int64
}

func newRunID() string {
	var digits [20]byte
	_, _ = cryptorand.Read(digits[:]) // it never fails
	return hex.EncodeToString(digits[:])
}

// Open creates an engine, loads the data of the data directory and then o.Library. It fails with ErrLocked when the
// directory is in use, with ErrCorrupt when it is damaged other than by a torn end of the log, and with the server's
// error text when the library does not load. Cancelling ctx stops a load in progress.
func Open(ctx context.Context, o Options) (*Engine, error) {
	e := &Engine{
		clock:     o.Clock,
		logger:    o.Logger,
		broker:    pubsub.NewBroker(),
		blocked:   map[string]map[*session]struct{}{},
		sessions:  map[*session]struct{}{},
		listeners: map[net.Listener]struct{}{},
		done:      make(chan struct{}),
	}
	if e.clock == nil {
		e.clock = time.Now
	}
	if e.logger == nil {
		e.logger = slog.Default()
	}
	if o.ScriptTimeout <= 0 {
		o.ScriptTimeout = 5 * time.Second
	}
	if o.LogLimit <= 0 {
		o.LogLimit = 64 << 20
	}
	if o.Fsync < FsyncDefault || o.Fsync > FsyncNever {
		return nil, fmt.Errorf("embedded: unknown Fsync %d", o.Fsync)
	}
	e.started, e.runID = time.Now(), newRunID()
	e.store.Random = rand.IntN
	e.store.OnStreamAdd = func(key string) { e.grown = append(e.grown, key) }
	e.commands = commandTable()
	e.lua = script.New(script.Options{
		Host:          &scriptHost{e, call{Call: command.Call{Store: &e.store, Script: true}, e: e}},
		Logger:        e.logger,
		Random:        e.store.Random,
		Timeout:       o.ScriptTimeout,
		Version:       serverVersion,
		VersionNumber: serverVersionNum,
		Meter:         luameter.Of(ctx),
	})
	if o.Dir != "" {
		if err := e.openLog(ctx, o); err != nil {
			e.lua.Close()
			return nil, err
		}
	}
	if o.Library != "" {
		if _, err := e.lua.Load(o.Library, false); err != nil {
			_ = e.Close()
			return nil, fmt.Errorf("embedded: load library: %w", err)
		}
	}
	return e, nil
}

// unit runs one command as a separate unit. The gate is held. A fault of the engine costs one reply, not the process.
func (e *Engine) unit(c *call, cmd *boundCommand) (reply resp.Reply) {
	defer func() {
		if r := recover(); r != nil {
			e.logger.Error("embedded: the engine recovered from a panic of a command",
				"event", "command.panicked", "command", c.Args[0], "panic", r, "stack", string(debug.Stack()))
			reply = resp.Err(fmt.Sprintf("internal error in '%s': %v", c.Args[0], r))
		}
	}()
	start := time.Now()
	e.begin()
	if e.refused != nil {
		if cmd.Flags&command.AnyTime == 0 {
			return refusal(e.refused)
		}
		return cmd.run(c)
	}
	reply = e.commit(e.run(c, cmd))
	cmd.spent += time.Since(start)
	return reply
}

// begin starts a unit: one command, transaction or function call. The gate is held. While calls are refused the data
// stays as it is, expiry included.
func (e *Engine) begin() {
	if e.log != nil {
		e.refused = e.log.Failure()
	}
	if e.refused != nil {
		e.store.NowUs = e.clock().UnixMicro()
		e.store.NowMs = e.store.NowUs / 1000
		return
	}
	e.store.SetClock(e.clock())
}

// run executes one command within a unit and records its changes.
func (e *Engine) run(c *call, cmd *boundCommand) resp.Reply {
	cmd.calls++
	if cmd.Flags&command.Write == 0 {
		return cmd.run(c)
	}
	s := c.Store
	before := s.Dirty
	s.Effects = s.Effects[:0]
	reply := cmd.run(c)
	if s.Dirty == before {
		return reply
	}
	if e.log == nil {
		return reply
	}
	if len(s.Effects) == 0 {
		e.note(c.Args)
	}
	for _, words := range s.Effects {
		e.note(words)
	}
	return reply
}

// note adds one command to the record of the running unit.
func (e *Engine) note(words []string) {
	if len(e.record) == 0 {
		e.record = record.Start(e.record)
		for _, key := range e.store.Expired {
			e.record = record.AppendCommand(e.record, []string{"DEL", key})
		}
		e.store.Expired = e.store.Expired[:0]
	}
	e.record = record.AppendCommand(e.record, words)
}

// commit ends a unit: its effects go to the log, its messages to their subscribers, and sleeping readers wake up. A
// unit that cannot be logged is refused: its effects stay invisible, and restore undoes them.
func (e *Engine) commit(reply resp.Reply) resp.Reply {
	if e.log == nil {
		e.store.Expired = e.store.Expired[:0]
	} else if len(e.record) > 0 {
		err := e.log.Append(e.record)
		if cap(e.record) > 1<<20 {
			e.record = nil
		}
		e.record = e.record[:0]
		if err != nil {
			clear(e.published)
			e.published, e.grown = e.published[:0], e.grown[:0]
			e.refused = e.log.Failure()
			return refusal(e.refused)
		}
	}
	if len(e.published) > 0 {
		pos := e.position()
		for _, p := range e.published {
			e.broker.Deliver(p, pos)
		}
		clear(e.published)
		e.published = e.published[:0]
	}
	for _, key := range e.grown {
		for s := range e.blocked[key] {
			s.stir()
		}
	}
	e.grown = e.grown[:0]
	if e.log != nil && e.log.Full() {
		e.log.Rewrite()
	}
	return reply
}

// position returns the log position that the answer of the running unit depends on: all that is in the log, unless it
// was refused.
func (e *Engine) position() int64 {
	if e.log == nil || e.refused != nil {
		return 0
	}
	return e.log.End()
}

// Close ends all connections and listeners, waits for their goroutines and syncs the log. It returns an error when the
// log cannot be written or synced; the writes that were acknowledged before it failed are kept. Closing again does
// nothing and returns nil.
func (e *Engine) Close() error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.done)
	sessions := make([]*session, 0, len(e.sessions))
	for s := range e.sessions {
		sessions = append(sessions, s)
	}
	listeners := make([]io.Closer, 0, len(e.listeners))
	for l := range e.listeners {
		listeners = append(listeners, l)
	}
	e.mu.Unlock()

	for _, l := range listeners {
		_ = l.Close() // Serve reports it
	}
	e.gate.Lock()
	e.shut = true
	e.gate.Unlock()
	for _, s := range sessions {
		s.close()
	}
	e.work.Wait()
	e.lua.Close()
	if e.log != nil {
		return e.log.Close()
	}
	return nil
}

// ClientOption returns the settings of a client that talks to this engine through memory: pass it to rueidis.NewClient.
// Fields may be changed, except for DialCtxFn, InitAddress, ForceSingleClient and DisableCache. The address in it means
// nothing. Commands run on the goroutine that sends them, so a long function holds up its caller whatever the deadline.
func (e *Engine) ClientOption() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{"embedded"},
		DialCtxFn:   e.dial,
		// The engine is one node without key tracking.
		ForceSingleClient: true,
		DisableCache:      true,
		// Memory does not lose connections: no keep-alive pings.
		Dialer: net.Dialer{KeepAlive: -1},
		// All commands pass one gate: more connections would only add memory.
		PipelineMultiplex:   -1,
		RingScaleEachConn:   9,
		ReadBufferEachConn:  64 << 10,
		WriteBufferEachConn: 64 << 10,
	}
}
