package aof

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Exists reports whether an engine has been opened in a directory before. It changes nothing there. A directory that is
// missing is no error. One with a lock and unfinished files alone has none: that is left where the disk was full.
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
		// The manifest alone is what stays of an engine whose log was removed.
		if name == "MANIFEST" || strings.HasPrefix(name, "log-") || strings.HasPrefix(name, "snapshot-") {
			return true, nil
		}
	}
	return false, nil
}
