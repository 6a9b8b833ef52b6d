package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names of options have two hyphens in all that documentation and the files of deploy say of this command.
func TestDocumentedOptions(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..", "..")
	// The command with a subcommand, or in a list of arguments, and then an option whose name has one hyphen.
	wrong := regexp.MustCompile("(?:flowfabric [a-z]+|\"server\",)[^`#]*[ \"]-[a-z][a-z-]+")
	checked := 0
	for _, dir := range []string{"docs", "deploy", "README.md"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".png") {
				return err
			}
			text, err := os.ReadFile(path)
			for i, line := range strings.Split(string(text), "\n") {
				if (strings.Contains(line, "flowfabric ") || strings.Contains(line, `"server",`)) && !strings.Contains(line, "kubectl") {
					checked++
					require.NotRegexp(t, wrong, line, "%s:%d", path, i+1)
				}
			}
			return err
		}))
	}
	require.Greater(t, checked, 50)
}
