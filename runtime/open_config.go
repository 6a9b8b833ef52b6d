package runtime

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/engineurl"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyprefix"
)

// OpenConfig configures Open. The zero value suits most programs.
type OpenConfig struct {
	// Prefix begins every key and channel, so that applications can share a server without sharing data: 1 to 32
	// characters of a-z, 0-9 and -. In contract mode it is "ff". Defaults to "ff".
	Prefix string
	// Namespace separates the runs of several applications or tenants under one prefix. Run ids, schedules, limits and
	// budgets belong to a namespace; workers, keepers, lanes, pauses of lanes and activities, and the secret of tokens
	// are shared by all namespaces. It prevents accidents but is not a security boundary: a program that can open one
	// namespace can open all. A name has at most 128 bytes without control characters. Defaults to "default".
	Namespace string
	// Partitions is the number of flow partitions of a new deployment, 1 to 65,536. It cannot be changed: a number that
	// differs from an existing deployment's is an error that matches ErrInvalid. Defaults to the number of the
	// deployment, and for a new one to 64 on a server, 8 in this process and 256 in contract mode.
	Partitions int

	// Logger receives events such as lost leases, reconnections and failed attempts. Defaults to slog.Default().
	Logger *slog.Logger
	// TracerProvider creates the spans of submissions and activities. Defaults to the global one of OpenTelemetry.
	TracerProvider trace.TracerProvider
	// MeterProvider creates the metrics of clients, workers and keepers. Defaults to the global one of OpenTelemetry.
	MeterProvider metric.MeterProvider

	// Propagators carry values of the context of a start to the activities of the run, such as
	// interceptor.PropagateBaggage. Defaults to none, which costs nothing.
	Propagators []interceptor.Propagator

	// TLSConfig configures TLS for a URL with TLS (rediss or valkeys). A nil RootCAs means the certificate authorities
	// of the system. With an empty ServerName, the certificate of each server of a cluster, and of each sentinel and
	// primary, must have the address under which the program connects to it; a ServerName is required of all of them
	// instead. Open refuses it for a URL without TLS. Defaults to nil, which also means no client certificate.
	TLSConfig *tls.Config
	// Credentials is called for each connection that is made, also to sentinels that require a login and to servers of
	// a cluster, and returns the user and the password to present; an empty user is the default one. It is for
	// passwords that are rotated and tokens that expire: existing connections stay as they are, and the function is
	// called again after its credentials were refused. It may be called by several goroutines. While it returns an
	// error, no connection is made: calls fail after their retries with that error and enginecore.ErrUnauthorized. Open
	// refuses it together with a user or a password in the URL, and for the embedded engine. Defaults to nil: the
	// credentials in the URL.
	Credentials func(context.Context) (user, password string, err error)
	// Sentinel is for a URL of sentinels (valkey+sentinel). Defaults to the settings of the servers.
	Sentinel SentinelConfig
	// MaxWatches is how many Watch and Stream calls of the engine may be active at a time, 1 to 100,000. All share one
	// connection that waits for events, in a cluster one for each partition; a Stream that waits has another one.
	// Further calls yield ErrTooManyWatches at once. Defaults to 1,000.
	MaxWatches int
	// WaitpointSecret signs the tokens of waitpoints. The engine stores it in each partition when the first waitpoint
	// of the partition is opened, and when Engine.RotateSecrets is called. Defaults to a random secret, so that only
	// someone who can read the engine's data can make tokens.
	WaitpointSecret enginecore.WaitpointSecret
	// Retention is how long runs are kept after their end, unless their flow sets flow.Retention. It is stored with a
	// run when it starts, so a change applies to later runs. Keepers purge runs whose time is up. Defaults to 7 days.
	Retention Retention
	// Replication makes calls wait until replicas of the server have their writes. Defaults to none, which costs
	// nothing: a failover can then take back writes that were acknowledged in the last moments before it.
	Replication Replication
	// Keeper configures the keeper that the workers of this engine share. NewKeeper has its own config.
	Keeper KeeperConfig
	// Backend makes contract mode available, which a URL with ?contract=15 selects; the value is contract.Backend of
	// package contract. It has no effect on other URLs. Defaults to none: Open refuses URLs with ?contract=15.
	Backend engine.ContractBackend

	// MustExist makes Open fail rather than create a new embedded engine: for a directory without an engine, which Open
	// leaves unchanged, and for an engine in memory. The error matches fs.ErrNotExist. It has no effect on servers.
	// Defaults to false.
	MustExist bool
	// AllowVolatile accepts a server that can lose data when it restarts: without an append-only file (appendonly no),
	// Open does not warn and Engine.Check does not fail. For an engine in memory, Open logs no engine.in_memory. Set it
	// for tests and development, and for servers whose data is protected otherwise. Defaults to false.
	AllowVolatile bool
	// ReplaceForeignLibrary lets Open replace a function library named flowfabric that does not belong to this project.
	// It cannot be combined with contract mode, which replaces no library. Defaults to false.
	ReplaceForeignLibrary bool

	// Internal is for packages of this module; programs can do nothing with it, and it may change.
	Internal enginelink.Handle
}

