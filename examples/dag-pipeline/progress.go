package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// display shows the progress of a run: on a terminal as a few lines that are redrawn, elsewhere as a line for every
// change. It is not safe for concurrent use.
type display struct {
	out    io.Writer
	redraw bool
	begun  time.Time
	drawn  int               // lines on the terminal that the next drawing replaces
	shown  map[string]string // the last line about a node, by its name
	silent bool              // the engine did not answer the last time
}

func newDisplay(out io.Writer, redraw bool) *display {
	return &display{out: out, redraw: redraw, begun: time.Now(), shown: make(map[string]string)}
}

// isTerminal reports whether lines can be drawn again on a file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
}

// found prints at the start which nodes of the run are already finished.
func (d *display) found(s *runtime.RunDescription) {
	finished := finished(s)
	if s.State != fabrictype.RunRunning {
		fmt.Fprintf(d.out,
			"Run %s ended %s: %s. Its %d nodes do not run again; -run with another id takes a new census.\n",
			s.Run, s.ClosedAt.Local().Format(time.DateTime), s.State, len(s.Nodes))
	} else {
		fmt.Fprintf(d.out, "Run %s goes on: %d of %d nodes are finished and do not run again: %s\n", s.Run,
			len(finished),
			len(s.Nodes), orNone(finished))
		if held := names(s, active); len(held) > 0 {
			fmt.Fprintf(d.out, "Begun, but not finished, by a process that is gone or still runs: %s\n",
				strings.Join(held, " "))
		}
	}
	for _, n := range s.Nodes {
		d.shown[n.Name] = status(n)
	}
}

// show updates the display.
func (d *display) show(s *runtime.RunDescription) {
	d.silent = false
	if d.redraw {
		d.draw(s)
		return
	}
	for _, n := range s.Nodes {
		text := status(n)
		if text == d.shown[n.Name] || waits(n) {
			continue
		}
		d.shown[n.Name] = text
		fmt.Fprintf(d.out, "%6.1fs %3.0f %%  %-14s %s\n", time.Since(d.begun).Seconds(), done(s), n.Name, text)
	}
}

// trouble prints that the state of the run could not be read.
func (d *display) trouble(err error) {
	if d.silent {
		return
	}
	d.silent, d.drawn = true, 0
	fmt.Fprintf(d.out, "The engine does not answer, trying again: %v\n", err)
}

const (
	screenWidth = 79
	barWidth    = 24
	// drawnNodes is how many running nodes are drawn at most.
	drawnNodes = 12
)

// draw replaces the previous output.
func (d *display) draw(s *runtime.RunDescription) {
	lines := []string{fmt.Sprintf("%s %3.0f %%  %d of %d nodes, %.1f s", gauge(done(s)), done(s), len(finished(s)),
		len(s.Nodes),
		time.Since(d.begun).Seconds())}
	more := 0
	for _, n := range s.Nodes {
		if waits(n) || n.State == fabrictype.NodeSucceeded {
			continue
		}
		if len(lines) > drawnNodes {
			more++
			continue
		}
		lines = append(lines, fmt.Sprintf("  %-12s %s %3.0f %%  %s", n.Name, gauge(n.Percent), n.Percent, describe(n)))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	var b strings.Builder
	if d.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", d.drawn)
	}
	b.WriteString("\r\x1b[J") // from here to the end of the screen
	for _, line := range lines {
		b.WriteString(cutTo(line, screenWidth) + "\n")
	}
	d.drawn = len(lines)
	fmt.Fprint(d.out, b.String())
}

// describe returns the text next to the gauge of a node.
func describe(n fabrictype.Node) string {
	if n.State == active && n.Attempts == 1 && n.Message != "" {
		return n.Message
	}
	return strings.TrimSpace(status(n) + " " + n.Message)
}

const active = fabrictype.NodeActive

// status is the state of a node in words.
func status(n fabrictype.Node) string {
	switch n.State {
	case active:
		if n.Attempts > 1 {
			return fmt.Sprintf("runs, attempt %d", n.Attempts)
		}
		return "runs"
	case fabrictype.NodeSucceeded:
		return "finished after " + n.CompletedAt.Sub(n.StartedAt).Round(time.Millisecond).String()
	case fabrictype.NodeDelayed, fabrictype.NodeFailed, fabrictype.NodeCancelled, fabrictype.NodeExpired:
		return strings.TrimSpace(fmt.Sprintf("%s %s", n.State, n.Reason))
	}
	return string(n.State)
}

// waits reports whether a node has not started.
func waits(n fabrictype.Node) bool {
	return n.State == fabrictype.NodeWaiting || n.State == fabrictype.NodeWaitingChildren
}

// finished lists the nodes that have their result.
func finished(s *runtime.RunDescription) []string { return names(s, fabrictype.NodeSucceeded) }

func names(s *runtime.RunDescription, state fabrictype.NodeState) []string {
	var list []string
	for _, n := range s.Nodes {
		if n.State == state {
			list = append(list, n.Name)
		}
	}
	return list
}

// done is how much of a run is done in percent, each node counting the same.
func done(s *runtime.RunDescription) float64 {
	if len(s.Nodes) == 0 {
		return 0
	}
	sum := 0.0
	for _, n := range s.Nodes {
		switch n.State {
		case fabrictype.NodeSucceeded:
			sum += 100
		case active:
			sum += n.Percent
		}
	}
	return sum / float64(len(s.Nodes))
}

func gauge(percent float64) string {
	full := min(barWidth, int(percent/100*barWidth))
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full) + "]"
}

func cutTo(line string, width int) string {
	runes := []rune(line)
	return string(runes[:min(width, len(runes))])
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}
