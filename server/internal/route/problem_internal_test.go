package route

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// notAnswered are errors that no operation returns, with the reason.
var notAnswered = map[string]string{
	"admin.ErrQuotaNotFound":     "no operation reads a single quota policy",
	"admin.ErrPartition":         "the routes of the contract answer it",
	"admin.ErrPartlyCancelled":   "the routes of the contract answer it",
	"enginecore.ErrContractOnly": "runtime.ErrNotInContract is the same",
	"runtime.ErrNotFound":        "each thing has a code of its own",
	"runtime.ErrConflict":        "the same",
	"runtime.ErrOver":            "the same",
	"runtime.ErrRunFailed":       "operations return results of runs, not errors",
	"runtime.ErrRunCancelled":    "the same",
	"runtime.ErrRunExpired":      "the same",
	"enginecore.ErrNoGrant":      "the routes of the contract answer it",
	"runtime.ErrNotReady":        "/readyz answers it",
}

// Each exported error of the packages that the operations call has a meaning, or a reason to have none: without one it
// would be answered as a fault of the server.
func TestErrorsHaveMeanings(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("problem.go")
	require.NoError(t, err)
	for _, pkg := range []string{"runtime", "enginecore", "admin"} {
		names := exportedErrors(t, filepath.Join("..", "..", "..", pkg))
		require.NotEmpty(t, names)
		for _, name := range names {
			name = pkg + "." + name
			answered := strings.Contains(string(source), "{"+name+",")
			_, excepted := notAnswered[name]
			require.True(t, answered != excepted, "%s: answered %v, excepted %v", name, answered, excepted)
		}
	}
}

// exportedErrors returns the exported variables of a package that have names of errors.
func exportedErrors(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	set := token.NewFileSet()
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(set, filepath.Join(dir, file), nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, s := range group.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

func TestProblemOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err       error
		status    int
		code      string
		retryable bool
		logged    bool
	}{
		{
			fmt.Errorf("%w: %w", enginecore.ErrNotReplicated, enginecore.ErrUnavailable), http.StatusServiceUnavailable,
			"not_replicated", true, false,
		},
		{enginecore.ErrFull, http.StatusInsufficientStorage, "engine_full", true, false},
		{enginecore.ErrUnauthorized, http.StatusServiceUnavailable, "engine_unauthorized", false, true},
	} {
		p, logged := ProblemOf(fmt.Errorf("start run x: %w", c.err))
		require.Equal(t, c.status, p.Status, c.code)
		require.Equal(t, c.code, p.Code)
		require.Equal(t, c.retryable, p.Retryable, c.code)
		require.Equal(t, c.logged, logged, c.code)
		require.Contains(t, p.Detail, "start run x", c.code)
	}
	p, logged := ProblemOf(errors.New("the disk is on fire"))
	require.Equal(t, "internal", p.Code)
	require.True(t, logged)
	require.NotContains(t, p.Detail, "fire")
}
