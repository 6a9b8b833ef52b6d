package inspect

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
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/findingcode"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// warnWithin bounds how long Warn waits for the servers.
const warnWithin = time.Second

// inspector inspects the surroundings of one engine.
type inspector struct{ *engine.Session }

// Engine inspects everything around the engine of a session that can lose, delay or stop work. The error is the cause
// of ctx, or wraps enginecore.ErrNotReachable if no server answers; single servers that do not answer are findings.
func Engine(ctx context.Context, s *engine.Session) (fabrictype.Inspection, error) {
	var found findings
	x := inspector{s}
	if x.InProcess != nil {
		x.inspectEmbedded(ctx, &found)
	} else {
		if err := x.inspectServers(ctx, &found, true); err != nil {
			return found.report(), err
		}
		x.inspectRights(ctx, &found)
		x.inspectLibrary(ctx, &found)
	}
	x.inspectKeepers(ctx, &found)
	x.inspectLag(ctx, &found)
	x.inspectLanes(ctx, &found)
	x.inspectTypes(ctx, &found)
	if ctx.Err() != nil {
		return found.report(), fmt.Errorf("inspect: %w", context.Cause(ctx))
	}
	return found.report(), nil
}

// Warn logs settings of the servers that can lose or stop work. It costs one round trip and logs nothing if that fails.
func Warn(ctx context.Context, s *engine.Session) {
	if s.InProcess != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warnWithin)
	defer cancel()
	var found findings
	_ = inspector{s}.inspectServers(ctx, &found, true) // checks that cannot be made are left out
	bad := slices.DeleteFunc(found.report().AtLeast(fabrictype.SeverityWarning), func(f fabrictype.Finding) bool {
		return f.Code == findingcode.LookFailed
	})
	if len(bad) > 0 {
		s.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: with its settings the server can lose work or stall",
			observe.EventServerMisconfigured.Attr(), slog.Any("findings", texts(bad)))
	}
}

// Ready reports whether the servers of a session accept work and keep it. The error matches observe.ErrNotReady. An
// engine in this process is always ready here; Embedded returns its state.
func Ready(ctx context.Context, s *engine.Session) error {
	if s.InProcess != nil {
		return nil
	}
	var found findings
	_ = inspector{s}.inspectServers(ctx, &found, false) // the check of the library reports its error
	return found.refusal(s.Volatile)
}

// Embedded returns why an engine in this process refuses calls; nil if it does not. The error matches
// observe.ErrNotReady.
func Embedded(e *embedded.Engine) error {
	if err := e.Err(); err != nil {
		return fmt.Errorf("%w: %w", observe.ErrNotReady, err)
	}
	return nil
}

func (x inspector) inspectEmbedded(ctx context.Context, i *findings) {
	const subject = "embedded"
	if err := Embedded(x.InProcess); err != nil {
		i.add(findingcode.WriteRefused, fabrictype.SeverityError, subject,
			err.Error(), "make room, or mend the disk: the engine goes on by itself")
	}
	if x.InMemory {
		i.add(findingcode.InMemory, fabrictype.SeverityInfo, subject,
			"nothing outlives this process", "name a directory: embedded:DIR")
		return
	}
	facts := look(ctx, x.Client, true)
	judgeFsync(i, subject, facts, "open it with ?fsync=always")
}

// inspectServers checks all primaries; with settings, also the values that only CONFIG returns. The error is the cause
// of ctx, or wraps enginecore.ErrNotReachable if none answers.
func (x inspector) inspectServers(ctx context.Context, i *findings, settings bool) error {
	nodes := x.Client.Nodes()
	addresses := slices.Sorted(maps.Keys(nodes))
	facts := make([]serverFacts, len(addresses))
	var looking sync.WaitGroup
	for at, address := range addresses {
		looking.Go(func() { facts[at] = look(ctx, nodes[address], settings) })
	}
	looking.Wait()
	answered, unreachable := false, error(nil)
	for at, address := range addresses {
		if len(addresses) > 1 && facts[at].info["role"] == "slave" {
			continue // its primary is checked
		}
		judge(i, address, facts[at], x.Volatile, x.Replicas)
		if _, refused := rueidis.IsRedisErr(facts[at].err); refused || facts[at].err == nil {
			answered = true
		} else if ended := enginerpc.Unanswered(ctx, facts[at].err); ended != nil {
			return fmt.Errorf("inspect: %w", ended)
		} else {
			unreachable = fmt.Errorf("inspect: server %s: %w", address, enginerpc.ConnectError(facts[at].err))
		}
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("inspect: %w", context.Cause(ctx))
	case answered:
		return nil
	}
	return unreachable
}

// inspectRights finds out which rights on commands, keys and channels the user lacks.
func (x inspector) inspectRights(ctx context.Context, i *findings) {
	var lacking *enginecore.RightsError
	if err := x.Core.CheckRights(ctx); errors.As(err, &lacking) {
		i.add(findingcode.Rights, fabrictype.SeverityError, "user", "it may not run "+strings.Join(
			lacking.Missing, ", ",
		),
			"ACL SETUSER <user> "+strings.Join(lacking.Rules, " "))
	}
}

// inspectLibrary compares the builds of the function library.
func (x inspector) inspectLibrary(ctx context.Context, i *findings) {
	library, missing := x.Library("the version of the library")
	if missing != nil {
		return
	}
	switch reply, err := library.Version(ctx, enginerpc.VersionCall{}); {
	case err != nil:
		i.add(findingcode.LookFailed, fabrictype.SeverityError, "library", err.Error(), "")
	case reply.Build != lualib.Build():
		i.add(findingcode.LibraryBuild, fabrictype.SeverityInfo, "library",
			fmt.Sprintf("the server has build %s, this program build %s", reply.Build, lualib.Build()), "")
	}
}

// serverFacts are the values that a server reports about itself. forbidden names the commands that the user may not
// call.
type serverFacts struct {
	info, settings map[string]string
	forbidden      []string
	err            error
}

// look reads the facts of a server, in one round trip.
func look(ctx context.Context, node rueidis.Client, settings bool) serverFacts {
	facts := serverFacts{info: map[string]string{}, settings: map[string]string{}}
	questions := rueidis.Commands{node.B().Info().Section("server", "memory", "persistence", "replication").Build()}
	if settings {
		questions = append(questions, node.B().ConfigGet().
			Parameter("appendfsync", "save", "stop-writes-on-bgsave-error", "min-replicas-to-write").Build())
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

// forbidden reports whether an error means that the user may not call a command, or that the server does not have it,
// as with some managed services.
func forbidden(err error) bool {
	var refusal *rueidis.RedisError
	if !errors.As(err, &refusal) {
		return false
	}
	text := refusal.Error()
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "unknown command") ||
		strings.Contains(text, "ermission")
}

// number returns a value of the server as a number.
func (f serverFacts) number(name string) int64 {
	n, _ := strconv.ParseInt(f.info[name], 10, 64) // one that is missing is 0
	return n
}

// replicasOnline returns the number of replicas that have finished their first synchronization.
func (f serverFacts) replicasOnline() int {
	online := 0
	for i := range f.number("connected_slaves") {
		if strings.Contains(f.info[fmt.Sprintf("slave%d", i)], "state=online") {
			online++
		}
	}
	return online
}
