package runtime

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/answer"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// The bounds that pkg.go.dev shows are those that are checked.
func TestBounds(t *testing.T) {
	require.EqualValues(t, submit.MaxInput, MaxInput)
	require.EqualValues(t, submit.MaxResult, MaxResult)
	require.EqualValues(t, submit.MaxRunID, MaxRunID)
	require.EqualValues(t, answer.MaxPayload, MaxSignalPayload)
	require.EqualValues(t, submit.MaxMemo, MaxMemo)
}
