package engine

// Subjects of a pause, as the engine names them.
const (
	PausedLane     = "lane"
	PausedActivity = "kind"
)
