//go:build unix

package download

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A server is started through the loader it was unpacked with, since its C library may differ from the machine's. exec
// keeps the process id, so that the signals of tests reach the server.
const serverWrapper = `#!/bin/sh
root=$(CDPATH= cd -- "$(dirname -- "$0")/../%[1]s" && pwd) || exit
exec "$root/%[2]s" --argv0 "$0" --library-path "%[3]s" "$root/usr/bin/%[4]s" "$@"
`

func wrapServer(commands ...string) func(bin, root string) error {
	return func(bin, root string) error {
		loader, libraries, err := loader(root, "usr/bin/"+commands[0])
		if err != nil {
			return err
		}
		for _, name := range commands {
			script := fmt.Sprintf(serverWrapper, filepath.Base(root), loader, libraries, name)
			if err := writeCommand(filepath.Join(bin, name), script); err != nil {
				return err
			}
		}
		return nil
	}
}

// loader returns, relative to root, the program loader that program names, and the search path
// for libraries as the wrapper spells it.
func loader(root, program string) (path, libraries string, err error) {
	file, err := elf.Open(filepath.Join(root, program))
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name, err := io.ReadAll(p.Open())
		if err != nil {
			return "", "", err
		}
		// Packages link the loader's public name by an absolute path; the file is next to the libraries.
		found, err := filepath.Glob(filepath.Join(root, "lib/*", filepath.Base(strings.TrimRight(string(name), "\x00"))))
		if err != nil || len(found) == 0 {
			return "", "", errors.Join(errors.New("no program loader was unpacked"), err)
		}
		path, err := filepath.Rel(root, found[0])
		if err != nil {
			return "", "", err
		}
		dir := filepath.Dir(path)
		return path, "$root/" + dir + ":$root/usr/" + dir, nil
	}
	return "", "", fmt.Errorf("%s names no program loader", program)
}

// writeCommand replaces path atomically, so that no process runs a partial script.
func writeCommand(path, script string) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(script), 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
