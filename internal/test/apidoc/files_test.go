package apidoc

import (
	"bytes"
	"os/exec"
	"testing"
)

// maxFiles is how many files may be tracked.
const maxFiles = 2_560

// A reader finds a file among all tracked files: their number is bounded.
func TestNumberOfTrackedFiles(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skip("outside of a git work tree")
	}
	files := bytes.Count(out, []byte{0})
	t.Logf("%d tracked files, at most %d may be", files, maxFiles)
	if files > maxFiles {
		t.Errorf("%d files are tracked, at most %d may be: join small ones with those that they belong to", files, maxFiles)
	}
}