// SentinelConfig configures connections to sentinels, where these differ from those to servers. Open refuses it for
// other URLs.
type SentinelConfig struct {
	// Credentials is OpenConfig.Credentials for sentinels, in place of sentinel_username and sentinel_password in the
	// URL. Defaults to nil: the credentials in the URL, or else, for a sentinel that requires a login, the credentials
	// of the servers.
	Credentials func(context.Context) (user, password string, err error)
	// TLSConfig is OpenConfig.TLSConfig for sentinels. Defaults to the config of the servers.
	TLSConfig *tls.Config
}

// settings are the fields of a config with defaults by which a session is connected.
func (c OpenConfig) settings(link *enginelink.Link) engineurl.Settings {
	return engineurl.Settings{
		Prefix: c.Prefix, Partitions: c.Partitions, ReplaceForeignLibrary: c.ReplaceForeignLibrary,
		MustExist: c.MustExist, MaxWatches: c.MaxWatches, Secret: givenSecret(c.WaitpointSecret),
		Credentials: c.Credentials, SentinelCredentials: c.Sentinel.Credentials,
		ReplicationTimeout: cmp.Or(c.Replication.Timeout, defaultReplicationTimeout),
		Guest:              engine.GuestOf(c.Backend), Link: link,
	}
}

// checkConnection returns all faults of the fields about connections, joined, and enters TLS configurations.
func (c OpenConfig) checkConnection(to *engineurl.Target) error {
	var faults []error
	sentinels := to.Option.Sentinel.MasterSet != ""
	if !sentinels && (c.Sentinel.Credentials != nil || c.Sentinel.TLSConfig != nil) {
		faults = append(faults, invalid("Sentinel: %s is no URL of sentinels: it must be zero", to))
	}
	switch {
	case c.Credentials == nil:
	case to.Embedded:
		faults = append(faults, invalid("Credentials: the embedded engine has no login: it must be nil"))
	case to.Option.Username+to.Option.Password != "":
		faults = append(faults, invalid("Credentials: the URL has a user or a password, too: one of the two must go"))
	}
	if c.Sentinel.Credentials != nil && to.Sentinel != nil {
		faults = append(faults, invalid("Sentinel.Credentials: the URL has sentinel_password, too: one of the two must go"))
	}
	if len(faults) == 0 {
		faults = append(faults, to.UseTLS(c.TLSConfig, c.Sentinel.TLSConfig))
	}
	return errors.Join(faults...)
}

// Replication is how many replicas of a server confirm the writes of a call before the call returns. It holds for all
// calls that acknowledge something: starts, signals, answers to waits, cancels, pauses, schedules, limits, budgets and
// the calls of package admin; for the results that Result returns; and for the outcomes and recorded steps that workers
// report. Claims, leases, heartbeats and the work of keepers do not wait.
//
// A call that the replicas have not confirmed within Timeout, or whose primary changed in the meantime, has been
// performed nevertheless. Its error wraps enginecore.ErrNotReplicated, and the same call with the same id may be
// repeated. Workers and keepers log the event "replication.missed" and continue.
//
// It is for servers with replicas only: Open refuses it for the engine of this process and in contract mode. The user
// needs the right to use WAIT. A replica that has confirmed holds the data in its memory; whether it is on its disk is
// up to its own settings.
type Replication struct {
	// Replicas is the number of replicas of each primary, 0 to 100. Defaults to 0: no call waits.
	Replicas int
	// Timeout is how long a call waits for the replicas, 10 ms to 1 minute. Defaults to 2 s.
	Timeout time.Duration
}

// check returns the fault of a field; inProcess and contract are the kind of engine.
func (r Replication) check(inProcess, contract bool) error {
	switch {
	case r.Replicas < 0 || r.Replicas > maxReplicas:
		return invalid("Replication.Replicas %d: must be 0 to %d", r.Replicas, maxReplicas)
	case r.Timeout != 0 && (r.Timeout < minReplicationTimeout || r.Timeout > maxReplicationTimeout):
		return invalid("Replication.Timeout %s: must be %s to %s", r.Timeout, minReplicationTimeout,
			maxReplicationTimeout)
	case r.Replicas == 0:
		return nil
	case inProcess:
		return invalid("Replication.Replicas %d: the engine of this process has no replicas; use a server with "+
			"replicas, or ?fsync=always", r.Replicas)
	case contract:
		return invalid("Replication.Replicas %d: contract mode does not wait for replicas", r.Replicas)
	}
	return nil
}

// Retention is how long runs are kept after their end, by outcome: up to 100 years, or flow.KeepForever, which keeps
// them until they are purged by hand.
type Retention struct {
	// Default applies to outcomes whose own field is zero. Defaults to 7 days.
	Default time.Duration
	// Succeeded, Failed, Cancelled and Expired apply to runs with that outcome. Each defaults to Default.
	Succeeded, Failed, Cancelled, Expired time.Duration
}

