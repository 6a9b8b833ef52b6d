// Package findingcode has the codes of the findings of Engine.Inspect. The comment of fabrictype.FindingCode describes
// them.
package findingcode

import "github.com/flowfabric/flowfabric-go/fabrictype"

// Codes of findings.
const (
	Server            fabrictype.FindingCode = "server"
	VersionOld        fabrictype.FindingCode = "version.old"
	Replica           fabrictype.FindingCode = "server.replica"
	Loading           fabrictype.FindingCode = "server.loading"
	LogNotRewritten   fabrictype.FindingCode = "log.not_rewritten"
	PersistenceOff    fabrictype.FindingCode = "persistence.off"
	Fsync             fabrictype.FindingCode = "persistence.fsync"
	Eviction          fabrictype.FindingCode = "eviction.on"
	MemoryFull        fabrictype.FindingCode = "memory.full"
	MemoryLow         fabrictype.FindingCode = "memory.low"
	WriteRefused      fabrictype.FindingCode = "write.refused"
	WriteFailed       fabrictype.FindingCode = "write.failed"
	ReplicasUnguarded fabrictype.FindingCode = "replicas.unguarded"
	ReplicasMissing   fabrictype.FindingCode = "replicas.missing"
	Rights            fabrictype.FindingCode = "rights.missing"
	NotAllowed        fabrictype.FindingCode = "look.refused"
	LookFailed        fabrictype.FindingCode = "look.failed"
	LibraryBuild      fabrictype.FindingCode = "library.build"
	Keepers           fabrictype.FindingCode = "keepers"
	KeeperNone        fabrictype.FindingCode = "keeper.none"
	KeeperLag         fabrictype.FindingCode = "keeper.lag"
	Workers           fabrictype.FindingCode = "workers"
	WorkerNone        fabrictype.FindingCode = "worker.none"
	InMemory          fabrictype.FindingCode = "engine.in_memory"
)
