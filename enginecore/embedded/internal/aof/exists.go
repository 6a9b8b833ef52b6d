package aof

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Exists reports whether an engine has been opened in a directory before. It changes nothing there. A missing directory
// is not an error. In a directory with a lock and unfinished files alone no engine was opened: they remain where the
// disk was full.
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
		if strings.HasSuffix(name, tmpSuffix) {
			continue
		}
		// Of an engine whose log was removed, the manifest alone stays.
		if name == "MANIFEST" || strings.HasPrefix(name, "log-") || strings.HasPrefix(name, "snapshot-") {
			return true, nil
		}
	}
	return false, nil
}
