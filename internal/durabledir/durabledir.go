// Package durabledir creates directories whose names are to outlive a power cut: the name of a new directory is kept
// only when the directory above it is synced.
package durabledir

import (
	"os"
	"path/filepath"
)

// Make creates a directory if it is missing, and those above it. It returns the directories to be synced for their
// names to be durable: the one above it, since it may have been created a moment before a power cut, and each one in
// which another name was missing.
func Make(dir string) (above []string, err error) {
	for path := filepath.Clean(dir); path != filepath.Dir(path); path = filepath.Dir(path) {
		if _, err := os.Stat(path); len(above) > 0 && err == nil {
			break
		}
		above = append(above, filepath.Dir(path))
	}
	return above, os.MkdirAll(dir, 0o700)
}
