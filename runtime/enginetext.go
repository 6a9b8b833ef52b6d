package runtime

// Policies of ffx_cancel_flow.
const (
	cancelAll     = "cancel_all"
	cancelPending = "cancel_pending"
)

// Subjects of a pause, as the engine names them.
const (
	pausedLane     = "lane"
	pausedActivity = "kind"
)
