// Package wording has the words for runs, builds, workers and numbers that several commands print.
package wording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/fabrictype"
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
