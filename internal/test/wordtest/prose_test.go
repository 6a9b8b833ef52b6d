package wordtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tics are the patterns that comments and pages avoid, with their replacements.
var tics = []struct {
	pattern *regexp.Regexp
	write   string
}{
	{regexp.MustCompile(`(?i)\bwhat\b`), "name the thing: the result, the fields"},
	{regexp.MustCompile(`(?i)\b(that|those) of\b`), "repeat the noun, or 's"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) no\b`), "is not a"},
	{regexp.MustCompile(`(?i)\b(stands?|stood|standing)\b`), "is, is stored"},
	{regexp.MustCompile(`(?i)\b(tells?|told|telling)\b`), "notifies, returns"},
	{regexp.MustCompile(`(?i)\bbehind\b`), "after, following"},
	{regexp.MustCompile(`(?i)\bbeside\b`), "next to, in addition to"},
	{regexp.MustCompile(`(?i)\b(hears?|heard|hearing)\b`), "receives"},
	{regexp.MustCompile(`(?i)\b(go|goes|going|gone|went) on\b`), "continues"},
	{regexp.MustCompile(`(?i)\b(look|looks|looked|looking) at\b`), "reads, checks"},
	{regexp.MustCompile(`(?i)\b(somebody|nobody|whoever)\b`), "the user, no caller, another worker"},
}

// fixed are phrases that contain a tic in its proper sense, or as the name of a column.
var fixed = regexp.MustCompile(`(?i)\b(is|are|was|were) no\s+(longer|more than|less than)\b|` +
	`\bbehind (a|an|the|one|its|your) (\w+ )?(proxy|proxies|load balancer|firewall|gateway)\b|\bbehind (proxies|TLS)\b|` +
	`every, behind, summary`)

// agreed are the numbers of tics that are left. They only shrink.
var agreed = map[string]int{"go": 0, "tests": 0, "lua": 0, "docs": 0}

// TestProse fails when the comments of Go code, of Go tests and of Lua, or the pages, have more tics than agreed.
// FLOWFABRIC_PROSE lists the tics below a folder: FLOWFABRIC_PROSE=lua/frame.
func TestProse(t *testing.T) {
	t.Parallel()
	counts := make(map[string]int)
	listed := os.Getenv("FLOWFABRIC_PROSE")
	eachText(t, func(kind, path string, line int, text string) {
		for _, f := range ticsIn(text) {
			counts[kind]++
			if listed != "" && within(path, listed) {
				t.Logf("%s:%d: %q: %s", path, line+f.line, f.found, f.write)
			}
		}
	})
	for _, kind := range slices.Sorted(maps.Keys(agreed)) {
		if counts[kind] > agreed[kind] {
			t.Errorf("%s: %d phrases to rewrite, %d are agreed; FLOWFABRIC_PROSE=<folder> go test -v -run TestProse lists them",
				kind, counts[kind], agreed[kind])
		} else if counts[kind] < agreed[kind] {
			t.Logf("%s: %d phrases to rewrite are left of %d", kind, counts[kind], agreed[kind])
		}
	}
}

func TestProse_Patterns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"It reads what is there.":                    "what",
		"What is a lane? It is a queue.":             "",
		"The end is that of the run.":                "that of",
		"It is no longer there, and is no run.":      "is no",
		"It runs behind a proxy.":                    "",
		"The `what` of \"what is it\" is a field.":   "",
		"See [the log](see-who-changed-what.md).":    "",
		"One line tells\nof the next, which stands.": "tells stands",
		"It understands, and goes\non.":              "goes on",
		"A key that is no\n longer used.":            "",
		"nolint:forbidigo // a server hears nothing": "hears",
	} {
		var found []string
		for _, f := range ticsIn(text) {
			found = append(found, f.found)
		}
		require.Equal(t, want, strings.Join(found, " "), text)
	}
}

type tic struct {
	line         int // of the text, from 0 on
	found, write string
}

// quoted are code, quotations and the targets of links.
var quoted = regexp.MustCompile("`[^`]*`|\"[^\"\n]*\"|“[^”]*”|\\]\\([^)\\s]*\\)")

var blank = regexp.MustCompile(`[^\n]`)

func ticsIn(text string) []tic {
	hide := func(s string) string { return blank.ReplaceAllString(s, "_") }
	flat := strings.ReplaceAll(quoted.ReplaceAllStringFunc(text, hide), "\n", " ")
	flat = fixed.ReplaceAllStringFunc(flat, hide)
	var list []tic
	for _, p := range tics {
		for _, at := range p.pattern.FindAllStringIndex(flat, -1) {
			if rest := flat[at[1]:]; isQuestion(rest) {
				continue
			}
			list = append(list, tic{line: strings.Count(text[:at[0]], "\n"), found: flat[at[0]:at[1]], write: p.write})
		}
	}
	slices.SortStableFunc(list, func(a, b tic) int { return a.line - b.line })
	return list
}

// isQuestion reports whether the sentence that ends in a text is a question.
func isQuestion(rest string) bool {
	end := regexp.MustCompile(`[.?!:;|]( |$)`).FindStringIndex(rest)
	return end != nil && rest[end[0]] == '?'
}

// eachText calls a function for each comment and page of the repository, with the line before it.
func eachText(t *testing.T, visit func(kind, path string, line int, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(root, file)
		path = filepath.ToSlash(path)
		if d.IsDir() {
			if slices.Contains([]string{"node_modules", "third_party", "testdata", "dist", ".git", ".cache"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		switch {
		case strings.HasSuffix(path, "_gen.go") || strings.HasSuffix(path, ".gen.lua"):
		case strings.HasSuffix(path, ".go"):
			return eachGoComment(file, func(line int, text string) {
				kind := "go"
				if strings.HasSuffix(path, "_test.go") || within(path, "internal/test") {
					kind = "tests"
				}
				visit(kind, path, line, text)
			})
		case strings.HasSuffix(path, ".lua"):
			return eachLine(file, luaComments, func(line int, text string) { visit("lua", path, line, text) })
		case strings.HasSuffix(path, ".md"):
			return eachLine(file, paragraphs, func(line int, text string) { visit("docs", path, line, text) })
		}
		return nil
	})
	require.NoError(t, err)
}

func eachGoComment(file string, visit func(line int, text string)) error {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range parsed.Comments {
		var lines []string
		for _, c := range group.List {
			text := strings.TrimPrefix(c.Text, "//")
			if strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "go:") {
				text = "" // code, directives
			}
			lines = append(lines, text)
		}
		visit(files.Position(group.Pos()).Line, strings.Join(lines, "\n"))
	}
	return nil
}

func eachLine(file string, split func(lines []string, visit func(line int, text string)), visit func(line int, text string)) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	split(strings.Split(string(data), "\n"), visit)
	return nil
}

// declared are the parts of a header that declare names of the wire or of the stored form.
var declared = regexp.MustCompile(`^ @(reply|record|error|beside|piece|group) .*|^ @(column|bit) +\w+ +\w+|^ @call +\w+\([^)]*\)`)

// luaComments joins comments of lines in a row, without declarations.
func luaComments(lines []string, visit func(line int, text string)) {
	var group []string
	for i, line := range append(lines, "") {
		_, text, found := strings.Cut(line, "--")
		if found && strings.Count(line[:strings.Index(line, "--")], "'")%2 == 0 {
			if alone := strings.TrimSpace(line[:strings.Index(line, "--")]) == ""; alone {
				group = append(group, declared.ReplaceAllString(text, ""))
				continue
			}
			visit(i+1, text)
		}
		if group != nil {
			visit(i+1-len(group), strings.Join(group, "\n"))
			group = nil
		}
	}
}

// paragraphs joins the lines of a page between empty lines, without blocks of code.
func paragraphs(lines []string, visit func(line int, text string)) {
	var group []string
	inCode := false
	for i, line := range append(lines, "") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			inCode = !inCode
		}
		if !fence && !inCode && strings.TrimSpace(line) != "" {
			group = append(group, line)
			continue
		}
		if group != nil {
			visit(i+1-len(group), strings.Join(group, "\n"))
			group = nil
		}
	}
}
