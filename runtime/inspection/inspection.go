package inspection

import (
	"fmt"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Severity says how bad a Finding is.
type Severity int

// The severities. The zero value is Info.
const (
	// Info: worth knowing, nothing to do.
	Info fabrictype.Severity = iota
	// Warning: work can be lost or delayed when something else goes wrong.
	Warning
	// Error: work is lost or stands still now, or will.
	Error
)

// String is "info", "warning" or "error".
func (s fabrictype.Severity) String() string {
	switch s {
	case fabrictype.SeverityInfo:
		return "info"
	case fabrictype.SeverityWarning:
		return "warning"
	case fabrictype.SeverityError:
		return "error"
	}
	return fmt.Sprintf("Severity(%d)", int(s))
}

// MarshalText implements encoding.TextMarshaler with String.
func (s fabrictype.Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler for the texts of MarshalText, so that clients of the HTTP API can
// read findings.
func (s *fabrictype.Severity) UnmarshalText(text []byte) error {
	for _, known := range []fabrictype.Severity{fabrictype.SeverityInfo, fabrictype.SeverityWarning, fabrictype.SeverityError} {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("severity %.40q: must be info, warning or error", text)
}

// Code names what was found. Codes are stable.
type Code string

// The codes of findings, with the severity that they have.
const (
	// Server (info) is kind, version and age of a server.
	Server fabrictype.FindingCode = "server"
	// VersionOld (error): the server is older than those that are supported.
	VersionOld fabrictype.FindingCode = "version.old"
	// Replica (error): the server is a replica, which takes no writes.
	Replica fabrictype.FindingCode = "server.replica"
	// Loading (error): the server still loads its data.
	Loading fabrictype.FindingCode = "server.loading"
	// LogNotRewritten (info): the server has not rewritten its log since it started. If it was killed before, half
	// of a call may be in there.
	LogNotRewritten fabrictype.FindingCode = "log.not_rewritten"
	// PersistenceOff (warning, or info with AllowVolatile): nothing, or only snapshots, is written to disk.
	PersistenceOff fabrictype.FindingCode = "persistence.off"
	// Fsync (warning for never, info for everysec): what was acknowledged is not on disk at once.
	Fsync fabrictype.FindingCode = "persistence.fsync"
	// Eviction (error): the server drops keys when its memory is full.
	Eviction fabrictype.FindingCode = "eviction.on"
	// MemoryFull (error): the memory limit is reached, and writes are refused.
	MemoryFull fabrictype.FindingCode = "memory.full"
	// MemoryLow (warning): less than a tenth of the memory limit is left.
	MemoryLow fabrictype.FindingCode = "memory.low"
	// WriteRefused (error): the server could not write to disk, and refuses writes for that.
	WriteRefused fabrictype.FindingCode = "write.refused"
	// WriteFailed (warning): a snapshot or a rewrite of the log failed.
	WriteFailed fabrictype.FindingCode = "write.failed"
	// ReplicasUnguarded (info): the server takes writes also when all of its replicas are gone.
	ReplicasUnguarded fabrictype.FindingCode = "replicas.unguarded"
	// ReplicasMissing (warning): the primary has fewer replicas than runtime.Replication asks for, so calls fail with
	// enginecore.ErrNotReplicated.
	ReplicasMissing fabrictype.FindingCode = "replicas.missing"
	// Rights (error): the user may not run commands that the library needs, or not on the keys and channels of the
	// prefix.
	Rights fabrictype.FindingCode = "rights.missing"
	// NotAllowed (info): the user may not look at something.
	NotAllowed fabrictype.FindingCode = "look.refused"
	// LookFailed (error): a server did not answer.
	LookFailed fabrictype.FindingCode = "look.failed"
	// LibraryBuild (info): the server has another build of the function library than this program.
	LibraryBuild fabrictype.FindingCode = "library.build"
	// Keepers (info) counts the programs with keepers that hear their channel.
	Keepers fabrictype.FindingCode = "keepers"
	// KeeperNone (warning): no keeper hears its channel.
	KeeperNone fabrictype.FindingCode = "keeper.none"
	// KeeperLag (warning): something has been due for a while that a keeper sees to.
	KeeperLag fabrictype.FindingCode = "keeper.lag"
	// Workers (info) counts the programs whose workers hear a lane.
	Workers fabrictype.FindingCode = "workers"
	// WorkerNone (warning): work waits on a lane, and no worker hears it, or all that do drain.
	WorkerNone fabrictype.FindingCode = "worker.none"
	// InMemory (info): the engine is in this process and kept nowhere else.
	InMemory fabrictype.FindingCode = "engine.in_memory"
)

// Finding is one thing that Engine.Inspect has found.
type Finding struct {
	Code     fabrictype.FindingCode `json:"code"`
	Severity fabrictype.Severity    `json:"severity"`
	// Subject is what it is about: the address of a server, a lane, "keepers" or "embedded".
	Subject string `json:"subject"`
	// Found is what there is, with its values.
	Found string `json:"found"`
	// Remedy is what to do: a command or a setting. Empty when there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// String is "code: subject: what was found (remedy)".
func (f fabrictype.Finding) String() string {
	text := fmt.Sprintf("%s: %s: %s", f.Code, f.Subject, f.Found)
	if f.Remedy != "" {
		text += " (" + f.Remedy + ")"
	}
	return text
}

// Report is what Engine.Inspect has found, the worst first.
type Report struct{ Findings []fabrictype.Finding }

// AtLeast are the findings of a severity or a worse one.
func (i fabrictype.Inspection) AtLeast(s fabrictype.Severity) []fabrictype.Finding {
	var list []fabrictype.Finding
	for _, f := range i.Findings {
		if f.Severity >= s {
			list = append(list, f)
		}
	}
	return list
}

// Worst is the worst severity; Info when nothing was found.
func (i fabrictype.Inspection) Worst() (worst fabrictype.Severity) {
	for _, f := range i.Findings {
		worst = max(worst, f.Severity)
	}
	return worst
}
