package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// A caller who sees some flows only cannot follow nodes of child runs, which are of other flows, through their parents.
func TestOwnNode(t *testing.T) {
	t.Parallel()
	all, some := login.With(t.Context(), login.Principal{}), login.With(t.Context(), login.Principal{Flows: "order"})
	require.NoError(t, ownNode(all, "send/item-3"))
	require.NoError(t, ownNode(some, "send"))
	require.ErrorIs(t, ownNode(some, "send/item-3"), engine.ErrUnknownNode)
}
