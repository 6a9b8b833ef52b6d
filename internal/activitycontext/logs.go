package activitycontext

import (
	"context"
	"log/slog"
)

// Logs is the interface of a worker, or of a test in its place, for what a function logs.
type Logs interface {
	// Logger returns the logger of the attempt.
	Logger() *slog.Logger
}

// LogKind is the kind of frames that have lines of the log: a JSON array of LogLine. It is no name by
// activityspec.CheckName, so no function emits one.
const LogKind = "$log"

// LogsFrom returns what logs for the function that ctx belongs to, and false where nothing does.
func LogsFrom(ctx context.Context) (Logs, bool) {
	l, ok := ctx.Value(key{}).(Logs)
	return l, ok
}
