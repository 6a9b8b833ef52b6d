// Package screen draws on a terminal, and waits between two pictures.
package screen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
)

// Screen draws lines over those that it has drawn before.
type Screen struct {
	to    io.Writer
	mark  func(line string) string
	size  func() (width, height int)
	lines int
}

// New returns a screen on a terminal, or nil for any other output. mark returns a line with its colours.
func New(to io.Writer, mark func(line string) string) *Screen {
	file, ok := to.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &Screen{to: to, mark: mark, size: func() (int, int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}}
}

// Draw replaces the previous lines on the screen. It cuts off text that does not fit: a line that wraps could not be
// replaced.
func (s *Screen) Draw(lines []string) error {
	width, height := s.size()
	if len(lines) > height-1 {
		hidden := len(lines) - (height - 2)
		lines = append(lines[:max(0, height-2):max(0, height-2)], fmt.Sprintf("… %d more lines", hidden))
	}
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines)
	}
	b.WriteString("\r\x1b[J")
	for _, line := range lines {
		b.WriteString(s.mark(cut(output.Visible(line), width-1)))
		b.WriteString("\r\n")
	}
	s.lines = len(lines)
	_, err := io.WriteString(s.to, b.String())
	return err
}

// cut shortens a text to a number of characters.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}

// Stopped reports whether an error means that the user interrupted the command.
func Stopped(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// Sleep waits for a time. It returns false if the context ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
