package login

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// A request ends when a check of its credentials finds fewer rights than before, and for no other reason.
func TestGuard(t *testing.T) {
	t.Parallel()
	before := Principal{Name: "ci", Kind: ByToken, Rights: api.Operator.Rights(), Flows: "a*"}
	with := func(change func(*Principal)) Principal {
		p := before
		p.Rights = append([]api.Right{}, p.Rights...)
		change(&p)
		return p
	}
	for name, c := range map[string]struct {
		now  Principal
		err  error
		ends bool
	}{
		"the same":        {now: before},
		"more rights":     {now: with(func(p *Principal) { p.Rights = httpapi.Rights() })},
		"fewer rights":    {now: with(func(p *Principal) { p.Rights = api.Viewer.Rights() }), ends: true},
		"other flows":     {now: with(func(p *Principal) { p.Flows = "b*" }), ends: true},
		"another name":    {now: with(func(p *Principal) { p.Name = "other" }), ends: true},
		"refused":         {err: ErrRefused, ends: true},
		"nothing is told": {err: errors.New("the engine does not answer")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewGuard()
			ctx, done := g.Begin(t.Context(), before, func(context.Context) (Principal, error) { return c.now, c.err })
			defer done()
			detached, release := Detach(ctx)
			defer release()
			g.look(t.Context())
			for _, ctx := range []context.Context{ctx, detached} {
				require.Equal(t, c.ends, errors.Is(context.Cause(ctx), ErrEnded))
				require.Equal(t, c.ends, ctx.Err() != nil)
			}
			require.Equal(t, before.ID(), From(detached).ID())
			done()
			require.Error(t, ctx.Err())
			release()
			require.Error(t, detached.Err())
			require.Empty(t, g.held)
		})
	}
}
