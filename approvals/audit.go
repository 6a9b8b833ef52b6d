package approvals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/answerlog"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// maxActor and maxFrom bound the texts about the visitor in an entry of the audit log, in bytes.
const (
	maxActor = 256
	maxFrom  = 100
)

// record writes an answer into the audit log, delivers it, and records that it was not taken if so.
type record func(
	ctx context.Context, token activity.Token, answer auditlink.Entry, deliver delivery,
) (fabrictype.SignalResult, error)

// delivery sends the signal of an answer.
type delivery func() (fabrictype.SignalResult, error)

// unrecorded delivers without an engine's audit log.
func unrecorded(
	_ context.Context, _ activity.Token, _ auditlink.Entry, deliver delivery,
) (fabrictype.SignalResult, error) {
	return deliver()
}

// auditEntry is the entry of an answer in the audit log: the visitor, the answer, and how the visitor was identified.
func (h *Handler) auditEntry(r *http.Request, d activity.Decision) auditlink.Entry {
	how := "as the visitor typed"
	if h.config.Identity != nil {
		how = "by login"
	}
	return auditlink.Entry{
		Actor: recordtext.Line(d.By, maxActor), Action: string(auditlink.AnswerWait),
		Detail: fmt.Sprintf("%s, through a link; name %s; from %s", d.Choice, how,
			cmp.Or(recordtext.Line(h.config.RemoteAddress(r), maxFrom), "an unknown address")),
	}
}

// recordIn returns the function that records answers in the audit log of the client's engine. Only answers to a wait
// that is not over have an entry, so a link whose wait is over writes nothing more. In contract mode, which has no log,
// it only delivers the answer.
func recordIn(client *runtime.Client) record {
	return func(
		ctx context.Context, token activity.Token, answer auditlink.Entry, deliver delivery,
	) (result fabrictype.SignalResult, err error) {
		w, err := client.Waitpoint(ctx, token)
		switch {
		case errors.Is(err, runtime.ErrNotInContract):
			return deliver()
		case err != nil:
			return result, err
		case w.State == fabrictype.WaitClosed:
			return deliver()
		}
		answer.Name = w.Flow + "/" + w.Run + "/" + w.Node
		return answerlog.Send(ctx, client.Internal(), answer, deliver)
	}
}
