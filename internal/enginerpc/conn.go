package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyprefix"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/payload"
)

// Options adjust Connect. The zero value is usable.
type Options struct {
	// Prefix begins every key: 1 to 32 characters of a-z, 0-9 and -. Defaults to DefaultPrefix. Deployments
	// with different prefixes share a server without sharing data.
	Prefix string
	// Partitions are the counts for a deployment that has none stored yet; stored ones win. Each count that
	// is 0 defaults to 64 for flows, 16 for budgets, 16 for quotas.
	Partitions keyspace.Partitioning
	// RetryFor bounds how long one call is retried while the server is away or not ready; the caller's
	// context bounds it too. Defaults to 15 s.
	RetryFor time.Duration
	// ReplaceForeignLibrary lets Connect replace a library named flowfabric that is not ours. Programs that
	// use the other one stop working.
	ReplaceForeignLibrary bool
	// ContractOnly binds the connection to the ff_* functions of contract version 15, as the server's own library
	// offers them. That library is neither loaded nor replaced; Connect fails with ErrNoLibrary or
	// ErrIncompatibleLibrary where it is missing or of another version, other calls with ErrContractOnly. The defaults
	// of Partitions are then the numbers that other FlowFabric servers use: 256, 32 and 32.
	ContractOnly bool
	// Closed is closed before the client is. Defaults to none.
	Closed <-chan struct{}
	// InProcess is set if the engine is in this process, where every connection has all rights. Defaults to false: the
	// rights are checked.
	InProcess bool
	// Replication makes calls wait for replicas. Defaults to none.
	Replication Replication
	// Payloads changes the values of users on their way to the engine and back. With ContractOnly they stay as they
	// are. Defaults to none.
	Payloads *payload.Pipeline
	// Logger receives a line when the library is loaded. Defaults to none.
	Logger *slog.Logger

	// library is replaced in tests.
	library *libraryFile
}

// Defaults of Options.Partitions.
const (
	defaultFlowPartitions   = 64
	defaultBudgetPartitions = 16
	defaultQuotaPartitions  = 16
)

const defaultRetryFor = 15 * time.Second

// Conn is the connection to an engine: typed calls of the library, key builders and partition counts. Its
// methods may be called from many goroutines.
type Conn struct {
	client       rueidis.Client
	keys         Keys
	partitioning keyspace.Partitioning
	retryFor     time.Duration
	logger       *slog.Logger
	library      libraryFile
	foreign      bool // Options.ReplaceForeignLibrary
	contractOnly bool // Options.ContractOnly
	lanes        laneRegister
	closed       <-chan struct{}

	replication *replicator // nil without Options.Replication
	payloads    *payload.Pipeline

	wires    wirePool
	graphs   graphCache
	load     sync.Mutex // one goroutine at a time looks after the library
	outdated outdated
}

