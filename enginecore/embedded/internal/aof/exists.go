package aof

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Exists reports whether an engine has been opened in a directory before. It changes nothing there. A directory that is
// missing is no error.
func Exists(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("embedded: data directory: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if name == "LOCK" || strings.HasPrefix(name, "log-") || strings.HasPrefix(name, "snapshot-") {
			return true, nil
		}
	}
	return false, nil
}
