package runtime_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// Every event that the library logs under a separate name has a constant.
func TestEveryEventIsNamed(t *testing.T) {
	t.Parallel()
	var source []byte
	for _, name := range []string{"fabrictype/event.go", "internal/eventkind/eventkind.go"} {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		require.NoError(t, err)
		source = append(source, text...)
	}
	event := regexp.MustCompile(`event_log\.add_for\(c, [a-z_.]+, '([a-z_]+)'|event_log\.add\(c, [a-z_.A-Z]+, '([a-z_]+)'`)
	names := 0
	for _, name := range lualib.Files() {
		text, err := os.ReadFile(filepath.Join("..", "lua", filepath.FromSlash(name)))
		require.NoError(t, err)
		for _, match := range event.FindAllStringSubmatch(string(text), -1) {
			found := match[1] + match[2]
			if strings.HasSuffix(found, "_") {
				continue // the outcome follows
			}
			names++
			require.Contains(t, string(source), `"`+found+`"`, name)
		}
	}
	require.Greater(t, names, 10)
}
