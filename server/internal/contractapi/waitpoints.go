package contractapi

import (
	"net/http"
	"time"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

func (c *call) waitpoints() ([]admin.Waitpoint, error) {
	id, err := c.execution()
	if err != nil {
		return nil, err
	}
	return c.operator.Waitpoints(c.ctx, id)
}

func listWaitpoints(c *call) error {
	open, err := c.waitpoints()
	if err != nil {
		return err
	}
	list := []fields{}
	for _, w := range open {
		entry := fields{
			"waitpoint_id": w.ID, "waitpoint_key": w.Key, "state": w.State, "waitpoint_token": w.Token,
			"required_signal_names": append([]string{}, w.Signals...), "created_at": int64(0),
		}
		c.set(entry, "created_at", w.CreatedAt)
		c.set(entry, "activated_at", w.ActivatedAt)
		c.set(entry, "expires_at", w.ExpiresAt)
		list = append(list, entry)
	}
	return c.reply(http.StatusOK, list)
}

func getWaitpointToken(c *call) error {
	id, err := enginecore.ParseWaitpointID(c.r.PathValue("waitpoint"))
	if err != nil {
		return invalid("invalid waitpoint_id: %v", err)
	}
	open, err := c.waitpoints()
	if err != nil {
		return err
	}
	for _, w := range open {
		if w.ID == id {
			return c.reply(http.StatusOK, fields{"waitpoint_id": id, "waitpoint_token": w.Token})
		}
	}
	return missing("waitpoint not found: %s", id)
}

// Bounds of signals unless a request has others.
const (
	maxSignals   = 1000
	signalMaxlen = 10000
)

func deliverSignal(c *call) error {
	id, err := c.execution()
	if err != nil {
		return err
	}
	var b struct {
		ExecutionID    executionID `json:"execution_id"`
		WaitpointID    uuidText    `json:"waitpoint_id"`
		SignalID       uuidText    `json:"signal_id"`
		SignalName     string      `json:"signal_name"`
		SignalCategory string      `json:"signal_category"`
		SourceType     string      `json:"source_type"`
		SourceIdentity string      `json:"source_identity"`
		Payload        octets      `json:"payload"`
		Encoding       string      `json:"payload_encoding"`
		CorrelationID  string      `json:"correlation_id"`
		IdempotencyKey string      `json:"idempotency_key"`
		TargetScope    string      `json:"target_scope"`
		CreatedAt      *millis     `json:"created_at"`
		DedupTTL       *int64      `json:"dedup_ttl_ms"`
		ResumeDelay    int64       `json:"resume_delay_ms"`
		MaxSignals     *int64      `json:"max_signals_per_execution"`
		Maxlen         *int64      `json:"signal_maxlen"`
		Token          string      `json:"waitpoint_token"`
		Now            *millis     `json:"now"`
	}
	if err := c.decode(&b, "execution_id", "waitpoint_id", "signal_id", "signal_name", "waitpoint_token"); err != nil {
		return err
	}
	if err := same("execution_id", string(id), string(b.ExecutionID)); err != nil {
		return err
	}
	or := func(given *int64, absent int64) int64 {
		if given == nil {
			return absent
		}
		return *given
	}
	created := b.CreatedAt
	if created == nil {
		created = b.Now
	}
	signal := enginerpc.Signal{
		SignalID: enginecore.SignalID(b.SignalID), ExecutionID: id, WaitpointID: enginecore.WaitpointID(b.WaitpointID),
		SignalName: b.SignalName, SignalCategory: b.SignalCategory, SourceType: b.SourceType,
		SourceIdentity: b.SourceIdentity, Payload: b.Payload, PayloadEncoding: b.Encoding,
		IdempotencyKey: b.IdempotencyKey, CorrelationID: b.CorrelationID, TargetScope: b.TargetScope,
		CreatedAt: timeOf(created), DedupTTL: duration(or(b.DedupTTL, dedupTTL.Milliseconds())),
		ResumeDelay: duration(b.ResumeDelay), SignalMaxlen: or(b.Maxlen, signalMaxlen),
		MaxSignalsPerExecution: or(b.MaxSignals, maxSignals), WaitpointToken: b.Token,
	}
	if signal.CreatedAt.IsZero() {
		if signal.CreatedAt, err = c.core.Now(c.ctx); err != nil {
			return err
		}
	}
	e, err := c.operator.Execution(c.ctx, id)
	if err != nil {
		return refused(enginerpc.FunctionName(enginerpc.DeliverSignalCall{}), err)
	}
	reply, err := c.core.DeliverSignal(c.ctx, enginerpc.DeliverSignalCall{LaneID: e.Lane, Signal: signal})
	switch {
	case err != nil:
		return err
	case reply.Status == enginerpc.StatusDuplicate:
		return c.reply(http.StatusOK, result("Duplicate", fields{"existing_signal_id": reply.SignalID}))
	}
	return c.reply(http.StatusOK, result("Accepted", fields{"signal_id": reply.SignalID, "effect": reply.Effect}))
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
