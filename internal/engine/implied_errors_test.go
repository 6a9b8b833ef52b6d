package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An execution that the engine itself ended has no stored details: they follow from the engine's reason, each with a
// name.
func TestImpliedErrorsHaveNames(t *testing.T) {
	for reason, want := range impliedErrors {
		details := StoredDetails(nil, reason)
		require.Len(t, details, 1, reason)
		require.NotEmpty(t, details[0].Name, reason)
		require.True(t, IsInDetails(details, want), reason)
	}
	require.Empty(t, StoredDetails(nil, "a reason of a function"))
}
