package testserver

import (
	"os/exec"
	"path/filepath"
	"slices"
)

// PostgreSQL returns the folder with the programs initdb and postgres, which only the comparison with other systems
// uses: the folder of initdb on PATH, Debian's folder of the newest version, or the one that download.PostgreSQL
// unpacked, in this order. The programs of a Debian package are not on PATH.
func PostgreSQL() (dir string, ok bool) {
	var dirs []string
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	if found, err := filepath.Glob("/usr/lib/postgresql/*/bin"); err == nil {
		slices.Reverse(found)
		dirs = append(dirs, found...)
	}
	if cache, err := Cache(); err == nil {
		dirs = append(dirs, filepath.Join(cache, "bin", "postgresql"))
	}
	for _, dir := range dirs {
		_, initdb := exec.LookPath(filepath.Join(dir, "initdb"))
		if _, server := exec.LookPath(filepath.Join(dir, "postgres")); initdb == nil && server == nil {
			return dir, true
		}
	}
	return "", false
}
