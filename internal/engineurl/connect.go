package engineurl

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// Settings configure the connection of a session. The fields of runtime.OpenConfig with the same names have their
// meaning.
type Settings struct {
	Prefix string
	// Partitions is the number of flow partitions of a new deployment; 0 is the default of the kind of engine.
	Partitions                       int
	ReplaceForeignLibrary, MustExist bool
	MaxWatches                       int
	Secret                           *engine.WaitpointSecret // nil for a random one
	Credentials, SentinelCredentials func(context.Context) (user, password string, err error)
	ReplicationTimeout               time.Duration
	// Guest makes the backend of contract mode; nil without one.
	Guest engine.Guest
	// Link is how a package of this module connects an engine; nil for programs.
	Link *enginelink.Link
}

// Partition counts of a new engine in this process.
const (
	embeddedFlowPartitions   = 8
	embeddedBudgetPartitions = 2
	embeddedQuotaPartitions  = 2
)

// Connect connects a session to a target: it opens the engine of this process, or connects to the servers. After an
// error, the caller must close the session.
func (t *Target) Connect(ctx context.Context, s *engine.Session, o Settings) error {
	c := engine.Connection{
		Prefix: o.Prefix, Partitions: keyspace.Partitioning{Flow: o.Partitions},
		ReplaceForeignLibrary: o.ReplaceForeignLibrary, ContractOnly: t.Contract,
		ReplicationTimeout: o.ReplicationTimeout,
		Client:             t.Option, Watches: o.MaxWatches, Secret: o.Secret,
		Logins: t.Logins(o.Credentials, o.SentinelCredentials),
	}
	if o.Link != nil {
		c.Wrap, c.RetryFor, c.Payloads = o.Link.Wrap, o.Link.RetryFor, o.Link.Payloads
	}
	if t.Embedded {
		if err := t.openEmbedded(ctx, s, o); err != nil {
			return err
		}
		c.Client = s.InProcess.ClientOption()
		if c.Partitions == (keyspace.Partitioning{}) {
			c.Partitions = keyspace.Partitioning{
				Flow: embeddedFlowPartitions, Budget: embeddedBudgetPartitions, Quota: embeddedQuotaPartitions,
			}
		}
	}
	if t.Contract {
		c.Guest = o.Guest
	}
	return s.Connect(ctx, c)
}

// openEmbedded opens the engine of this process.
func (t *Target) openEmbedded(ctx context.Context, s *engine.Session, o Settings) (err error) {
	s.InMemory = t.Dir == ""
	if o.Link != nil && o.Link.Shared != nil {
		s.InProcess, s.Shared = o.Link.Shared, true
		return nil
	}
	if o.MustExist {
		if err := CheckExists(t.Dir); err != nil {
			return err
		}
	}
	library := lualib.Source()
	if t.Contract {
		library = lualib.ContractSource()
	}
	s.InProcess, err = embedded.Open(ctx, embedded.Options{
		Library: library, Dir: t.Dir, Fsync: t.Fsync, Logger: s.Logger,
	})
	return err
}
