package output

import (
	"strings"
	"unicode/utf8"
)

// Sequences that begin colours of a terminal, and the one that ends them.
const (
	red, green, yellow, cyan, faint = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[2m"
	plain                           = "\x1b[0m"
)

// colorOf returns the colour of a state of a run, a node, an attempt, a job, a worker or a finding; empty for any
// other text.
func colorOf(text string) string {
	state, _, _ := strings.Cut(text, ",")
	switch state {
	case "failed", "error", "expired", "worker_lost", "run failed", "worker lost":
		return red
	case "succeeded", "success", "completed", "run succeeded":
		return green
	case "suspended", "paused", "warning":
		return yellow
	case "running", "active", "started":
		return cyan
	case "cancelled", "skipped", "info":
		return faint
	}
	return ""
}

// paint returns a state in its colour.
func paint(text string) string {
	if color := colorOf(text); color != "" {
		return color + text + plain
	}
	return text
}

// Mark returns a line whose first character shows a state, in the colour of the state, on a terminal.
func (w *Writer) Mark(line string) string {
	if !w.options.Color {
		return line
	}
	colors := map[rune]string{'✔': green, '✘': red, '⌛': red, '▶': cyan, '⏸': yellow, '⊘': faint, '-': faint}
	mark, size := utf8.DecodeRuneInString(line)
	if color := colors[mark]; color != "" {
		return color + line[:size] + plain + line[size:]
	}
	return line
}

// visibleWidth is the number of characters that a terminal shows of a text that may be painted.
func visibleWidth(text string) int {
	if begin := strings.IndexByte(text, 'm'); begin > 0 && strings.HasPrefix(text, "\x1b[") {
		text = strings.TrimSuffix(text[begin+1:], plain)
	}
	return utf8.RuneCountInString(text)
}
