package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Log stores a line of the log with the attempt, where RunRef.Logs reads it, within the bounds of WorkerConfig.Logs.
// Unlike activity.Logger it does not pass the line on to the logger of this program: it is for lines of another
// process. It does not wait for the engine, and a line that cannot be stored fails nothing. The error is one of those
// that end a task.
func (t *Task) Log(ctx context.Context, line slog.Record) error {
	if err := t.made(); err != nil {
		return err
	}
	return t.wrap("log of", t.held.Log(ctx, line))
}

// RecordedStep returns the result of a step that this attempt or an earlier one has recorded: by RecordStep, or by the
// first activity.Step with that name. It does not call the engine. The name follows the rule of package activity;
// otherwise the error matches ErrInvalid.
func (t *Task) RecordedStep(name string) (result json.RawMessage, recorded bool, err error) {
	if err := t.made(); err != nil {
		return nil, false, err
	}
	if err := checkStep(name); err != nil {
		return nil, false, t.wrap("read a step of", err)
	}
	result, recorded = t.held.RecordedStep(name)
	return result, recorded, t.wrap("read a step of", nil)
}

// RecordStep records the result of a step, JSON of at most 1 MiB, unless there is one: it returns the
// one that was recorded first. So it is safe to repeat. The record is fenced: without the lease it is refused with
// ErrLeaseLost. Other errors match ErrInvalid for a name or a result that cannot be, ErrTooLarge, or ErrNotInContract.
func (t *Task) RecordStep(ctx context.Context, name string, result json.RawMessage) (first json.RawMessage, err error) {
	if err := t.made(); err != nil {
		return nil, err
	}
	err = checkStep(name)
	switch {
	case err != nil:
	case len(result) > activityspec.MaxStep:
		err = fmt.Errorf("%w: the result of step %s has %d bytes, at most %d are allowed", ErrTooLarge, name,
			len(result), activityspec.MaxStep)
	default:
		if err = activityspec.CheckJSON(result); err != nil {
			err = invalid("the result of step %s: %w", name, err)
			break
		}
		first, err = t.held.RecordStep(ctx, name, result)
	}
	return first, t.wrap("record a step of", err)
}

func checkStep(name string) error {
	if err := activityspec.CheckName(name); err != nil {
		return invalid("step: %w", err)
	}
	return nil
}
