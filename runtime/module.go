package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// Internal has the session for packages of this module; programs can do nothing with it, and it may change.
func (e *Engine) Internal() engine.Handle {
	if err := e.made(); err != nil {
		return engine.Unusable(err)
	}
	return engine.HandleOf(e.session, func(ctx context.Context, entry auditlink.Entry, act func() error) error {
		return e.session.Audited(ctx, storedEntry(entry), func(context.Context) error { return act() })
	})
}

// Internal has the session for packages of this module; programs can do nothing with it, and it may change.
func (c *Client) Internal() engine.Handle {
	if err := c.made(); err != nil {
		return engine.Unusable(err)
	}
	return engine.HandleOf(c.session, func(ctx context.Context, entry auditlink.Entry, act func() error) error {
		if err := c.ready(ctx); err != nil {
			return err
		}
		return c.audited(ctx, storedEntry(entry), func(context.Context) error { return act() })
	})
}

func storedEntry(e auditlink.Entry) fabrictype.AuditEntry {
	return fabrictype.AuditEntry{
		Actor: e.Actor, Action: e.Action, Name: e.Name, Detail: e.Detail,
	}
}
