package apidoc

import (
	"bytes"
	"os/exec"
	"testing"
)

// Numbers of tracked files: agreed, and to which it shall shrink.
const filesAgreed, filesTarget = 2_580, 2_500

// A reader finds a file among all tracked files: their number only shrinks.
func TestNumberOfTrackedFiles(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skip("outside of a git work tree")
	}
	files := bytes.Count(out, []byte{0})
	t.Logf("%d tracked files, the target is %d", files, filesTarget)
	if files > filesAgreed {
		t.Errorf("%d files are tracked, at most %d are agreed", files, filesAgreed)
	}
}
