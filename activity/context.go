package activity

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

// ExecutionInfo describes the attempt that a function runs for.
type ExecutionInfo struct {
	Flow        string    // name of the flow
	FlowID      string    // id of the flow in the engine
	RunID       string    // the run's id as its starter gave it
	Node        string    // name of the node
	ExecutionID string    // id of the node's execution in the engine; the same for all attempts
	Attempt     int       // counts from 1
	StartedAt   time.Time // when this attempt was claimed, by the engine's clock
	Deadline    time.Time // when the context ends at the latest; zero without a limit
	// Kind is the name under which the flow stores the activity: its name or an alias. For an execution outside runs,
	// it is the kind that its creator gave it.
	Kind string
	// Lane is the lane from which the execution was claimed.
	Lane string
	// Tags are the tags of the node, or of an execution outside runs, at the time of the claim. The tags of the run are
	// not among them.
	Tags map[string]string
	// AttemptID identifies the attempt, LeaseID the lease that the worker holds. An attempt that continues after a
	// wait, a delay or a release has another lease.
	AttemptID, LeaseID string
	// LeaseEpoch counts the leases of the execution. Each lease has a higher epoch than those before, which makes it
	// the fencing token for other systems: one that has seen an epoch refuses writes with a lower one.
	LeaseEpoch int64
}

// Info describes the attempt that ctx belongs to. It returns false outside a worker.
func Info(ctx context.Context) (ExecutionInfo, bool) {
	e, ok := activitycontext.From(ctx)
	if !ok {
		return ExecutionInfo{}, false
	}
	return ExecutionInfo(e.Info()), true
}

// LeaseHealthy reports whether the worker still holds the lease of the execution. Call it just before an effect that
// must not happen twice; false means that another worker may have taken over, and coincides with or shortly precedes
// the end of ctx. Outside a worker it returns true.
func LeaseHealthy(ctx context.Context) bool {
	e, ok := activitycontext.From(ctx)
	return !ok || e.LeaseHealthy()
}

// Heartbeat reports to the worker that the function is alive. An activity with HeartbeatTimeout must call it at shorter
// intervals. It is cheap and does not wait for the engine. If ctx has ended, it returns the cause, which the function
// should return. Outside a worker it does nothing else.
func Heartbeat(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e, ok := activitycontext.From(ctx)
	if !ok {
		return nil
	}
	return e.Heartbeat(ctx)
}

// Progress records the progress of the function, which Describe and Watch show, and counts as a Heartbeat. percent is
// clamped to 0 to 100, and NaN is an error. The message is truncated to 1,024 bytes. Of the reports within 100 ms
// of each other only the newest is recorded, at the end of that time or of the attempt. Reports that the engine refuses
// are dropped, since a lost report must not fail the function. When ctx has ended it returns the cause. Outside a
// worker it does nothing else.
func Progress(ctx context.Context, percent float64, message string) error {
	if math.IsNaN(percent) {
		return errors.New("progress: percent NaN: must be a number from 0 to 100")
	}
	if err := Heartbeat(ctx); err != nil {
		return err
	}
	e, ok := activitycontext.From(ctx)
	if !ok {
		return nil
	}
	return e.Progress(ctx, min(100, max(0, percent)), activitycontext.Shorten(message))
}

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
