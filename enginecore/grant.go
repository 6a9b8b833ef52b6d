package enginecore

import (
	"errors"
	"time"
)

// ErrNoGrant is returned by runtime.Engine.ClaimForWorker when it found no execution that the worker may run.
var ErrNoGrant = errors.New("nothing to grant")

// GrantRequest describes the worker that requests a grant, and its capabilities.
type GrantRequest struct {
	// Lane is the lane to grant from.
	Lane string
	// WorkerID and Instance identify the worker. Only this instance can use the grant.
	WorkerID WorkerID
	Instance WorkerInstanceID
	// Capabilities are those that the worker offers. It is granted only executions that require a subset of them.
	Capabilities []string
	// Activities are the names that the worker has registered; other executions are blocked until another worker
	// requests them. Nil means all activities.
	Activities []string
	// TTL is how long the worker may use the grant: 1 ms to 1 min.
	TTL time.Duration
	// Partition is the tag of the only partition to probe, such as {fp:7}. Empty probes 32 partitions, different ones
	// from call to call. On a server that has all partitions, executions that can start wait in partition 0,
	// whatever their own partition is.
	Partition string
}

// Grant is a time-limited right of one worker instance to claim one execution. After ExpiresAt, the execution may be
// granted to another worker.
type Grant struct {
	ExecutionID ExecutionID
	Lane        LaneID
	WorkerID    WorkerID
	Instance    WorkerInstanceID
	// Key is the key under which the engine stores the grant.
	Key       string
	ExpiresAt time.Time
	// Reclaim reports whether another worker lost the execution. Such a grant is claimed with ff_reclaim_execution,
	// others with ff_claim_execution or, if its reply requires it, with ff_claim_resumed_execution.
	Reclaim bool
}
