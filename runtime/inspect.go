package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/lua"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// warnWithin bounds what Open spends on looking at the servers' settings.
const warnWithin = time.Second

// Inspect looks at everything around the engine that can lose work, delay it or stop it: the servers' persistence, eviction,
// memory, last writes, replicas and versions, the rights of the user, the function library, keepers and how late they are, and
// the workers of lanes on which work waits. It changes nothing. What the user may not look at is left out, and says so. The
// error tells that the engine cannot be used at all; servers that do not answer are findings.
func (e *Engine) Inspect(ctx context.Context) (Inspection, error) {
	if err := e.open(); err != nil {
		return Inspection{}, err
	}
	var i Inspection
	x := inspector{e.session}
	if x.InProcess != nil {
		x.inspectEmbedded(ctx, &i)
	} else {
		x.inspectServers(ctx, &i, true)
		x.inspectRights(ctx, &i)
		x.inspectLibrary(ctx, &i)
	}
	x.inspectKeepers(ctx, &i)
	x.inspectLag(ctx, &i)
	x.inspectWorkers(ctx, &i)
	i.sort()
	return i, ctx.Err()
}

// inspector finds out what can lose work of an engine, delay it or stop it.
type inspector struct{ *engine.Session }

// warn logs what is wrong with the servers' settings. It costs one round trip, and fails in silence.
func (x inspector) warn(ctx context.Context) {
	if x.InProcess != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warnWithin)
	defer cancel()
	var i Inspection
	x.inspectServers(ctx, &i, true)
	i.sort()
	bad := slices.DeleteFunc(i.AtLeast(SeverityWarning), func(f Finding) bool { return f.Code == FindingLookFailed })
	if len(bad) > 0 {
		x.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the server is set up so that work can be lost or stand still",
			engine.EventServerMisconfigured.Attr(), slog.Any("findings", texts(bad)))
	}
}

// ready reports whether the engine takes work and keeps it.
func (x inspector) ready(ctx context.Context) error {
	if x.InProcess != nil {
		return nil
	}
	var i Inspection
	x.inspectServers(ctx, &i, false)
	return i.refusesWork(x.Volatile)
}

// embeddedHealth is why an engine in this process refuses calls, nil when it does not.
func embeddedHealth(engine_ *embedded.Engine) error {
	if err := engine_.Err(); err != nil {
		return fmt.Errorf("%w: %w", engine.ErrNotReady, err)
	}
	return nil
}

func (x inspector) inspectEmbedded(ctx context.Context, i *Inspection) {
	const subject = "embedded"
	if err := embeddedHealth(x.InProcess); err != nil {
		i.add(FindingWriteRefused, SeverityError, subject, err.Error(), "make room, or mend the disk: the engine goes on by itself")
	}
	if x.InMemory {
		i.add(FindingInMemory, SeverityInfo, subject, "nothing outlives this process", "name a directory: embedded:DIR")
		return
	}
	facts := look(ctx, x.Client, true)
	judgeFsync(i, subject, facts, "open it with ?fsync=always")
}

// inspectServers looks at all primaries. `settings`: also at what only CONFIG tells.
func (x inspector) inspectServers(ctx context.Context, i *Inspection, settings bool) {
	nodes := x.Client.Nodes()
	addresses := slices.Sorted(maps.Keys(nodes))
	facts := make([]serverFacts, len(addresses))
	var looking sync.WaitGroup
	for at, address := range addresses {
		looking.Go(func() { facts[at] = look(ctx, nodes[address], settings) })
	}
	looking.Wait()
	for at, address := range addresses {
		if len(addresses) > 1 && facts[at].info["role"] == "slave" {
			continue // its primary is looked at
		}
		judge(i, address, facts[at], x.Volatile)
	}
}

// inspectRights finds out which rights on commands, keys and channels the user lacks.
func (x inspector) inspectRights(ctx context.Context, i *Inspection) {
	var lacking *enginecore.RightsError
	if err := x.Core.CheckRights(ctx); errors.As(err, &lacking) {
		i.add(FindingRights, SeverityError, "user", "it may not run "+strings.Join(lacking.Missing, ", "),
			"ACL SETUSER <user> "+strings.Join(lacking.Rules, " "))
	}
}

// inspectLibrary compares the builds of the function library.
func (x inspector) inspectLibrary(ctx context.Context, i *Inspection) {
	library, missing := engine.Capability[engine.CompositeLibrary](x.Backend)
	if missing != nil {
		return
	}
	switch reply, err := library.Version(ctx, enginerpc.VersionCall{}); {
	case err != nil:
		i.add(FindingLookFailed, SeverityError, "library", err.Error(), "")
	case reply.Build != lua.Build():
		i.add(FindingLibraryBuild, SeverityInfo, "library", fmt.Sprintf("the server has build %s, this program build %s", reply.Build, lua.Build()), "")
	}
}

// serverFacts are what a server tells of itself. What it may not be asked is named in forbidden.
type serverFacts struct {
	info, settings map[string]string
	forbidden      []string
	err            error
}

// look asks a server, in one round trip.
func look(ctx context.Context, node rueidis.Client, settings bool) serverFacts {
	facts := serverFacts{info: map[string]string{}, settings: map[string]string{}}
	questions := rueidis.Commands{node.B().Info().Section("server", "memory", "persistence", "replication").Build()}
	if settings {
		questions = append(questions, node.B().ConfigGet().Parameter("appendfsync", "save", "stop-writes-on-bgsave-error", "min-replicas-to-write").Build())
	}
	answers := node.DoMulti(ctx, questions...)
	switch text, err := answers[0].ToString(); {
	case forbidden(err):
		facts.forbidden = append(facts.forbidden, "INFO")
	case err != nil:
		facts.err = err
	default:
		for line := range strings.Lines(text) {
			if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
				facts.info[name] = value
			}
		}
	}
	if settings {
		if values, err := answers[1].AsStrMap(); err == nil {
			facts.settings = values
		} else if forbidden(err) {
			facts.forbidden = append(facts.forbidden, "CONFIG GET")
		}
	}
	return facts
}

// forbidden tells that a server does not let the user do something, or does not know it, as some that others run.
func forbidden(err error) bool {
	var refusal *rueidis.RedisError
	if !errors.As(err, &refusal) {
		return false
	}
	text := refusal.Error()
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "unknown command") || strings.Contains(text, "ermission")
}

// number reads a number that a server told.
func (f serverFacts) number(name string) int64 {
	n, _ := strconv.ParseInt(f.info[name], 10, 64) // one that is missing is 0
	return n
}
