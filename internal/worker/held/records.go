package held

import (
	"context"
	"log/slog"
)

// Log stores a line with the attempt, like the lines of activity.Logger, but does not pass it to the logger of the
// program.
func (h *Task) Log(ctx context.Context, line slog.Record) error {
	if err := h.active(ctx); err != nil {
		return err
	}
	store := h.task.Output.LineStore()
	if store == nil || !store.Enabled(ctx, line.Level) {
		return nil
	}
	return store.Handle(ctx, line)
}

// RecordedStep returns the recorded result of a step, and whether there is one.
func (h *Task) RecordedStep(step string) ([]byte, bool) { return h.view.Recorded(step) }

// RecordStep records the result of a step unless there is one already, and returns the recorded one.
func (h *Task) RecordStep(ctx context.Context, step string, result []byte) ([]byte, error) {
	if err := h.active(ctx); err != nil {
		return nil, err
	}
	if recorded, done := h.view.Recorded(step); done {
		return recorded, nil
	}
	return h.view.Record(ctx, step, result)
}
