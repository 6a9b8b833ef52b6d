// Package answerlog records answers to waits in the audit log of an engine, for every route of answers.
package answerlog

import (
	"context"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Send records an answer in the audit log of an engine or a client, sends it, and records why it was not
// taken. An answer that cannot be recorded is not sent. send uses a client without an actor, whose signals are not in
// the log by themselves. The log has no part of a payload, so that who may read it need not have the right to read
// those.
func Send(
	ctx context.Context, h engine.Handle, e auditlink.Entry, send func() (fabrictype.SignalResult, error),
) (result fabrictype.SignalResult, err error) {
	sent := false
	refused := engine.Audited(ctx, h, e, func() error {
		sent = true
		result, err = send()
		return auditlink.Refusal(string(result.Outcome), err, runtime.ErrInvalid)
	})
	if !sent {
		return result, refused
	}
	return result, err
}
