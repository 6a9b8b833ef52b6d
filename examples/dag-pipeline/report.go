package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Edition is a finished census, as the flow returns it. The files are written by the process that requested the census:
// the nodes may run on other machines, and a second request for a finished census writes its files again.
type Edition struct {
	Ranking Ranking `json:"ranking"`
	Report  string  `json:"report"` // Markdown
	Chart   string  `json:"chart"`  // SVG
}

// Publish combines the parts of an edition. A flow returns the result of one node, and this is that node.
func Publish(_ context.Context, parts Edition) (Edition, error) { return parts, nil }

// Report writes a ranking as Markdown.
func Report(_ context.Context, r Ranking) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b,
		"# Census of %s\n\nThe Go code in `%s`, package by package. A package is a directory here; tests, test data and\nvendored code count. Comment lines are those that are or carry a comment.\n\n", filepath.Base(r.Root), r.Root)
	b.WriteString("| | |\n|---|--:|\n")
	for _, row := range []struct {
		name  string
		count int
	}{
		{"Directories", r.Found.Directories}, {"Packages", r.Packages}, {"Go files", r.Files}, {"Lines", r.Lines},
		{"Comment lines", r.Comments}, {"Functions and methods", r.Functions},
		{"Files that do not parse", r.Unparsable},
		{"Other files", r.Found.Others}, {"Links, not followed", r.Found.Links},
		{"Unreadable directories", r.Found.Unreadable},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row.name, thousands(row.count))
	}
	b.WriteString("\n![The largest packages](chart.svg)\n")
	for _, table := range r.Tables {
		writeTable(&b, table)
	}
	writeFunctions(&b, r.Longest)
	writeBroken(&b, r)
	return b.String(), nil
}

func writeTable(b *strings.Builder, table Table) {
	fmt.Fprintf(b, "\n## %s\n\n", table.Title)
	if len(table.Packages) == 0 {
		fmt.Fprintf(b, "No package has %d lines.\n", ratioLines)
		return
	}
	b.WriteString("| Package | Files | Lines | Functions | Imports | Comments | Longest function | Lines |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|---|--:|\n")
	for _, p := range table.Packages {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %.1f %% | %s | %s |\n", code(p.Dir), thousands(p.Files),
			thousands(p.Lines),
			thousands(p.Functions), thousands(p.Imports), 100*p.CommentRatio(), code(p.Longest.Name),
			thousands(p.Longest.Lines))
	}
}

func writeFunctions(b *strings.Builder, functions []Function) {
	if len(functions) == 0 {
		return
	}
	b.WriteString("\n## Longest functions\n\n| Function | Place | Lines |\n|---|---|--:|\n")
	for _, f := range functions {
		fmt.Fprintf(b, "| %s | %s | %s |\n", code(f.Name), code(fmt.Sprintf("%s:%d", f.File, f.Line)),
			thousands(f.Lines))
	}
}

func writeBroken(b *strings.Builder, r Ranking) {
	if len(r.Broken) == 0 {
		return
	}
	b.WriteString("\n## Files that do not parse\n\n")
	if r.Unparsable > len(r.Broken) {
		fmt.Fprintf(b, "%s of them, here are %d.\n\n", thousands(r.Unparsable), len(r.Broken))
	}
	b.WriteString("| File | Reason |\n|---|---|\n")
	for _, f := range r.Broken {
		fmt.Fprintf(b, "| %s | %s |\n", code(f.File), code(f.Reason))
	}
}

// code writes a text as code in a cell of a table. Sources contain anything, so characters that would end the cell are
// replaced.
func code(text string) string {
	if text == "" {
		return ""
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '`':
			return '\''
		case r < ' ' || r == 0x7f:
			return ' '
		}
		return r
	}, text)
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}

// thousands writes a number with a comma between thousands.
func thousands[N ~int | ~int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	digits := strings.TrimPrefix(text, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if n < 0 {
		return "-" + digits
	}
	return digits
}
