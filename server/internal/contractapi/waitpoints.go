package contractapi

import (
	"net/http"
	"time"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/contractsignal"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/server/internal/answers"
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
	id, err := keyspace.ParseWaitpointID(c.r.PathValue("waitpoint"))
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
		DedupTTL       *uint64     `json:"dedup_ttl_ms"`
		ResumeDelay    *uint64     `json:"resume_delay_ms"`
		MaxSignals     *uint64     `json:"max_signals_per_execution"`
		Maxlen         *uint64     `json:"signal_maxlen"`
		Token          string      `json:"waitpoint_token"`
		Now            *millis     `json:"now"`
	}
	if err := c.decode(&b, "execution_id", "waitpoint_id", "signal_id", "signal_name", "waitpoint_token"); err != nil {
		return err
	}
	if err := same("execution_id", string(id), string(b.ExecutionID)); err != nil {
		return err
	}
	dedup, delay := dedupTTL.Milliseconds(), int64(0)
	kept, most := int64(contractsignal.KeptSignals), int64(contractsignal.MaxSignals)
	if err := readNumbers(
		bounded{"dedup_ttl_ms", b.DedupTTL, maxSpan, &dedup},
		bounded{"resume_delay_ms", b.ResumeDelay, maxSpan, &delay},
		bounded{"signal_maxlen", b.Maxlen, maxExact, &kept},
		bounded{"max_signals_per_execution", b.MaxSignals, maxExact, &most},
	); err != nil {
		return err
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
		CreatedAt: timeOf(created), DedupTTL: duration(dedup),
		ResumeDelay: duration(delay), SignalMaxlen: kept,
		MaxSignalsPerExecution: most, WaitpointToken: b.Token,
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
	reply, err := c.answer(enginerpc.DeliverSignalCall{LaneID: e.Lane, Signal: signal})
	switch {
	case err != nil:
		return err
	case reply.Status == enginerpc.StatusDuplicate:
		return c.reply(http.StatusOK, result("Duplicate", fields{"existing_signal_id": reply.SignalID}))
	}
	return c.reply(http.StatusOK, result("Accepted", fields{"signal_id": reply.SignalID, "effect": reply.Effect}))
}

// answer sends a signal under the rules that signals under /api/v1 have.
func (c *call) answer(call enginerpc.DeliverSignalCall) (reply enginerpc.DeliverSignalReply, err error) {
	if call.SourceIdentity, err = answers.Source(c.ctx, call.SourceIdentity); err != nil {
		return reply, err
	}
	wait, err := contractsignal.Find(c.ctx, c.core, &call.Signal)
	if err != nil {
		return reply, err
	}
	if err := wait.Apply(&call.Signal); err != nil {
		return reply, invalid("%v", err)
	}
	send := func() (fabrictype.SignalResult, error) {
		reply, err = c.core.DeliverSignal(c.ctx, call)
		return outcomeOf(reply), err
	}
	if wait.Closed {
		_, err = send()
		return reply, err
	}
	answer := answers.Answer{
		Wait: string(call.ExecutionID), Signal: call.SignalName, Source: call.SourceIdentity,
	}
	if wait.Flow != "" {
		answer.Wait = wait.Flow + "/" + wait.Run + "/" + wait.Node
	}
	_, err = answer.Send(c.ctx, c.config.Engine.Internal(), send)
	return reply, err
}

// outcomeOf is the outcome of a signal, in the words of package runtime.
func outcomeOf(reply enginerpc.DeliverSignalReply) fabrictype.SignalResult {
	outcome := fabrictype.SignalAccepted
	switch {
	case reply.Status == enginerpc.StatusDuplicate:
		outcome = fabrictype.SignalDuplicate
	case reply.Effect == recordstate.SignalResumed:
		outcome = fabrictype.SignalResumed
	}
	return fabrictype.SignalResult{Outcome: outcome, SignalID: string(reply.SignalID)}
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
