// Package contractsignal has the rules of signals that are sent by the functions of the contract. Those functions
// check neither the schema of an answer nor the bounds of its texts, so their callers apply here the checks that
// ffx_signal makes for the signals of clients.
package contractsignal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/decision"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
)

// Bounds of the signals to one execution, unless a caller has others.
const (
	// MaxSignals is how many signals an execution takes.
	MaxSignals = 10_000
	// KeptSignals is how many of them the stream of its waitpoint keeps.
	KeptSignals = 1_000
)

// Wait is the wait of a run to which a signal goes. The zero value is a waitpoint of an execution outside runs, or one
// that the token does not open.
type Wait struct {
	// Flow, Run and Node name the node that waits.
	Flow, Run, Node string
	// Closed reports whether the wait is over.
	Closed bool

	schema string
}

// Find returns the wait of a signal, which has the token of its waitpoint. In contract mode waits of runs have no
// schemas, and the zero value is returned.
func Find(ctx context.Context, conn *enginerpc.Conn, s *enginerpc.Signal) (Wait, error) {
	p, err := keyspace.PartitionOf(s.ExecutionID)
	if err != nil || s.WaitpointToken == "" {
		return Wait{}, nil // the function of the library refuses it
	}
	reply, err := conn.ReadWaitpoint(ctx, enginerpc.ReadWaitpointCall{
		Partition: p, ExecutionID: s.ExecutionID, WaitpointID: s.WaitpointID, WaitpointToken: s.WaitpointToken,
	})
	var refused *enginecore.Error
	var unsent *enginecore.CallError
	switch {
	case errors.As(err, &refused), errors.As(err, &unsent), errors.Is(err, enginecore.ErrContractOnly):
		return Wait{}, nil // as above
	case err != nil:
		return Wait{}, err
	}
	run, listed := reply.Runs[0], reply.Waits[0]
	state := listed.State
	w := Wait{
		Flow: run.FlowName, Run: run.RunID, Node: listed.Node,
		Closed: state != recordstate.WaitpointPending && state != recordstate.WaitpointActive,
	}
	if len(listed.About) == 0 {
		return w, nil
	}
	var about struct {
		Answer string `json:"answer"`
	}
	if err := json.Unmarshal(listed.About, &about); err != nil {
		return Wait{}, fmt.Errorf("the texts of waitpoint %s cannot be read: %w", s.WaitpointID, err)
	}
	w.schema = about.Answer
	return w, nil
}

// Apply returns why the wait does not take a signal, or nil: a text of the signal is too long or has control
// characters, its payload is nested too deep for the wait of a run, or does not satisfy that wait, then with a
// *fabrictype.ValueError. A wait that has ended takes any payload, since it takes no signal. The bounds for the wait of
// a run apply regardless of the bounds that the sender requests.
func (w *Wait) Apply(s *enginerpc.Signal) error {
	for _, text := range []struct{ name, value string }{
		{"signal_name", s.SignalName}, {"signal_category", s.SignalCategory}, {"source_type", s.SourceType},
		{"source_identity", s.SourceIdentity}, {"correlation_id", s.CorrelationID},
		{"idempotency_key", s.IdempotencyKey},
	} {
		if err := recordtext.Check(text.name, text.value, activityspec.MaxSignalText); err != nil {
			return err
		}
	}
	if w.Flow == "" {
		return nil
	}
	s.MaxSignalsPerExecution, s.SignalMaxlen = MaxSignals, MaxSignals // all of them stay with the run
	if w.Closed {
		return nil
	}
	if err := activityspec.CheckDepth(s.Payload); err != nil {
		return err
	}
	s.Comment = decision.Comment(s.SignalName, s.Payload)
	subject, payload := "payload of signal "+s.SignalName, s.Payload
	if len(payload) == 0 {
		payload = []byte("null")
	}
	if w.schema == "" {
		if err := activityspec.CheckJSON(payload); err != nil {
			return &fabrictype.ValueError{Subject: subject, Faults: []fabrictype.ValueFault{{Message: err.Error()}}}
		}
		return nil
	}
	schema, err := valueschema.Parse([]byte(w.schema))
	if err != nil {
		return fmt.Errorf("the wait's answer schema: %w", err)
	}
	if err := schema.Check(subject, payload); err != nil {
		return err
	}
	if err := decision.Check(subject, s.SignalName, []byte(w.schema), payload); err != nil {
		return err
	}
	return nil
}
