package activitycontext

import (
	"context"
	"log/slog"
)

// Logs gives a function its logger. A worker implements it, and in tests a test.
type Logs interface {
	// Logger returns the logger of the attempt.
	Logger() *slog.Logger
}

// LogKind is the kind of frames that contain lines of the log: a JSON array of LogLine. activityspec.CheckName rejects
// it as a name, so functions cannot emit frames of this kind.
const LogKind = "$log"

// LogsFrom returns the Logs of the function that ctx belongs to, and false if ctx has none.
func LogsFrom(ctx context.Context) (Logs, bool) {
	l, ok := ctx.Value(key{}).(Logs)
	return l, ok
}
