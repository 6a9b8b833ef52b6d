//go:build unix

package download

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// The compiler runs its parts itself, so each of them has its own wrapper, which -B lets it find first. Headers and
// libraries come from below root, never from the machine.
const compilerWrapper = `#!/bin/sh
root=$(CDPATH= cd -- "$(dirname -- "$0")/../%[1]s" && pwd) || exit
exec "$root/%[2]s" --argv0 "$root/%[4]s" --library-path "%[3]s" "$root/%[4]s" -B"$root/parts/" --sysroot="$root" "$@"
`

const partWrapper = `#!/bin/sh
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit
exec "$root/%[1]s" --argv0 "$root/%[3]s" --library-path "%[2]s" "$root/%[3]s" "$@"
`

// compiler is the C compiler for cgo, which the race detector needs on Linux.
func compiler() item {
	return item{
		name:     "cc",
		packages: []string{"gcc-12", "libc6-dev"},
		hint:     "install gcc",
		find: func() (string, bool) {
			path, err := compilerPath()
			return path, err == nil
		},
		wrap: wrapCompiler,
	}
}

// configuredCompiler returns the command that the go tool is set up to use.
func configuredCompiler() (string, error) {
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return "", fmt.Errorf("go env CC: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// compilerPath returns the value of CC under which the go tool finds a compiler.
func compilerPath() (string, error) {
	cc, err := configuredCompiler()
	if err != nil {
		return "", err
	}
	// The value may carry flags; the command itself decides.
	if fields := strings.Fields(cc); len(fields) > 0 {
		if _, err := exec.LookPath(fields[0]); err == nil {
			return cc, nil
		}
	}
	cache, err := testserver.Cache()
	if err != nil {
		return "", err
	}
	path, err := exec.LookPath(filepath.Join(cache, "bin", "gcc"))
	if strings.Contains(path, " ") {
		path = `"` + path + `"`
	}
	return path, err
}

func wrapCompiler(bin, root string) error {
	const gcc = "usr/bin/gcc-12"
	loader, libraries, err := loader(root, gcc)
	if err != nil {
		return err
	}
	parts := filepath.Join(root, "parts")
	if err := os.MkdirAll(parts, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"usr/bin/as", "usr/bin/ld", "usr/lib/gcc/*/12/cc1", "usr/lib/gcc/*/12/collect2"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			return errors.Join(fmt.Errorf("no %s was unpacked", filepath.Base(pattern)), err)
		}
		part, err := filepath.Rel(root, found[0])
		if err != nil {
			return err
		}
		script := fmt.Sprintf(partWrapper, loader, libraries, part)
		if err := writeCommand(filepath.Join(parts, filepath.Base(part)), script); err != nil {
			return err
		}
	}
	script := fmt.Sprintf(compilerWrapper, filepath.Base(root), loader, libraries, gcc)
	return writeCommand(filepath.Join(bin, "gcc"), script)
}
