// Package findingcode has the codes of the findings of Engine.Inspect. The comment of fabrictype.Finding describes
// them.
package findingcode

// Codes of findings.
const (
	Server            = "server"
	VersionOld        = "version.old"
	Replica           = "server.replica"
	Loading           = "server.loading"
	LogNotRewritten   = "log.not_rewritten"
	PersistenceOff    = "persistence.off"
	Fsync             = "persistence.fsync"
	Eviction          = "eviction.on"
	MemoryFull        = "memory.full"
	MemoryLow         = "memory.low"
	WriteRefused      = "write.refused"
	WriteFailed       = "write.failed"
	ReplicasUnguarded = "replicas.unguarded"
	ReplicasMissing   = "replicas.missing"
	Rights            = "rights.missing"
	NotAllowed        = "look.refused"
	LookFailed        = "look.failed"
	LibraryBuild      = "library.build"
	Keepers           = "keepers"
	KeeperNone        = "keeper.none"
	KeeperLag         = "keeper.lag"
	Workers           = "workers"
	WorkerNone        = "worker.none"
	WorkerTypes       = "worker.types"
	LanePaused        = "lane.paused"
	LaneBlocked       = "lane.blocked"
	InMemory          = "engine.in_memory"
)
