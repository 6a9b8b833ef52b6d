package submit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// The engine keeps the text of a scope with a rerun.
func TestRerunScopeText(t *testing.T) {
	t.Parallel()
	require.Equal(t, RerunScope{Mode: "failed"}, ScopeOf(fabrictype.RerunFailed))
	require.Equal(t, RerunScope{Mode: "all"}, ScopeOf(fabrictype.RerunAll))
	require.Equal(t, RerunScope{Mode: "from n", Node: "n"}, ScopeOf("from n"))
	require.Equal(t, fabrictype.RerunScope("from n"), fabrictype.RerunFrom("n"))
}
