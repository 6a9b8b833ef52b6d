package rebuild

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// source is a program that prints a word and waits for SIGTERM, which it may ignore.
const source = `package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("begin", %q, os.Getenv("FLOWFABRIC_URL"))
	<-asked
	fmt.Println("end", %q)
	%s
}
`

// rig is a loop with its lines of output.
type rig struct {
	t     *testing.T
	dir   string
	lines chan string
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, word, after string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), lines: make(chan string, 100), ended: make(chan error, 1)}
	require.NoError(t, os.MkdirAll(filepath.Join(r.dir, "cmd"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "go.mod"), []byte("module watched\n\ngo 1.26\n"), 0o644))
	r.write(fmt.Sprintf(source, word, word, after))
	read, write := io.Pipe()
	go func() {
		scanner := bufio.NewScanner(read)
		for scanner.Scan() {
			r.lines <- scanner.Text()
		}
	}()
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	l := &Loop{
		Package: "./cmd", Dir: r.dir, Env: []string{"FLOWFABRIC_URL=valkey://here", "GOWORK=off"}, Stdout: write, Stderr: write,
		Say:   func(format string, args ...any) { fmt.Fprintf(write, format+"\n", args...) },
		Every: 5 * time.Millisecond, Grace: 20 * time.Millisecond,
	}
	if !strings.Contains(after, "select") {
		l.Grace = time.Minute
	}
	go func() { r.ended <- l.Run(ctx); write.Close() }()
	t.Cleanup(func() {
		stop()
		<-r.ended
	})
	return r
}

// write changes the program, whose file also has another size each time.
func (r *rig) write(text string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, "cmd", "main.go"), []byte(text), 0o644))
}

// until waits for a line.
func (r *rig) until(want string) {
	r.t.Helper()
	for {
		select {
		case line := <-r.lines:
			if strings.Contains(line, want) {
				return
			}
		case <-time.After(2 * time.Minute):
			r.t.Fatalf("no line has %q", want)
		}
	}
}

// The program is built and run again when a file changes. It keeps running while the sources do not build.
func TestRebuild(t *testing.T) {
	t.Setenv("GOWORK", "off")
	r := start(t, "one", "")
	r.until("begin one valkey://here")
	r.write(fmt.Sprintf(source, "second", "second", ""))
	r.until("end one")
	r.until("begin second")
	r.write("package main\n\nfunc main() { undefined() }\n")
	r.until("does not build, the program of before keeps running")
	r.until("undefined: undefined")
	r.write(fmt.Sprintf(source, "the third", "the third", ""))
	r.until("end second")
	r.until("begin the third")
	r.stop()
	r.until("end the third")
}

// A program that ignores SIGTERM is killed after the grace; one that ends by itself is run again after a change.
func TestProgramsThatMisbehave(t *testing.T) {
	t.Setenv("GOWORK", "off")
	r := start(t, "deaf", "select {}")
	r.until("begin deaf")
	r.write("package main\n\nfunc main() { println(\"short\"); panic(\"fault\") }\n")
	r.until("short")
	r.until("ended: exit status 2; it runs again when a file changes")
	r.write("package main\n\nfunc main() { println(\"again\") }\n")
	r.until("again")
	r.until("ended: exit status 0")
	r.write("package main\n\nfunc main() { }}\n")
	r.until("does not build, the program is stopped")
}

// A missing package, and a package without a main function, are errors at once.
func TestNoProgram(t *testing.T) {
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module watched\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\n"), 0o644))
	for path, want := range map[string]string{".": "must be a program, it is package x", "./nowhere": "nowhere"} {
		l := &Loop{Package: path, Dir: dir}
		require.ErrorContains(t, l.Run(t.Context()), want)
	}
}