// Connect checks that client reaches a server that can run the engine, loads the library when it is missing or
// older than this program's, and reads or creates the deployment's partition counts. The client stays the
// caller's, who closes it after the last use of the engine.
//
// It waits while the server reports that it is not ready, as WhileUnready does. The error wraps ErrUnavailable where
// that does not end, or ErrNotReachable, ErrUnauthorized, ErrFull, ErrUnsupportedServer, ErrForeignLibrary or
// ErrIncompatibleLibrary where one of them is the reason, or ErrMoved or ErrIncomplete if the deployment has a Mark. A
// lack of rights is found out before anything is written: see CheckRights.
func Connect(ctx context.Context, client rueidis.Client, o Options) (*Conn, error) {
	if client == nil {
		return nil, errors.New("connect: no client")
	}
	if o.Prefix == "" {
		o.Prefix = keyprefix.Default
	}
	keys, err := NewKeys(o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	conn := &Conn{
		client:       client,
		keys:         keys,
		retryFor:     o.RetryFor,
		logger:       o.Logger,
		foreign:      o.ReplaceForeignLibrary,
		contractOnly: o.ContractOnly,
		closed:       o.Closed,
		outdated:     outdated{closed: make(chan struct{})},
	}
	if conn.retryFor <= 0 {
		conn.retryFor = defaultRetryFor
	}
	if !o.ContractOnly {
		conn.payloads = o.Payloads
	}
	if o.Replication.Replicas > 0 {
		conn.replication = newReplicator(conn, o.Replication)
	}
	if conn.logger == nil {
		conn.logger = slog.New(slog.DiscardHandler)
	}
	if o.library != nil {
		conn.library = *o.library
	} else if conn.library, err = ownLibrary(); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := WhileUnready(ctx, o, func() error { return conn.settle(ctx, o) }); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// settle checks the server, its library and the rights of the user, and reads or creates the partition counts.
func (conn *Conn) settle(ctx context.Context, o Options) (err error) {
	if err := conn.checkServer(ctx); err != nil {
		return err
	}
	if err := conn.ensureLibrary(ctx); err != nil {
		return err
	}
	if !o.InProcess {
		if err := conn.CheckRights(ctx); err != nil {
			return err
		}
	}
	keepAway := conn.storeProtocol
	if conn.contractOnly {
		keepAway = conn.refuseMarked
	}
	if err := keepAway(ctx); err != nil {
		return err
	}
	conn.partitioning, err = conn.partitions(ctx, o.Partitions)
	return err
}

// Check verifies that every primary answers, has a library that serves this program, and gives the user all rights. It
// loads the library where it is missing, as Connect does, and returns the same errors. After ErrMoved or ErrIncomplete,
// every later call fails.
func (conn *Conn) Check(ctx context.Context) error {
	if err := conn.connected(); err != nil {
		return err
	}
	if err := conn.OutdatedErr(); err != nil {
		return err
	}
	if err := conn.checkServer(ctx); err != nil {
		return err
	}
	if err := conn.restoreLibrary(ctx); err != nil {
		return err
	}
	if err := conn.refuseMarked(ctx); errors.Is(err, enginecore.ErrMoved) || errors.Is(err, enginecore.ErrIncomplete) {
		conn.serveNoLonger(ctx, "flowfabric: the data of the engine were moved or are being replaced", eventMoved, err)
		return err
	} else if err != nil {
		return err
	}
	return conn.CheckRights(ctx)
}

// Client is the client given to Connect.
func (conn *Conn) Client() rueidis.Client { return conn.client }

// Keys builds the deployment's keys.
func (conn *Conn) Keys() Keys { return conn.keys }

// Partitioning holds the deployment's partition counts.
func (conn *Conn) Partitioning() keyspace.Partitioning { return conn.partitioning }

// CheckExecution returns why the deployment cannot have an execution with that id, or nil.
func (conn *Conn) CheckExecution(id enginecore.ExecutionID) error {
	p, err := keyspace.PartitionOf(id)
	if err == nil {
		err = hasPartition(p, conn.partitioning.Flow)
	}
	if err != nil {
		return fmt.Errorf("execution %s: %w", id, err)
	}
	return nil
}

// FlowPartition is where a flow and its executions live.
func (conn *Conn) FlowPartition(id enginecore.FlowID) (keyspace.Partition, error) {
	if err := conn.connected(); err != nil {
		return keyspace.Partition{}, err
	}
	return conn.partitioning.FlowPartition(id)
}

// Now reads a server's clock, in whole milliseconds as the library does. In a cluster it is one server's.
func (conn *Conn) Now(ctx context.Context) (time.Time, error) {
	if err := conn.connected(); err != nil {
		return time.Time{}, fmt.Errorf("server time: %w", err)
	}
	reply, err := conn.client.Do(ctx, conn.client.B().Time().Build()).AsStrSlice()
	if err != nil {
		if ended := Unanswered(ctx, err); ended != nil {
			return time.Time{}, fmt.Errorf("server time: %w", ended)
		}
		return time.Time{}, fmt.Errorf("server time: %w", connectError(err))
	}
	if len(reply) == 2 {
		seconds, err := strconv.ParseInt(reply[0], 10, 64)
		micros, err2 := strconv.ParseInt(reply[1], 10, 64)
		if err == nil && err2 == nil {
			return time.UnixMilli(seconds*1000 + micros/1000).UTC(), nil
		}
	}
	return time.Time{}, &enginecore.DecodeError{Function: "TIME", Problem: "not two numbers"}
}

// checkServer distinguishes the ways in which a server can be unusable.
func (conn *Conn) checkServer(ctx context.Context) error {
	err := conn.client.Do(ctx, conn.client.B().Ping().Build()).Error()
	return connectError(err)
}

// passwordHint names the usual fault in a URL that the server refuses.
func passwordHint(text string) string {
	switch {
	case strings.HasPrefix(text, "NOAUTH"):
		return " (no password was given; a URL carries one as redis://:password@host)"
	case strings.HasPrefix(text, "WRONGPASS"):
		return " (text alone before the @ of a URL is the user; a password alone is redis://:password@host)"
	}
	return ""
}

// connectError wraps an error of the client in a sentinel by which callers can react to it.
func connectError(err error) error {
	if err == nil {
		return nil
	}
	server, ok := rueidis.IsRedisErr(err)
	if !ok {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return fmt.Errorf("%w: %w", enginecore.ErrNotReachable, err)
	}
	text := server.Error()
	switch {
	case IsUnauthorized(text):
		return fmt.Errorf("%w: %s%s", enginecore.ErrUnauthorized, text, passwordHint(text))
	case fullError(text) != nil:
		return fullError(text)
	case unreadyError(text) != nil:
		return unreadyError(text)
	case strings.Contains(text, "unknown command 'SENTINEL'"):
		return fmt.Errorf("%w: it is not a sentinel: the URL of a server itself has a scheme without +sentinel",
			enginecore.ErrUnsupportedServer)
	case strings.Contains(strings.ToLower(text), "unknown command"):
		return fmt.Errorf("%w: it needs FUNCTION, which Redis has since 7.0 and Valkey since 7.2: %s",
			enginecore.ErrUnsupportedServer, text)
	}
	return fmt.Errorf("server error: %s", text)
}

// ClosedErr returns an error that wraps enginecore.ErrClosed once Options.Closed is closed; nil before.
func (conn *Conn) ClosedErr() error {
	if err := conn.connected(); err != nil {
		return err
	}
	select {
	case <-conn.closed:
		return fmt.Errorf("the engine: %w", enginecore.ErrClosed)
	default:
		return nil
	}
}

// ConnectError gives the error of creating a client the same meaning as Connect's errors have, since
// a client may find out first that the server is away or the password wrong.
func ConnectError(err error) error { return connectError(err) }

const (
	fieldFlowPartitions   = "num_flow_partitions"
	fieldBudgetPartitions = "num_budget_partitions"
	fieldQuotaPartitions  = "num_quota_partitions"
)

// partitions reads the stored counts, after storing the wanted ones where none are. Each field is written only
// if it is missing, so of two programs that start at once both see the same counts.
func (conn *Conn) partitions(ctx context.Context, want keyspace.Partitioning) (keyspace.Partitioning, error) {
	defaults := keyspace.Partitioning{
		Flow: defaultFlowPartitions, Budget: defaultBudgetPartitions, Quota: defaultQuotaPartitions,
	}
	if conn.contractOnly {
		defaults = keyspace.Partitioning{
			Flow: contractFlowPartitions, Budget: contractBudgetPartitions, Quota: contractQuotaPartitions,
		}
	}
	for _, d := range []struct {
		count *int
		value int
	}{{&want.Flow, defaults.Flow}, {&want.Budget, defaults.Budget}, {&want.Quota, defaults.Quota}} {
		if *d.count == 0 {
			*d.count = d.value
		}
	}
	if err := want.Validate(); err != nil {
		return keyspace.Partitioning{}, err
	}
	key := conn.keys.ConfigPartitions()
	b := conn.client.B()
	stored, err := conn.client.Do(ctx, b.Hgetall().Key(key).Build()).AsStrMap()
	if err != nil {
		return keyspace.Partitioning{}, fmt.Errorf("partition counts: %w", connectError(err))
	}
	if len(stored) < 3 {
		for _, f := range []struct {
			name  string
			count int
		}{{fieldFlowPartitions, want.Flow}, {fieldBudgetPartitions, want.Budget}, {fieldQuotaPartitions, want.Quota}} {
			err := conn.Repeat(ctx, "HSETNX", func(b rueidis.Builder) rueidis.Completed {
				return b.Hsetnx().Key(key).Field(f.name).Value(strconv.Itoa(f.count)).Build()
			})
			if err != nil {
				return keyspace.Partitioning{}, fmt.Errorf("partition counts: %w", err)
			}
		}
		stored, err = conn.client.Do(ctx, b.Hgetall().Key(key).Build()).AsStrMap()
		if err != nil {
			return keyspace.Partitioning{}, fmt.Errorf("partition counts: %w", connectError(err))
		}
	}
	var p keyspace.Partitioning
	for _, f := range []struct {
		name  string
		count *int
	}{{fieldFlowPartitions, &p.Flow}, {fieldBudgetPartitions, &p.Budget}, {fieldQuotaPartitions, &p.Quota}} {
		n, err := strconv.Atoi(stored[f.name])
		if err != nil {
			return keyspace.Partitioning{}, fmt.Errorf("partition counts: %s of %s is %q, not a number", f.name, key,
				stored[f.name])
		}
		*f.count = n
	}
	if err := p.Validate(); err != nil {
		return keyspace.Partitioning{}, fmt.Errorf("partition counts stored in %s: %w", key, err)
	}
	return p, nil
}

func ownLibrary() (libraryFile, error) {
	build, err := parseBuild(lualib.Build())
	if err != nil {
		return libraryFile{}, err
	}
	return libraryFile{
		source: lualib.Source(), build: build, protocol: lualib.Protocol, minProtocol: lualib.MinProtocol,
		minStored: lualib.MinStored,
	}, nil
}
