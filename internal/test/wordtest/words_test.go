// Package wordtest checks that names use the terms of the glossary, docs/reference/glossary.md.
package wordtest

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

var root = filepath.Join("..", "..", "..")

// retired maps each word that no name may contain to the term to use instead. A phrase of several words is matched in
// names that contain these words in a row, such as onDuty.
var retired = map[string]string{
	"absorb":     "tolerate",
	"agenda":     "partition timer",
	"attendant":  "completion follower",
	"board":      "dispatch queue",
	"courier":    "child relay",
	"crew":       "worker pool",
	"crowd":      "peers",
	"debt":       "permit return",
	"dose":       "input",
	"duty":       "keeper task",
	"errand":     "relay entry",
	"gives back": "release",
	"give back":  "release",
	"go ahead":   "try lead",
	"goes ahead": "try lead",
	"greet":      "announce",
	"handout":    "claim reply",
	"heir":       "handoff",
	"let go":     "release",
	"meddle":     "interfere",
	"meeting":    "barrier",
	"mend":       "repair",
	"neighbour":  "run ID allocator",
	"news":       "result or update",
	"obey":       "handle control",
	"on duty":    "wake ring",
	"patient":    "fixture",
	"patrol":     "presence loop",
	"rota":       "wake ring",
	"shift":      "worker run",
	"spot":       "shard",
	"stray":      "orphan",
	"taker":      "claimant",
	"tangle":     "random operation mix",
	"vitals":     "liveness",
	"weave":      "random DAG",
	"wound":      "corruption",
}

// inflections are the endings with which a retired word is found as well.
var inflections = []string{"s", "ed", "d", "r", "er", "ing"}

// pending lists the folders whose names still contain retired words, each with these words ("*": all). Take a word off
// as soon as its folder does without it; TestPendingWordsAreUsed logs those.
var pending = map[string][]string{
	// On the wire or stored: the function ffx_end_errand, the fields absorbed* of flows and executions, and the
	// channels ffx:rota:*.
	"lua": {"absorb", "errand", "rota"},
}

// foreign are names that contain a retired word in another sense.
var foreign = []string{"greeting.go"}

var (
	goFile    = regexp.MustCompile(`\.go$`)
	luaFile   = regexp.MustCompile(`\.lua$`)
	dotted    = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$`)
	luaString = regexp.MustCompile(`(?s)--\[\[.*?\]\]|\[\[.*?\]\]|--[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`)
	luaName   = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// name is a name in a file: an identifier, the name of the file itself, or an event or metric in a string.
type name struct {
	path, text string
	line       int
}

// TestRetiredWords fails on identifiers, file names, and names of events and metrics that contain a retired word.
func TestRetiredWords(t *testing.T) {
	t.Parallel()
	for _, n := range names(t) {
		for _, word := range retiredIn(n.text) {
			if !isPending(n.path, word) {
				t.Errorf("%s:%d: %s contains the retired word %q: the term is %q", n.path, n.line, n.text, word, retired[word])
			}
		}
	}
}

// TestPendingWordsAreUsed logs entries of pending that no name needs any longer.
func TestPendingWordsAreUsed(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for _, n := range names(t) {
		for _, word := range retiredIn(n.text) {
			for folder := range pending {
				if within(n.path, folder) {
					used[folder+" "+word] = true
				}
			}
		}
	}
	for folder, words := range pending {
		for _, word := range words {
			if word != "*" && !used[folder+" "+word] {
				t.Logf("%s: no name contains %q now, so pending need not list it", folder, word)
			}
		}
		if slices.Contains(words, "*") {
			for word := range retired {
				if used[folder+" "+word] {
					t.Logf("%s: names contain %q", folder, word)
				}
			}
		}
	}
}

// TestWordsOfNames checks how names are taken apart.
func TestWordsOfNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"onDuty": {"on duty", "duty"}, "ffx_heirs": {"heir"}, "HTTPBoard": {"board"}, "keeper_strays.go": {"stray"},
		"keeper.errand_failed": {"errand"}, "mended": {"mend"}, "keyboard": nil, "recommend": nil, "rotate": nil,
		"quotation": nil, "spotted": nil, "giveBack": {"give back"}, "giveItBack": nil,
	} {
		require.Equal(t, want, retiredIn(text), text)
	}
}

// names returns the names of all Go and Lua sources.
func names(t *testing.T) []name {
	t.Helper()
	found, err := collect()
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

var collect = sync.OnceValues(func() (found []name, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); path != root && (base == "testdata" || base == "wordtest" || strings.HasPrefix(base, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		isGo := goFile.MatchString(path)
		if !isGo && !luaFile.MatchString(path) {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		found = append(found, name{rel, d.Name(), 1})
		if isGo {
			found = append(found, goNames(rel, source)...)
		} else {
			found = append(found, luaNames(rel, string(source))...)
		}
		return nil
	})
	return found, err
})

// goNames returns the identifiers of a Go file, and strings that have the form of events or metrics.
func goNames(path string, source []byte) []name {
	var found []name
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	for {
		pos, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return found
		case token.IDENT:
			found = append(found, name{path, text, file.Line(pos)})
		case token.STRING:
			if value, err := strconv.Unquote(text); err == nil && dotted.MatchString(value) {
				found = append(found, name{path, value, file.Line(pos)})
			}
		}
	}
}

// luaNames returns the identifiers of a Lua file, without comments and strings.
func luaNames(path, source string) []name {
	source = luaString.ReplaceAllStringFunc(source, func(text string) string {
		return " " + strings.Repeat("\n", strings.Count(text, "\n"))
	})
	var found []name
	line := 0
	for text := range strings.Lines(source) {
		line++
		for _, n := range luaName.FindAllString(text, -1) {
			found = append(found, name{path, n, line})
		}
	}
	return found
}

// retiredIn returns the retired words that a name contains, in the order in which they appear.
func retiredIn(text string) []string {
	if slices.Contains(foreign, text) {
		return nil
	}
	var found []string
	words := split(text)
	for i := range words {
		if base, ok := baseOf(words[i]); ok {
			found = append(found, base)
		}
		if i+1 < len(words) {
			if phrase := words[i] + " " + words[i+1]; retired[phrase] != "" {
				found = append(found, phrase)
			}
		}
	}
	return found
}

// baseOf returns the retired word of which a word is a form.
func baseOf(word string) (string, bool) {
	if retired[word] != "" {
		return word, true
	}
	for _, ending := range inflections {
		if base, ok := strings.CutSuffix(word, ending); ok && retired[base] != "" {
			return base, true
		}
	}
	return "", false
}

// split returns the words of a name in camel or snake case, in lower case.
func split(text string) []string {
	var words []string
	var word []rune
	runes := []rune(text)
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = nil
		}
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r) && i > 0 && unicode.IsLower(runes[i-1]),
			unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1]):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

// isPending reports whether a name of the file may still contain the word.
func isPending(path, word string) bool {
	for folder, words := range pending {
		if within(path, folder) && (slices.Contains(words, "*") || slices.Contains(words, word)) {
			return true
		}
	}
	return false
}

// within reports whether a file is in the folder or one below it.
func within(path, folder string) bool { return strings.HasPrefix(path, folder+"/") }
