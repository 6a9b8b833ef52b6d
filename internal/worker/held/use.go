package held

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/payload"
)

// active returns nil while the program may use the task, else why it ended.
func (h *Task) active(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over != nil:
		return h.over
	case h.current != nil:
		return fmt.Errorf("%w: %s", engine.ErrTaskSettled, h.current.outcome.Kind)
	}
	return context.Cause(h.ctx)
}

// Renew renews the lease at once and counts as a heartbeat.
func (h *Task) Renew(ctx context.Context) error {
	if err := h.active(ctx); err != nil {
		return err
	}
	t := h.task
	now := time.Now()
	t.LastBeat.Store(&now)
	err := t.RetryUntilKnown(ctx, func() error {
		return h.run.Renew(ctx, t)
	})
	if err != nil {
		return err
	}
	return context.Cause(t.Ctx)
}

// Progress records the progress of the task and counts as a heartbeat.
func (h *Task) Progress(ctx context.Context, percent float64, message string) error {
	if err := h.active(ctx); err != nil {
		return err
	}
	t := h.task
	now := time.Now()
	t.LastBeat.Store(&now)
	err := t.RetryUntilKnown(ctx, func() error {
		_, err := t.Run.Session.Backend.UpdateProgress(ctx, enginerpc.UpdateProgressCall{
			ExecutionID: t.Claimed.ExecutionID, LeaseID: t.Claimed.LeaseID, LeaseEpoch: t.Claimed.LeaseEpoch,
			ProgressPct: strconv.FormatFloat(percent, 'f', -1, 64), ProgressMessage: message,
		})
		return err
	})
	return h.settleError(err)
}

// Append adds a frame to the output of the attempt, after all earlier ones.
func (h *Task) Append(ctx context.Context, frame activitycontext.Frame) error {
	if err := h.active(ctx); err != nil {
		return err
	}
	return h.view.Emit(ctx, frame)
}

// ReportUsage counts usage in the budgets of the run.
func (h *Task) ReportUsage(ctx context.Context, usage []activitycontext.Usage, key string) error {
	if err := h.active(ctx); err != nil {
		return err
	}
	return h.view.ReportUsage(ctx, usage, key)
}

// ReportUsageTo adds usage to a budget in all given dimensions, or in none if one would exceed its hard limit. It
// counts once for a key.
func (h *Task) ReportUsageTo(ctx context.Context, id enginecore.BudgetID, usage map[string]int64,
	key string) error {
	if err := h.active(ctx); err != nil {
		return err
	}
	t := h.task
	p, err := t.Run.Core.Partitioning().BudgetPartition(id)
	if err != nil {
		return fmt.Errorf("%w: budget %q: %w", engine.ErrInvalid, id, err)
	}
	call := enginerpc.ReportUsageAndCheckCall{
		Partition: p, BudgetID: id,
		DedupKey: t.Run.Core.Keys().BudgetDedup(p, string(t.Claimed.ExecutionID)+"/"+key),
	}
	for _, name := range slices.Sorted(maps.Keys(usage)) {
		call.Dims = append(call.Dims, enginerpc.ReportUsageAndCheckDim{Name: name, Delta: usage[name]})
	}
	var reply enginerpc.ReportUsageAndCheckReply
	err = t.RetryUntilKnown(ctx, func() (err error) {
		if call.Now, err = t.Run.Core.Now(ctx); err == nil {
			reply, err = t.Run.Core.ReportUsageAndCheck(ctx, call)
		}
		return err
	})
	if err != nil {
		return err
	}
	if reply.Status == enginerpc.StatusHardBreach {
		limit, _ := strconv.ParseInt(string(reply.Limit), 10, 64)
		return &activity.BudgetError{
			Budget: string(id), Dimension: reply.Dimension, Asked: usage[reply.Dimension], Spent: reply.Current,
			Hard: limit,
		}
	}
	return nil
}

// ResumeSignals returns the signals that ended the last wait of the attempt, in the order of the names that the wait
// required; none if the attempt has not waited, or its wait was ended in another way.
func (h *Task) ResumeSignals(ctx context.Context) ([]activity.Signal[json.RawMessage], error) {
	if err := h.active(ctx); err != nil {
		return nil, err
	}
	var signals []activity.Signal[json.RawMessage]
	err := h.task.RetryUntilKnown(ctx, func() (err error) {
		signals, err = h.readSignals(ctx)
		return err
	})
	return signals, err
}

func (h *Task) readSignals(ctx context.Context) ([]activity.Signal[json.RawMessage], error) {
	c, keys, client := h.task.Claimed, h.task.Run.Core.Keys(), h.task.Run.Session.Client
	p := h.task.Shard.Partition
	wait, err := readHash(ctx, client, keys.ExecSuspension(c.ExecutionID))
	if err != nil || wait["close_reason"] != "resumed" || wait["waitpoint_id"] == "" ||
		wait["attempt_index"] != strconv.FormatInt(int64(c.AttemptIndex), 10) {
		return nil, err
	}
	condition, err := readHash(ctx, client, keys.WaitpointCondition(p, enginecore.WaitpointID(wait["waitpoint_id"])))
	if err != nil {
		return nil, err
	}
	total, _ := strconv.Atoi(condition["total_matchers"])
	var signals []activity.Signal[json.RawMessage]
	for i := range total {
		matcher := "matcher:" + strconv.Itoa(i) + ":"
		id := enginecore.SignalID(condition[matcher+"signal_id"])
		if condition[matcher+"satisfied"] != "1" || id == "" {
			continue
		}
		signal, err := readHash(ctx, client, keys.SignalRecord(p, id))
		if err != nil {
			return nil, err
		}
		value, err := client.Do(ctx, client.B().Get().Key(keys.SignalPayload(p, id)).Build()).AsBytes()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, engine.ReadError(ctx, "GET", err)
		}
		if value, err = h.task.Run.Core.Opened(payload.Signal, string(c.ExecutionID), value); err != nil {
			return nil, err
		}
		if len(signal) == 0 {
			continue
		}
		at, _ := strconv.ParseInt(signal["accepted_at"], 10, 64)
		signals = append(signals, activity.Signal[json.RawMessage]{
			ID: string(id), Name: signal["signal_name"], Category: signal["signal_category"],
			SourceType: signal["source_type"], CorrelationID: signal["correlation_id"],
			Source:  signal["source_identity"],
			Payload: value, At: at,
		})
	}
	return signals, nil
}

func readHash(ctx context.Context, client rueidis.Client, key string) (map[string]string, error) {
	fields, err := client.Do(ctx, client.B().Hgetall().Key(key).Build()).AsStrMap()
	if err != nil && !errors.Is(err, rueidis.Nil) {
		return nil, engine.ReadError(ctx, "HGETALL", err)
	}
	return fields, nil
}
