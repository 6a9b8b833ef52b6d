// Package wording has the words for runs, builds, workers and numbers that several commands print.
package wording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// Counted is a number with its noun: "1 time", "2 times".
func Counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

func Names[T any](items []T, name func(T) string) []string {
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = name(item)
	}
	return list
}

// Path is a run as one argument.
func Path(n httpapi.RunName) string { return n.Flow + "/" + n.Run }

// Run is a run in the words of a sentence.
func Run(n httpapi.RunName) string { return fmt.Sprintf("run %s of flow %s", n.Run, n.Flow) }

// Number shows a number; zero is nothing.
func Number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// Compact is a JSON text for a cell.
func Compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

func WorkerState(w fabrictype.Worker) string {
	if w.State == "running" && !w.DrainRequestedAt.IsZero() {
		return "asked to drain"
	}
	return string(w.State)
}

// Build is a build in a cell: its version and the beginning of its revision.
func Build(b fabrictype.Build) string {
	revision := b.Revision[:min(len(b.Revision), 12)]
	if b.Modified {
		revision += "+"
	}
	return cmp.Or(strings.TrimSpace(b.Version+" "+revision), "-")
}

// State is the state of a node in words.
func State(s fabrictype.NodeState) string {
	if s == fabrictype.NodeWaitingChildren {
		return "waiting for runs"
	}
	return strings.ReplaceAll(string(s), "_", " ")
}

// Event is the kind of an event in words.
func Event(kind fabrictype.EventKind) string {
	switch kind {
	case fabrictype.EventRunSubmitted:
		return "run started"
	case fabrictype.EventRunSucceeded:
		return "run succeeded"
	case fabrictype.EventSucceeded:
		return "succeeded"
	case eventkind.WaitingChildren:
		return "waits for runs"
	}
	if rest, ofRun := strings.CutPrefix(string(kind), "flow_"); ofRun {
		return "run " + strings.ReplaceAll(rest, "_", " ")
	}
	return strings.ReplaceAll(string(kind), "_", " ")
}

// Took is the time from one moment to another one for people, or until now when it has not come; "-" before it began.
func Took(from, to, now time.Time) string {
	if from.IsZero() || from.After(now) && to.IsZero() {
		return "-"
	}
	if to.IsZero() {
		to = now
	}
	d := max(0, to.Sub(from))
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < day:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// FirstLine is the first line of a text, cut to a number of characters.
func FirstLine(text string, most int) string {
	text, _, _ = strings.Cut(text, "\n")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
