package runtime

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// The engine keeps the text of a scope with a rerun.
func TestRerunScopeText(t *testing.T) {
	t.Parallel()
	require.Equal(t, submit.RerunScope{Mode: "failed"}, nodesOf(fabrictype.RerunFailed))
	require.Equal(t, submit.RerunScope{Mode: "all"}, nodesOf(fabrictype.RerunAll))
	require.Equal(t, submit.RerunScope{Mode: "from n", Node: "n"}, nodesOf("from n"))
	require.Equal(t, fabrictype.RerunScope("from n"), fabrictype.RerunFrom("n"))
}
