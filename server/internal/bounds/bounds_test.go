package bounds_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/server/internal/bounds"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

func TestPool(t *testing.T) {
	t.Parallel()
	ann, bob := login.Principal{Name: "x", Kind: login.ByToken}, login.Principal{Name: "x", Kind: login.ByCert}
	p := bounds.New("too_many", "things", 3, 2)
	first, err := p.Enter(ann)
	require.NoError(t, err)
	_, err = p.Enter(ann)
	require.NoError(t, err)
	var full *bounds.Full
	_, err = p.Enter(ann)
	require.ErrorAs(t, err, &full)
	require.Equal(t, "too_many", full.Code)
	require.Contains(t, full.Text, "a principal has at most 2 things")
	_, err = p.Enter(bob)
	require.NoError(t, err, "another principal of the same name")
	_, err = p.Enter(bob)
	require.ErrorContains(t, err, "the server has at most 3 things")
	first()
	first() // which counts once
	_, err = p.Enter(login.Anonymous())
	require.NoError(t, err)
	_, err = p.Enter(bob)
	require.Error(t, err)
}

// Without logins all have one principal, so that the sum alone bounds.
func TestPoolWithoutLogins(t *testing.T) {
	t.Parallel()
	p := bounds.New("too_many", "things", 3, 1)
	for range 3 {
		_, err := p.Enter(login.Anonymous())
		require.NoError(t, err)
	}
	_, err := p.Enter(login.Anonymous())
	require.ErrorContains(t, err, "the server has at most 3")
}
