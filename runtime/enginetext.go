package runtime

// Subjects of a pause, as the engine names them.
const (
	pausedLane     = "lane"
	pausedActivity = "kind"
)
