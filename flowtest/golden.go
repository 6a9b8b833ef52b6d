package flowtest

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// update makes tests write golden files. Its name leaves the flag "update" to programs that define it, which counts as
// well.
var update = flag.Bool("flowtest.update", false, "write the golden files of package flowtest anew")

func updating() bool {
	if own := flag.Lookup("update"); own != nil && own.Value.String() == "true" {
		return true
	}
	return *update
}

// Golden compares the graph of a flow with the file testdata/NAME.flow, so that a change of the wiring is a visible
// change of a file: the outline of the flow, and its hash, which also changes with options that the outline does not
// show, such as timeouts. It needs no engine, so the test need not be one of Run. "go test -flowtest.update" writes the
// file.
func Golden(t testing.TB, f Flow) {
	t.Helper()
	if f == nil || f.Name() == "" {
		t.Fatalf("flowtest.Golden: the flow is nil: look at the error of Build")
	}
	text := fmt.Sprintf("%s\nhash %s\n", strings.TrimRight(f.Outline(), "\n"), f.Hash())
	compare(t, filepath.Join("testdata", f.Name()+".flow"), text)
}

// Snapshot compares the run with a file, in which each node has a line: its state, its attempts, and its result or the
// reason why it has none. Times, ids and workers are left out. "go test -flowtest.update" writes the file.
func (r *TestRun) Snapshot(path string) *TestRun {
	r.t.Helper()
	compare(r.t, path, r.snapshot())
	return r
}

func (r *TestRun) snapshot() string {
	r.t.Helper()
	d := r.describe()
	var text strings.Builder
	fmt.Fprintf(&text, "flow %s: %s\n", d.Flow, d.State)
	for _, n := range d.Nodes {
		fmt.Fprintf(&text, "%s: %s", n.Name, n.State)
		if n.Attempts > 0 {
			fmt.Fprintf(&text, ", attempts %s", attempts(n))
		}
		text.WriteString("\n")
		if n.State != fabrictype.NodeSucceeded {
			if reason := strings.TrimPrefix(n.Category+": "+n.Reason, ": "); reason != "" {
				fmt.Fprintf(&text, "  %q\n", reason)
			}
			continue
		}
		data, err := (&TestNode{r, n.Name}).result()
		if err != nil {
			continue
		}
		fmt.Fprintf(&text, "  %s\n", printable(data))
	}
	return text.String()
}

// printable is a value in one line: as it is, or quoted.
func printable(data []byte) string {
	text := string(data)
	if quoted := fmt.Sprintf("%q", text); strings.ContainsAny(text, "\n\r\x00") || strings.Contains(quoted, `\x`) {
		return quoted
	}
	return text
}

// compare compares a text with a file, or writes the file.
func compare(t testing.TB, path, text string) {
	t.Helper()
	if updating() {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatalf("flowtest: %v", err)
		}
		return
	}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Fatalf("flowtest: there is no file %s: run the test with -flowtest.update to write it:\n%s", path, text)
	case err != nil:
		t.Fatalf("flowtest: %v", err)
	case string(data) != text:
		t.Fatalf("flowtest: %s differs (- file, + now; -flowtest.update accepts it):\n%s", path,
			diff(lines(string(data)), lines(text)))
	}
}

func lines(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }

// diff marks the lines that are only in one of two texts.
func diff(before, after []string) string {
	// common[i][j] is the length of the longest common subsequence of before[i:] and after[j:].
	common := make([][]int, len(before)+1)
	for i := range common {
		common[i] = make([]int, len(after)+1)
	}
	for i := len(before) - 1; i >= 0; i-- {
		for j := len(after) - 1; j >= 0; j-- {
			if before[i] == after[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var text strings.Builder
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			fmt.Fprintf(&text, "  %s\n", before[i])
			i, j = i+1, j+1
		case j == len(after) || i < len(before) && common[i+1][j] >= common[i][j+1]:
			fmt.Fprintf(&text, "- %s\n", before[i])
			i++
		default:
			fmt.Fprintf(&text, "+ %s\n", after[j])
			j++
		}
	}
	return text.String()
}
