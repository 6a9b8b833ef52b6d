package activity

import (
	"context"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

// Logger returns a logger for the attempt that ctx belongs to. Its lines go to the logger of the program, with flow,
// run, node and attempt, and are stored with the attempt: RunRef.Logs of package runtime reads it while the attempt
// runs and afterwards, until the run is purged.
//
// The worker stores lines in batches, and all of them before it reports the attempt's end. Logging does not wait for
// the engine, and a line that cannot be stored fails nothing. WorkerConfig.Logs bounds the stored lines. Outside a
// worker Logger returns slog.Default.
func Logger(ctx context.Context) *slog.Logger {
	if l, ok := activitycontext.LogsFrom(ctx); ok {
		return l.Logger()
	}
	return slog.Default()
}
