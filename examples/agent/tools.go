package main

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed corpus/*.md
var corpus embed.FS

// Names of the tools.
const (
	listName      = "list_files"
	searchName    = "search_text"
	calculateName = "calculate"
	writeName     = "write_note"
)

// maxResult bounds the result of a tool, in bytes.
const maxResult = 8 << 10

// tool is a function that the model can call.
type tool struct {
	spec functionSpec
	// changes reports that the tool changes something, so a person has to approve each call.
	changes bool
	run     func(arguments string) (string, error)
}

// errArguments marks an error that the model has made: it is a result that the model reads, and no failure.
var errArguments = errors.New("bad arguments")

// Arguments of the tools.
type (
	searchArguments struct {
		Query string `json:"query"`
	}
	calculateArguments struct {
		Expression string `json:"expression"`
	}
	writeArguments struct {
		File string `json:"file"`
		Text string `json:"text"`
	}
)

// newTools returns the tools, by name. Notes are written to a directory.
func newTools(notes string) map[string]tool {
	tools := []tool{
		{
			spec: functionSpec{Name: listName, Description: "Lists the files of texts.", Parameters: object()},
			run:  func(string) (string, error) { return listFiles() },
		},
		{
			spec: functionSpec{
				Name: searchName, Description: "Finds the lines of the texts that have most words of a query.",
				Parameters: object("query"),
			},
			run: withArguments(func(a searchArguments) (string, error) { return searchText(a.Query) }),
		},
		{
			spec: functionSpec{
				Name: calculateName, Description: "Evaluates an expression of numbers, + - * / and parentheses.",
				Parameters: object("expression"),
			},
			run: withArguments(func(a calculateArguments) (string, error) {
				value, err := calculate(a.Expression)
				if err != nil {
					return "", fmt.Errorf("%w: expression %q: %w", errArguments, a.Expression, err)
				}
				return strconv.FormatFloat(value, 'f', -1, 64), nil
			}),
		},
		{
			spec: functionSpec{
				Name: writeName, Description: "Writes a note; file is a name such as answer.md.",
				Parameters: object("file", "text"),
			},
			changes: true,
			run:     withArguments(func(a writeArguments) (string, error) { return writeNote(notes, a) }),
		},
	}
	byName := make(map[string]tool, len(tools))
	for _, t := range tools {
		byName[t.spec.Name] = t
	}
	return byName
}

// object is the JSON Schema of an object with texts.
func object(texts ...string) json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for _, name := range texts {
		properties[name] = map[string]string{"type": "string"}
		required = append(required, name)
	}
	// It has only texts, so it encodes.
	data, _ := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	return data
}

// withArguments decodes the arguments of a call.
func withArguments[A any](run func(A) (string, error)) func(string) (string, error) {
	return func(text string) (string, error) {
		var a A
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			return "", fmt.Errorf("%w: %w", errArguments, err)
		}
		return run(a)
	}
}

func listFiles() (string, error) {
	entries, err := corpus.ReadDir("corpus")
	if err != nil {
		return "", err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return strings.Join(names, "\n"), nil
}

// maxHits is how many lines a search finds.
const maxHits = 5

var wordPattern = regexp.MustCompile(`\pL{4,}`)

// searchText returns the lines with most words of a query, the best first. Words of less than four letters and a plural
// s do not count.
func searchText(query string) (string, error) {
	var words []string
	for _, word := range wordPattern.FindAllString(strings.ToLower(query), -1) {
		words = append(words, strings.TrimSuffix(word, "s"))
	}
	slices.Sort(words)
	words = slices.Compact(words)
	type hit struct {
		text  string
		score int
	}
	var hits []hit
	entries, err := corpus.ReadDir("corpus")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		text, err := corpus.ReadFile("corpus/" + e.Name())
		if err != nil {
			return "", err
		}
		for i, line := range strings.Split(string(text), "\n") {
			score, lower := 0, strings.ToLower(line)
			for _, word := range words {
				if strings.Contains(lower, word) {
					score++
				}
			}
			if score > 0 {
				hits = append(hits, hit{fmt.Sprintf("%s:%d: %s", e.Name(), i+1, line), score})
			}
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	if len(hits) == 0 {
		return "nothing found", nil
	}
	var found []string
	for _, h := range hits[:min(maxHits, len(hits))] {
		found = append(found, h.text)
	}
	return strings.Join(found, "\n"), nil
}

var noteName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}\.md$`)

// writeNote writes a note. To write it again changes nothing, so a repeated attempt does no harm.
func writeNote(dir string, a writeArguments) (string, error) {
	if !noteName.MatchString(a.File) {
		return "", fmt.Errorf("%w: file %q: must be lower-case letters, digits and '-', with .md behind", errArguments,
			a.File)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, a.File), []byte(a.Text+"\n"), 0o644); err != nil {
		return "", err
	}
	return "written to " + a.File, nil
}
