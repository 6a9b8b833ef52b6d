package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

const (
	// maxAuditText is the longest name, detail and failure of an entry; longer ones are cut.
	maxAuditText = 2048
	// failureWithin is how long noting a failure may take when the caller's context has ended.
	failureWithin = 5 * time.Second
)

// Audited writes an entry into the audit log, then performs the action, and notes its failure. Contract mode has no
// log.
func (s *Session) Audited(ctx context.Context, e fabrictype.AuditEntry, act func(context.Context) error) error {
	store, err := s.Library("the audit log")
	if err != nil {
		return act(ctx)
	}
	if err := CheckText("actor", e.Actor, MaxActor); err != nil {
		return err
	}
	call := enginerpc.AuditCall{
		Partition: Directory(), Namespace: string(s.Namespace), EntryID: uuid.NewString(), Actor: e.Actor,
		Action: e.Action, Name: cut(e.Name), Detail: cut(e.Detail),
	}
	if _, err := store.Audit(ctx, call); err != nil {
		return fmt.Errorf("not recorded in the audit log, so not done: %w", err)
	}
	failure := act(ctx)
	if failure == nil {
		return nil
	}
	note := call
	note.Failure = cut(failure.Error())
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), failureWithin)
	defer cancel()
	if _, err := store.Audit(within, note); err != nil {
		s.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the client could not note a failed action in the audit log",
			observe.EventAuditFailed.Attr(), slog.String("action", call.Action), slog.String("name", call.Name),
			slog.Any("error", err))
	}
	return failure
}

// cut returns the beginning of a text that is too long for the log.
func cut(text string) string {
	if len(text) <= maxAuditText {
		return text
	}
	return strings.ToValidUTF8(text[:maxAuditText], "")
}
