package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

type thing struct {
	Name string `json:"name"`
	Size int    `json:"size"`
	Tags []int  `json:"tags"`
}

var things = View[thing]{
	Columns: []Column[thing]{
		{Name: "name", Text: func(t thing) string { return t.Name }},
		{Name: "secret size", Wide: true, Text: func(thing) string { return "7" }},
	},
	Name: func(t thing) string { return t.Name },
}

func printed(t *testing.T, o Options, items ...thing) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, o.Check())
	require.NoError(t, List(New(&b, o), things, items))
	return b.String()
}

func TestFormats(t *testing.T) {
	t.Parallel()
	a, b := thing{Name: "a", Size: 1}, thing{Name: "no", Size: 2, Tags: []int{3}}
	for format, want := range map[Format]string{
		Table: "NAME\na\nno\n", Wide: "NAME  SECRET SIZE\na     7\nno    7\n", Name: "a\nno\n",
		JSONL: `{"name":"a","size":1,"tags":null}` + "\n" + `{"name":"no","size":2,"tags":[3]}` + "\n",
		JSON: "[\n  {\n    \"name\": \"a\",\n    \"size\": 1,\n    \"tags\": null\n  },\n" +
			"  {\n    \"name\": \"no\",\n    \"size\": 2,\n    \"tags\": [\n      3\n    ]\n  }\n]\n",
		YAML: "- name: a\n  size: 1\n  tags: null\n- name: \"no\"\n  size: 2\n  tags:\n    - 3\n",
	} {
		require.Equal(t, want, printed(t, Options{Format: format}, a, b), format)
	}
	require.Equal(t, "SECRET SIZE  NAME\n7            a\n", printed(t, Options{Format: Table, Columns: []string{"secret size", "name"}}, a))
	require.Equal(t, "a\n", printed(t, Options{Format: Table, NoHeaders: true}, a))
	require.Equal(t, "[]\n", printed(t, Options{Format: JSON}))
	require.Equal(t, "[]\n", printed(t, Options{Format: YAML}))
	require.Empty(t, printed(t, Options{Format: JSONL}))
	require.Error(t, Options{Format: "xml"}.Check())
	require.Error(t, Options{Format: JSON, Columns: []string{"name"}}.Check())
	require.Error(t, CheckColumns([]string{"nonsense"}, things.ColumnNames()))
}

func TestHiddenCharactersInYAML(t *testing.T) {
	t.Parallel()
	text := printed(t, Options{Format: YAML}, thing{Name: nasty})
	requireHarmless(t, text)
	var back []thing
	require.NoError(t, yaml.Unmarshal([]byte(text), &back))
	require.Equal(t, nasty, back[0].Name, "YAML is exact")
}

// On a terminal the states of a table have colours, which count for no width; nothing else has.
func TestColors(t *testing.T) {
	t.Parallel()
	states := View[string]{Columns: []Column[string]{
		{Name: "state", Text: func(s string) string { return s }}, {Name: "run", Text: func(s string) string { return s }},
	}}
	var b bytes.Buffer
	require.NoError(t, List(New(&b, Options{Format: Table, Color: true}), states, []string{"failed", "running, paused", "odd\x1b[31m"}))
	require.Equal(t, "STATE            RUN\n\x1b[31mfailed\x1b[0m           failed\n"+
		"\x1b[36mrunning, paused\x1b[0m  running, paused\nodd\\x1b[31m      odd\\x1b[31m\n", b.String())
	b.Reset()
	require.NoError(t, List(New(&b, Options{Format: JSONL, Color: true}), states, []string{"failed"}))
	require.Equal(t, "\"failed\"\n", b.String())
}

func TestStream(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	s := NewStream(New(&b, Options{Format: Wide}), things)
	require.NoError(t, s.Print(thing{Name: "a"}))
	require.NoError(t, s.Print(thing{Name: "longer"}))
	require.NoError(t, s.Print(thing{Name: "b"}))
	require.Equal(t, "NAME  SECRET SIZE\na     7\nlonger  7\nb     7\n", b.String())
}

// nasty contains characters that control terminals: C0, delete, C1 (CSI as one character), overrides and isolates of
// direction, tags, separators.
const nasty = "a\x1b[31m\r\n\t\x00\x7f\u009b2J\u202eb\u2066\u200b\ufeff\U000e0041\u2028z"

const shown = `a\x1b[31m\r\n\t\x00\x7f\u009b2J\u202eb\u2066\u200b\ufeff\U000e0041\u2028z`

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "für Zoë 🙂, C:\\dir": "für Zoë 🙂, C:\\dir", nasty: shown, "\xffok\xc3": `\xffok\xc3`, "\u061c": `\u061c`, "'\x1b'": `'\x1b'`,
	} {
		require.Equal(t, want, Visible(text))
	}
	require.Equal(t, "one\n"+`t\x1bwo`, VisibleLines("one\nt\x1bwo"))
	line, err := VisibleJSON(map[string]string{nasty: nasty})
	require.NoError(t, err)
	require.False(t, strings.ContainsFunc(line, isHidden))
	var back map[string]string
	require.NoError(t, json.Unmarshal([]byte(line), &back))
	require.Equal(t, map[string]string{nasty: nasty}, back, "JSON is exact")
}

// requireHarmless fails when a terminal would do anything else than show the text and its line breaks.
func requireHarmless(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text))
	require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && isHidden(r) }), "%q", text)
}

// FuzzVisible prints any text: no part of it acts on the terminal, and text without control characters is printed
// unchanged.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"plain", "a\x1b[2J", "\u009b31m", "\u202eabc", "\xff\xfe", "a\nb", `\x1b`, "\u2028", "🏳️‍🌈", "\"\x7f\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Visible(text)
		require.True(t, utf8.ValidString(got))
		require.False(t, strings.ContainsFunc(got, isHidden), "%q", got)
		require.Equal(t, got, Visible(got), "printed text is printed unchanged")
		require.False(t, strings.ContainsFunc(strings.ReplaceAll(VisibleLines(text), "\n", ""), isHidden))
		shown, err := VisibleJSON(map[string]string{"text": text})
		require.NoError(t, err)
		require.False(t, strings.ContainsFunc(shown, isHidden), "%q", shown)
		var back map[string]string
		require.NoError(t, json.Unmarshal([]byte(shown), &back), "%q", shown)
		if utf8.ValidString(text) {
			require.Equal(t, text, back["text"])
		}
	})
}
