package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/limits"
)

// Limits returns the state of the limits of the client's namespace, sorted by name and key: those that were used or
// set, and those without keys that published flows declare.
func (c *Client) Limits(ctx context.Context) ([]fabrictype.Limit, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	list, err := limits.List(ctx, c.session)
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	return list, nil
}

// LimitRef refers to one limit by its name and key. Client.Limit returns one. It holds no state of the limit: each call
// queries the engine, in the namespace of the client. It is safe for concurrent use, as long as its client is open.
//
// The error of every call wraps ErrInvalid for a name that no limit can have.
type LimitRef struct {
	client    *Client
	name, key string
}

// Limit returns a reference to a limit; the key is empty for a limit without KeyFrom. It sends nothing, and the limit
// need not be in use.
func (c *Client) Limit(name, key string) *LimitRef { return &LimitRef{client: c, name: name, key: key} }

// Describe returns the state of the limit. Before a node has used it and it was set, it has the numbers that published
// flows declare; the error matches ErrNotFound if there are none.
func (l *LimitRef) Describe(ctx context.Context) (fabrictype.Limit, error) {
	if err := l.client.ready(ctx); err != nil {
		return fabrictype.Limit{}, err
	}
	if err := activityspec.CheckName(l.name); err != nil {
		return fabrictype.Limit{}, invalid("limit: %w", err)
	}
	limit, err := limits.Find(l.client.session, l.name, l.key)
	if err != nil {
		return fabrictype.Limit{}, err
	}
	state, err := limit.Describe(ctx)
	if err != nil {
		return fabrictype.Limit{}, fmt.Errorf("limit %q of %q: %w", l.name, l.key, err)
	}
	return state, nil
}

// Set replaces the limit that flows declare, for all nodes that have it, including waiting ones. Nodes that wait start
// at once if the new values allow it; running ones continue. Reset undoes it.
func (l *LimitRef) Set(ctx context.Context, config activity.LimitConfig) error {
	return l.change(ctx, nil, config)
}

// Replace is Set unless the limit has been changed since Describe returned old: comparing AtMost, Per, AtOnce and Set
// and setting the limit are one atomic step of the engine. If they differ, the error matches
// enginecore.ErrChangedMeanwhile and nothing was changed.
func (l *LimitRef) Replace(ctx context.Context, old fabrictype.Limit, config activity.LimitConfig) error {
	return l.change(ctx, &old, config)
}

// change sets the limit: if old is not nil, only as long as the limit is as old.
func (l *LimitRef) change(ctx context.Context, old *fabrictype.Limit, config activity.LimitConfig) error {
	spec := activityspec.NewLimit(l.name, activityspec.LimitConfig(config))
	err := spec.Validate()
	if len(spec.KeyFrom) > 0 {
		err = errors.Join(err, fmt.Errorf("limit %q: KeyFrom(%s): must not be set here: it is set for the key %q",
			l.name, strings.Join(spec.KeyFrom, "."), l.key))
	}
	if err != nil {
		return invalid("set limit: %w", err)
	}
	limit, err := l.find(ctx)
	if err != nil {
		return err
	}
	set := func(ctx context.Context) error { return limit.Set(ctx, spec, old) }
	return l.perform(ctx, limit.EntryOfSet(l.client.actorName(), spec), set)
}

// Reset undoes Set: the limit that flows declare applies again, from the next start of a node on. Resetting a limit
// that is not set is not an error.
func (l *LimitRef) Reset(ctx context.Context) error {
	if err := activityspec.CheckName(l.name); err != nil {
		return invalid("reset limit: %w", err)
	}
	limit, err := l.find(ctx)
	if err != nil {
		return err
	}
	return l.perform(ctx, limit.EntryOfReset(l.client.actorName()), limit.Reset)
}

// find returns the limit for the calls of the client.
func (l *LimitRef) find(ctx context.Context) (limits.Limit, error) {
	if err := l.client.ready(ctx); err != nil {
		return limits.Limit{}, err
	}
	return limits.Find(l.client.session, l.name, l.key)
}

// perform performs an action on the limit, with an entry in the audit log.
func (l *LimitRef) perform(ctx context.Context, e fabrictype.AuditEntry, act func(context.Context) error) error {
	if err := l.client.audited(ctx, e, act); err != nil {
		return fmt.Errorf("set limit %q of %q: %w", l.name, l.key, err)
	}
	return nil
}
