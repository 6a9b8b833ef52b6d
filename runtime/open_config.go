package runtime

import (
	"cmp"
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
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/internal/contractmode"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// OpenConfig configures Open. The zero value is good for most programs.
type OpenConfig struct {
	// Prefix begins every key and channel, so that applications can share a server without sharing data: 1 to 32
	// characters of a-z, 0-9 and -. Defaults to "ff".
	Prefix string
	// Namespace separates the runs of several applications or tenants under one prefix: a run id belongs to a namespace
	// and a flow, and schedules, limits and budgets belong to a namespace. Workers, keepers, lanes, what is paused and
	// the secret of tokens are those of all namespaces. It guards against accidents and is no security boundary: who
	// may open one may open any. A name has at most 128 bytes without control characters. Defaults to "default".
	Namespace string
	// Partitions is the number of partitions that a new deployment gets for its flows, 1 to 65,536. A deployment that
	// exists keeps its own. Defaults to 64 on a server and 8 in this process.
	Partitions int

	// Logger receives what happens besides the results: lost leases, reconnections, failed attempts. Defaults to
	// slog.Default().
	Logger *slog.Logger
	// TracerProvider makes the spans of submissions and activities. Defaults to OpenTelemetry's global one.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics of clients, workers and keepers. Defaults to OpenTelemetry's global one.
	MeterProvider metric.MeterProvider

	// TLSConfig replaces what a URL with TLS (rediss or valkeys) means by default: the certificate authorities of the
	// system, and no certificate of the client's own. A nil RootCAs and an empty ServerName, which is then the host of
	// the URL, keep their defaults. A URL without TLS is an error. Defaults to nil.
	TLSConfig *tls.Config
	// MaxWatches is how many Watch and Stream of the engine may go on at a time, 1 to 100,000: each has a connection to
	// the server of its own while it waits. One more yields ErrTooManyWatches at once. Defaults to 1,000.
	MaxWatches int
	// WaitpointSecret is what the tokens of waitpoints are signed with. It is stored, for each partition, when a
	// waitpoint is opened there for the first time, and by Engine.RotateSecrets. Defaults to a random secret, so that
	// only one who can read the engine's data can make tokens.
	WaitpointSecret WaitpointSecret
	// Retention is how long runs are kept after they ended, where their flow does not say so itself with
	// flow.Retention. It is stored with a run when it starts, so a later change counts for later runs. Keepers purge
	// what is due. Defaults to 7 days.
	Retention Retention
	// Keeper configures the keeper that the workers of this engine share. Keepers made by NewKeeper have their own.
	Keeper KeeperConfig
	// Contract puts the engine in contract mode. Defaults to nil, which is not contract mode unless the URL has
	// ?contract=15.
	Contract *ContractConfig

	// MustExist makes Open refuse an engine of this process that would be made anew: a directory in which no engine has
	// been opened before, of which it makes nothing then, and an engine in memory. The error wraps fs.ErrNotExist. A
	// server is there or not.
	MustExist bool
	// AllowVolatile says that what a server has may be lost with it: one without a log on disk (appendonly no) is
	// neither warned of by Open nor a failure of Engine.Check. For tests and development, and for servers that others
	// keep safe.
	AllowVolatile bool
	// ReplaceForeignLibrary lets Open replace a function library named flowfabric that is not this project's. Contract
	// mode, which leaves every library in place, excludes it.
	ReplaceForeignLibrary bool

	// retryFor is for how long a call is sent again before it fails, for tests. Defaults to that of package enginerpc.
	retryFor time.Duration
}

// ContractConfig configures contract mode, in which an engine uses nothing but the ff_* functions of the FlowFabric
// contract, version 15, against whatever library of that version the server already has; it is neither loaded nor
// replaced. So flows run on a stock FlowFabric server, beside its own programs. Open fails with enginecore.ErrNoLibrary
// or ErrIncompatibleLibrary where the library is missing or of another version.
//
// Each step is then a call of its own: runs are slower, and what one composite call does at once can be seen half done
// in between. Everything is repeated until it is done. Start refuses a flow that the contract cannot serve, with
// ErrNotInContract. In this process (embedded) the library is ours without its composite calls.
type ContractConfig struct {
	// PollInterval is how often workers and keepers look for what other programs have made ready or due: of what this
	// library does, its own learn at once. At least 10 ms. Defaults to 1 s.
	PollInterval time.Duration
	// ReconcileInterval is how often a keeper looks for steps that nobody has taken, because a process ended between
	// two calls or another program ended an execution. At least 10 ms. Defaults to 5 s.
	ReconcileInterval time.Duration
}

// Retention is how long runs are kept after their end, by their outcome: up to 100 years, and flow.KeepForever keeps
// them until they are purged by hand.
type Retention struct {
	// Default is for the outcomes that have no time of their own. Defaults to 7 days.
	Default time.Duration
	// Succeeded, Failed, Cancelled and Expired are for runs that ended so. Each defaults to Default.
	Succeeded, Failed, Cancelled, Expired time.Duration
}

// keep is the retention as it is stored.
func (r Retention) keep() flowgraph.Keep {
	return flowgraph.Keep{}.
		With(cmp.Or(r.Succeeded, r.Default), flowgraph.Succeeded).
		With(cmp.Or(r.Failed, r.Default), flowgraph.Failed).
		With(cmp.Or(r.Cancelled, r.Default), flowgraph.Cancelled).
		With(cmp.Or(r.Expired, r.Default), flowgraph.Expired)
}

// WaitpointSecret is a secret that signs the tokens of waitpoints. The zero value stands for a random one.
type WaitpointSecret struct {
	// KID identifies the secret: 1 to 32 characters of a-z, 0-9 and -.
	KID string
	// Hex is the secret itself: 16 to 64 random bytes in hex.
	Hex string
}

// String names the secret by its KID, so that it does not get into logs.
func (s WaitpointSecret) String() string { return fmt.Sprintf("waitpoint secret %q", s.KID) }

// GoString is String.
func (s WaitpointSecret) GoString() string { return s.String() }

// given returns the secret for the engine, nil for the zero value.
func (s WaitpointSecret) given() *engine.WaitpointSecret {
	if s == (WaitpointSecret{}) {
		return nil
	}
	return &engine.WaitpointSecret{KeyID: s.KID, Hex: s.Hex}
}

const (
	// defaultMaxWatches is the default of OpenConfig.MaxWatches.
	defaultMaxWatches = 1000
	// maxPartitions bounds OpenConfig.Partitions.
	maxPartitions = 1 << 16
	// maxNamespace bounds the name of a namespace, in bytes.
	maxNamespace = 128
	// minContractInterval bounds the intervals of ContractConfig from below.
	minContractInterval = 10 * time.Millisecond
)

// withDefaults returns the config with its defaults in place of zero values, but for those that depend on the kind of
// engine.
func (c OpenConfig) withDefaults() OpenConfig {
	c.Prefix = cmp.Or(c.Prefix, enginecore.DefaultPrefix)
	c.Namespace = cmp.Or(c.Namespace, engine.DefaultNamespace)
	c.MaxWatches = cmp.Or(c.MaxWatches, defaultMaxWatches)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.TracerProvider = cmp.Or(c.TracerProvider, otel.GetTracerProvider())
	c.MeterProvider = cmp.Or(c.MeterProvider, otel.GetMeterProvider())
	if c.Contract != nil {
		c.Contract = &ContractConfig{
			PollInterval:      cmp.Or(c.Contract.PollInterval, contractmode.DefaultPollInterval),
			ReconcileInterval: cmp.Or(c.Contract.ReconcileInterval, contractmode.DefaultReconcileInterval),
		}
	}
	return c
}

// check returns all faults of a config with defaults but for those of Keeper, joined. contract reports whether the URL
// asks for contract mode.
func (c OpenConfig) check(contract bool) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, invalid(format, args...)) }
	if err := enginecore.CheckPrefix(c.Prefix); err != nil {
		fault("Prefix: %w", err)
	}
	if err := checkNamespace(c.Namespace); err != nil {
		fault("Namespace: %w", err)
	}
	if c.Partitions < 0 || c.Partitions > maxPartitions {
		fault("Partitions %d: must be 1 to %d", c.Partitions, maxPartitions)
	}
	if err := engine.CheckMaxWatches(c.MaxWatches); err != nil {
		fault("MaxWatches %w", err)
	}
	if err := c.WaitpointSecret.given().Check(); err != nil {
		faults = append(faults, err)
	}
	if err := c.Retention.keep().Check(); err != nil {
		fault("Retention: %w", err)
	}
	if (c.Contract != nil || contract) && c.ReplaceForeignLibrary {
		fault("ReplaceForeignLibrary: contract mode leaves the library as it is: " +
			"Contract must be nil and the URL without contract=15")
	}
	if c.Contract != nil {
		if c.Contract.PollInterval < minContractInterval {
			fault("Contract.PollInterval %s: must be at least %s", c.Contract.PollInterval, minContractInterval)
		}
		if c.Contract.ReconcileInterval < minContractInterval {
			fault("Contract.ReconcileInterval %s: must be at least %s", c.Contract.ReconcileInterval,
				minContractInterval)
		}
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
