//go:build unix

package download

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// The programs of PostgreSQL start each other, so they cannot run through the loader of the package as other servers
// do: they take the C library of the machine, and the other libraries from below root.
const postgresWrapper = `#!/bin/sh
root=$(CDPATH= cd -- "$(dirname -- "$0")/../../%[1]s" && pwd) || exit
LD_LIBRARY_PATH="$root/%[2]s" exec "$root/%[3]s" "$@"
`

const postgresBin = "usr/lib/postgresql/15/bin"

func postgres() item {
	return item{
		name:     "postgresql",
		packages: []string{"postgresql-15", "postgresql-client-15"},
		omit:     []string{"libc6", "libllvm14"}, // the latter only compiles expressions of long queries
		share:    true,
		hint:     "install postgresql",
		find:     testserver.PostgreSQL,
		wrap:     wrapPostgres,
	}
}

// PostgreSQL fetches PostgreSQL if there is none. No test of the library needs it.
func PostgreSQL() error { return run([]item{postgres()}) }

func wrapPostgres(bin, root string) error {
	found, err := filepath.Glob(filepath.Join(root, "usr/lib/*/libpq.so.5"))
	if err != nil || len(found) != 1 {
		return errors.Join(fmt.Errorf("no folder of libraries was unpacked: %d found", len(found)), err)
	}
	libraries, err := filepath.Rel(root, filepath.Dir(found[0]))
	if err != nil {
		return err
	}
	dir := filepath.Join(bin, "postgresql")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Most packages have their libraries below usr, some below lib.
	libraries += ":$root/" + filepath.Join("lib", filepath.Base(libraries))
	for _, name := range []string{"initdb", "postgres"} {
		script := fmt.Sprintf(postgresWrapper, filepath.Base(root), libraries, filepath.Join(postgresBin, name))
		if err := writeCommand(filepath.Join(dir, name), script); err != nil {
			return err
		}
	}
	return nil
}
