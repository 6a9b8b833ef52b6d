package runtime

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/auditlog"
)

// AuditQuery selects entries of the audit log. An entry must satisfy all fields that are set; the zero value selects
// all.
type AuditQuery struct {
	// Actor and Action select by these.
	Actor  string
	Action string
	// Name selects the entries of the thing with this name.
	Name string
	// From (inclusive) and Before (exclusive) bound the time.
	From, Before time.Time
	// After continues after the entry with this cursor, towards older ones.
	After string
}

// Audit yields the entries of the namespace's audit log that satisfy the query, the last one first: the actors of
// changes to limits, budgets, schedules, pauses of lanes and activities, workers, bulk jobs and secrets, and of purges.
// The engine keeps about 10,000 entries of a namespace, for 90 days. Changes to things that belong to all namespaces,
// such as lanes, are in the log of the namespace whose client has made them. An error ends the sequence; in contract
// mode it matches ErrNotInContract, and ErrCursor for an invalid cursor.
func (c *Client) Audit(ctx context.Context, q AuditQuery) iter.Seq2[fabrictype.AuditEntry, error] {
	return func(yield func(fabrictype.AuditEntry, error) bool) {
		fail := func(err error) { yield(fabrictype.AuditEntry{}, fmt.Errorf("audit log: %w", err)) }
		if err := c.ready(ctx); err != nil {
			fail(err)
			return
		}
		for entry, err := range auditlog.Read(ctx, c.session, auditlog.Query(q)) {
			if err != nil {
				fail(err)
				return
			}
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// actorName is the actor of actions without the option. Calls of a nil client are refused after it.
func (c *Client) actorName() string {
	if c == nil {
		return ""
	}
	return cmp.Or(c.actor, "client")
}

// audited writes an entry into the audit log, then performs the action, and notes its failure. Contract mode has no
// log. Both pass the interceptors of the client; the interceptors of an action on a run have seen it already.
func (c *Client) audited(ctx context.Context, e fabrictype.AuditEntry, act func(context.Context) error) error {
	return c.auditedCall(ctx, e, interceptor.ClientCall{}, act)
}

// auditedCall is audited with the other fields of the call for interceptors.
func (c *Client) auditedCall(
	ctx context.Context, e fabrictype.AuditEntry, call interceptor.ClientCall, act func(context.Context) error,
) error {
	if !c.isIntercepted() {
		return c.session.Audited(ctx, e, act)
	}
	call.Operation, call.Name, call.Detail = interceptor.Operation(e.Action), e.Name, e.Detail
	return c.intercept(ctx, call, func(ctx context.Context) error { return c.session.Audited(ctx, e, act) })
}

// auditEntry is an entry for an action on the run, or on one of its nodes.
func (r *RunRef) auditEntry(action string, node string) fabrictype.AuditEntry {
	e := fabrictype.AuditEntry{Actor: r.client.actorName(), Action: action, Name: r.at.Flow + "/" + r.at.ID}
	if node != "" {
		e.Name += "/" + node
	}
	return e
}