// keep is the retention as it is stored.
func (r Retention) keep() flowgraph.Keep {
	return flowgraph.Keep{}.
		With(cmp.Or(r.Succeeded, r.Default), fabrictype.OutcomeSucceeded).
		With(cmp.Or(r.Failed, r.Default), fabrictype.OutcomeFailed).
		With(cmp.Or(r.Cancelled, r.Default), fabrictype.OutcomeCancelled).
		With(cmp.Or(r.Expired, r.Default), fabrictype.OutcomeExpired)
}

// givenSecret returns the secret for the engine, nil for the zero value.
func givenSecret(s enginecore.WaitpointSecret) *engine.WaitpointSecret {
	if s == (enginecore.WaitpointSecret{}) {
		return nil
	}
	return &engine.WaitpointSecret{KeyID: s.KID, Hex: s.Hex}
}

const (
	// defaultMaxWatches is the default of OpenConfig.MaxWatches.
	defaultMaxWatches = 1000
	// maxReplicas bounds Replication.Replicas.
	maxReplicas = 100
	// Bounds of Replication.Timeout, and its default.
	minReplicationTimeout     = 10 * time.Millisecond
	maxReplicationTimeout     = time.Minute
	defaultReplicationTimeout = 2 * time.Second
	// maxPartitions bounds OpenConfig.Partitions.
	maxPartitions = 1 << 16
	// maxNamespace bounds the name of a namespace, in bytes.
	maxNamespace = 128
	// contractPrefix is the prefix that all programs of the contract use.
	contractPrefix = "ff"
)

// withDefaults returns the config with its defaults in place of zero values, but for those that depend on the kind of
// engine.
func (c OpenConfig) withDefaults() OpenConfig {
	c.Prefix = cmp.Or(c.Prefix, keyprefix.Default)
	c.Namespace = cmp.Or(c.Namespace, engine.DefaultNamespace)
	c.MaxWatches = cmp.Or(c.MaxWatches, defaultMaxWatches)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.TracerProvider = cmp.Or(c.TracerProvider, otel.GetTracerProvider())
	c.MeterProvider = cmp.Or(c.MeterProvider, otel.GetMeterProvider())
	return c
}

// check returns all faults of a config with defaults except the faults of Keeper, joined. contract reports whether the
// URL selects contract mode.
func (c OpenConfig) check(contract bool) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, invalid(format, args...)) }
	if err := keyprefix.Check(c.Prefix); err != nil {
		fault("Prefix: %w", err)
	}
	if err := checkNamespace(c.Namespace); err != nil {
		fault("Namespace: %w", err)
	}
	if c.Partitions < 0 || c.Partitions > maxPartitions {
		fault("Partitions %d: must be 1 to %d", c.Partitions, maxPartitions)
	}
	for i, p := range c.Propagators {
		if p == nil {
			fault("Propagators: element %d is nil", i+1)
		} else if p, ok := p.(interface{ Check() error }); ok && p.Check() != nil {
			fault("Propagators: element %d: %w", i+1, p.Check())
		}
	}
	if err := transport.CheckMaxWatches(c.MaxWatches); err != nil {
		fault("MaxWatches %w", err)
	}
	if err := givenSecret(c.WaitpointSecret).Check(); err != nil {
		faults = append(faults, err)
	}
	if err := c.Retention.keep().Check(); err != nil {
		fault("Retention: %w", err)
	}
	if guest := engine.GuestOf(c.Backend); guest != nil {
		if err := guest.Check(); err != nil {
			fault("Backend: %w", err)
		}
	}
	if contract {
		faults = append(faults, c.checkContract())
	}
	return errors.Join(faults...)
}

// checkContract returns all faults of a config with defaults that concern contract mode, joined.
func (c OpenConfig) checkContract() error {
	var faults []error
	if engine.GuestOf(c.Backend) == nil {
		faults = append(faults, invalid("the URL has contract=15, and the program has no backend for it: "+
			"import github.com/flowfabric/flowfabric-go/contract and set OpenConfig.Backend"))
	}
	if c.Prefix != contractPrefix {
		faults = append(faults, invalid("Prefix %q: in contract mode it is %q, the only one that other programs of "+
			"the contract use", c.Prefix, contractPrefix))
	}
	if c.ReplaceForeignLibrary {
		faults = append(faults, invalid("ReplaceForeignLibrary: contract mode leaves the library as it is: "+
			"the URL must have no contract=15"))
	}
	return errors.Join(faults...)
}

func checkNamespace(name string) error {
	if len(name) > maxNamespace {
		return fmt.Errorf("%.40q…: it has %d bytes, at most %d are allowed", name, len(name), maxNamespace)
	}
	if strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) {
		return fmt.Errorf("%q: it must be UTF-8 without control characters", name)
	}
	return nil
}
