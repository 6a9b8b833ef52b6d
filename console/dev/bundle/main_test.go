package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The pages that are committed are those that the sources give.
func TestDistIsUpToDate(t *testing.T) {
	t.Parallel()
	require.NoError(t, run("../..", true))
}
