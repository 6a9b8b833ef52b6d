package engine

// Kinds of [enginerpc.CancelMessage], which orders a worker to stop an execution.
const (
	// StopCancelled: it was cancelled, or skipped; the reason is the text of the caller.
	StopCancelled = "cancelled"
	// StopExpired: a time limit has passed; the reason names it.
	StopExpired = "expired"
	// StopRevoked: an operator has taken the lease away.
	StopRevoked = "revoked"
)
