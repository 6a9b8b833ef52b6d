package engine

// Kinds of [enginerpc.CancelMessage], by which a worker is told to stop an execution.
const (
	// StopCancelled: it was cancelled, or skipped; the reason is a text of whoever did it.
	StopCancelled = "cancelled"
	// StopExpired: its time is up; the reason says which.
	StopExpired = "expired"
	// StopRevoked: an operator has taken the lease away.
	StopRevoked = "revoked"
)
