package runtime

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// Severity says how bad a Finding is.
type Severity int

// The severities. The zero value is SeverityInfo.
const (
	// SeverityInfo: worth knowing, nothing to do.
	SeverityInfo Severity = iota
	// SeverityWarning: work can be lost or delayed when something else goes wrong.
	SeverityWarning
	// SeverityError: work is lost or stands still now, or will.
	SeverityError
)

// String is "info", "warning" or "error".
func (s Severity) String() string {
	switch s {
	case SeverityInfo:
		return "info"
	case SeverityWarning:
		return "warning"
	case SeverityError:
		return "error"
	}
	return fmt.Sprintf("Severity(%d)", int(s))
}

// MarshalText implements encoding.TextMarshaler with String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// FindingCode names what was found. Codes are stable.
type FindingCode string

// The codes of findings, with the severity that they have.
const (
	// FindingServer (info) is kind, version and age of a server.
	FindingServer FindingCode = "server"
	// FindingVersionOld (error): the server is older than those that are supported.
	FindingVersionOld FindingCode = "version.old"
	// FindingReplica (error): the server is a replica, which takes no writes.
	FindingReplica FindingCode = "server.replica"
	// FindingLoading (error): the server still loads its data.
	FindingLoading FindingCode = "server.loading"
	// FindingLogNotRewritten (info): the server has not rewritten its log since it started. If it was killed before, half
	// of a call may be in there.
	FindingLogNotRewritten FindingCode = "log.not_rewritten"
	// FindingPersistenceOff (warning, or info with AllowVolatile): nothing, or only snapshots, is written to disk.
	FindingPersistenceOff FindingCode = "persistence.off"
	// FindingFsync (warning for never, info for everysec): what was acknowledged is not on disk at once.
	FindingFsync FindingCode = "persistence.fsync"
	// FindingEviction (error): the server drops keys when its memory is full.
	FindingEviction FindingCode = "eviction.on"
	// FindingMemoryFull (error): the memory limit is reached, and writes are refused.
	FindingMemoryFull FindingCode = "memory.full"
	// FindingMemoryLow (warning): less than a tenth of the memory limit is left.
	FindingMemoryLow FindingCode = "memory.low"
	// FindingWriteRefused (error): the server could not write to disk, and refuses writes for that.
	FindingWriteRefused FindingCode = "write.refused"
	// FindingWriteFailed (warning): a snapshot or a rewrite of the log failed.
	FindingWriteFailed FindingCode = "write.failed"
	// FindingReplicasUnguarded (info): the server takes writes also when all of its replicas are gone.
	FindingReplicasUnguarded FindingCode = "replicas.unguarded"
	// FindingRights (error): the user may not run commands that the library needs, or not on the keys and channels of the prefix.
	FindingRights FindingCode = "rights.missing"
	// FindingNotAllowed (info): the user may not look at something.
	FindingNotAllowed FindingCode = "look.refused"
	// FindingLookFailed (error): a server did not answer.
	FindingLookFailed FindingCode = "look.failed"
	// FindingLibraryBuild (info): the server has another build of the function library than this program.
	FindingLibraryBuild FindingCode = "library.build"
	// FindingKeepers (info) counts the programs with keepers that hear their channel.
	FindingKeepers FindingCode = "keepers"
	// FindingKeeperNone (warning): no keeper hears its channel.
	FindingKeeperNone FindingCode = "keeper.none"
	// FindingKeeperLag (warning): something has been due for a while that a keeper sees to.
	FindingKeeperLag FindingCode = "keeper.lag"
	// FindingWorkers (info) counts the programs whose workers hear a lane.
	FindingWorkers FindingCode = "workers"
	// FindingWorkerNone (warning): work waits on a lane, and no worker hears it.
	FindingWorkerNone FindingCode = "worker.none"
	// FindingInMemory (info): the engine is in this process and kept nowhere else.
	FindingInMemory FindingCode = "engine.in_memory"
)

// Finding is one thing that Engine.Inspect has found.
type Finding struct {
	Code     FindingCode `json:"code"`
	Severity Severity    `json:"severity"`
	// Subject is what it is about: the address of a server, a lane, "keepers" or "embedded".
	Subject string `json:"subject"`
	// Found is what there is, with its values.
	Found string `json:"found"`
	// Remedy is what to do: a command or a setting. Empty when there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// String is "code: subject: what was found (remedy)".
func (f Finding) String() string {
	text := fmt.Sprintf("%s: %s: %s", f.Code, f.Subject, f.Found)
	if f.Remedy != "" {
		text += " (" + f.Remedy + ")"
	}
	return text
}

// Inspection is what Engine.Inspect has found, the worst first.
type Inspection struct{ Findings []Finding }

// AtLeast are the findings of a severity or a worse one.
func (i Inspection) AtLeast(s Severity) []Finding {
	var list []Finding
	for _, f := range i.Findings {
		if f.Severity >= s {
			list = append(list, f)
		}
	}
	return list
}

// Worst is the worst severity; SeverityInfo when nothing was found.
func (i Inspection) Worst() (worst Severity) {
	for _, f := range i.Findings {
		worst = max(worst, f.Severity)
	}
	return worst
}

// add appends a finding.
func (i *Inspection) add(code FindingCode, severity Severity, subject, found, remedy string) {
	i.Findings = append(i.Findings, Finding{code, severity, subject, found, remedy})
}

// sort puts the worst first, and otherwise keeps the order in which things were looked at.
func (i *Inspection) sort() {
	slices.SortStableFunc(i.Findings, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
}

// texts are findings as log records and errors have them.
func texts(findings []Finding) []string {
	list := make([]string, len(findings))
	for i, f := range findings {
		list[i] = f.String()
	}
	return list
}

// refusesWork are the findings for which an engine is not ready.
func (i Inspection) refusesWork(volatile bool) error {
	var list []Finding
	reason := engine.ErrNotReady
	for _, f := range i.Findings {
		switch f.Code {
		case FindingMemoryFull, FindingWriteRefused:
			list, reason = append(list, f), errFullEngine
		case FindingEviction, FindingReplica:
			list = append(list, f)
		case FindingPersistenceOff:
			if !volatile {
				list = append(list, f)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", reason, strings.Join(texts(list), "; "))
}

// errFullEngine is why an engine that refuses writes is not ready.
var errFullEngine = fmt.Errorf("%w: %w", engine.ErrNotReady, enginecore.ErrFull)
