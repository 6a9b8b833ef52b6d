package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is a running command of the example.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	seen  []string
}

// buildExample builds the example of the checkout that this module is in.
func buildExample(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "approval")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./examples/approval")
	cmd.Dir = ".."
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
	return program
}

func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), program, args...), lines: make(chan string, 1000)}
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "FLOWFABRIC_URL=") })
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	return p
}

// line waits for a line that contains a text, and returns the rest of the line after the text.
func (p *process) line(text string) string {
	p.t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, more := <-p.lines:
			require.True(p.t, more, "it ended before it printed %q: %q", text, p.seen)
			p.seen = append(p.seen, line)
			if _, rest, found := strings.Cut(line, text); found {
				return rest
			}
		case <-late:
			require.FailNow(p.t, "it did not print "+text, "%q", p.seen)
		}
	}
}

// TestApprovalLinks deploys with the example: two people, each with a browser, follow the link and answer.
func TestApprovalLinks(t *testing.T) {
	program := buildExample(t)
	dir := filepath.Join(t.TempDir(), "site")
	deploy := start(t, program, "run", "-dir", dir, "-ask", "never", "v1")
	site := deploy.line("The site is at ")
	deploy.line("waits for 2 people")
	serve := start(t, program, "serve", "-dir", dir, "-address", "127.0.0.1:0")
	links := strings.Fields(serve.line("The links are at "))[0]

	ann := openBrowser(t)
	ann.open(links)
	ann.click("main a")
	ann.see("form")
	require.Contains(t, ann.text("main"), "May version v1 of the site go live? 0 of 2 have answered.")
	// The style counts, so the policy lets it in.
	require.Equal(t, "rgb(26, 86, 160)", ann.script(`getComputedStyle(document.querySelector("button")).backgroundColor`))
	// Without a choice the browser itself does not send the form.
	ann.fill("#who", "Ann")
	ann.click("button")
	require.Equal(t, "false", ann.script(`String(document.querySelector("form").checkValidity())`))
	ann.answer("approve", "Ann", "looks good")
	require.Contains(t, ann.text("main"), "Answers of others may still be needed.")
	// Again, as by an impatient click: nothing changes.
	ann.back()
	ann.answer("approve", "Ann", "")
	require.Equal(t, "You have answered already", ann.text("h1"))

	bob := openBrowser(t)
	bob.open(links)
	bob.click("main a")
	bob.see("form")
	require.Contains(t, bob.text("main"), "1 of 2 have answered.")
	bob.answer("approve", "Bob", "")
	require.Contains(t, bob.text("main"), "it is decided now")
	deploy.line("v1 is live, approved by Ann and Bob.")
	require.NotEmpty(t, site)
}
