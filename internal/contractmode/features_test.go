package contractmode_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/contractmode"
)

// The page has the table of what contract mode does and refuses, as the code has it.
func TestFeaturesOnThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operations/contract-mode.md")
	require.NoError(t, err)
	var table strings.Builder
	table.WriteString("| feature | in contract mode | by, or why not |\n| --- | --- | --- |\n")
	for _, f := range contractmode.Features {
		table.WriteString("| " + f.Name + " | " + string(f.Support) + " | " + f.By() + " |\n")
	}
	require.Contains(t, string(page), table.String())
}
