package enginerpc

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// written is the text of a message or text that was read; ok is false if a part of it does not fit.
func written(m any) (text string, ok bool) {
	switch m := m.(type) {
	case interface{ Text() string }:
		return m.Text(), true
	case interface{ Text() (string, error) }:
		text, err := m.Text()
		return text, err == nil
	}
	return "", false
}

// FuzzTexts parses any text as each message and text that Lua and Go share, and checks that a parsed value survives
// encoding and parsing unchanged.
func FuzzTexts(f *testing.F) {
	for _, x := range goldenTexts() {
		f.Add(x.text)
		f.Add(x.text[:len(x.text)/2])
		f.Add(x.text + " more\n")
	}
	f.Add("here k 9223372036854775807 m")
	f.Add("b65536 -1")
	f.Fuzz(func(t *testing.T, text string) {
		for _, x := range goldenTexts() {
			if x.parse == nil {
				continue
			}
			m, ok := x.parse(text)
			if !ok {
				if !reflect.ValueOf(m).IsZero() {
					t.Errorf("%s: %q is refused, and read as %+v", x.name, text, m)
				}
				continue
			}
			again, fits := written(m)
			if !fits {
				continue
			}
			if same, ok := x.parse(again); !ok || !reflect.DeepEqual(same, m) {
				t.Errorf("%s: %q is read as %+v, written as %q and read as %+v, %v", x.name, text, m, again, same, ok)
			}
		}
	})
}

// FuzzSplitMany splits any text into messages. Messages that are joined are split as they were.
func FuzzSplitMany(f *testing.F) {
	f.Add("many 9 a success10 b failed 1")
	f.Add("many 99999999999999999999 x")
	f.Add("many -1 x")
	f.Add("many 0 0 0 ")
	f.Fuzz(func(t *testing.T, text string) {
		list := slices.Collect(SplitMany(text))
		var b strings.Builder
		b.WriteString(manyPrefix)
		for _, m := range list {
			b.WriteString(strconv.Itoa(len(m)) + " " + m)
		}
		if again := slices.Collect(SplitMany(b.String())); !slices.Equal(list, again) {
			t.Errorf("%q: %q, and joined %q", text, list, again)
		}
	})
}

// FuzzParseClaimed reads any text as the description of an execution that was claimed.
func FuzzParseClaimed(f *testing.F) {
	for _, rest := range []string{"", "i5 a nodei1 f\x00", "f{}", "agb3 xyzi1 a", "i9223372036854775807 ", "b-1 "} {
		f.Add(claimedHead + rest)
	}
	f.Add(strings.Replace(claimedHead, " 5 13 ", " 9223372036854775807 13 ", 1))
	f.Fuzz(func(t *testing.T, text string) {
		var x ClaimedExecution
		if parseClaimed([]byte(text), &x) != "" {
			return
		}
		size := len(x.FlowName) + len(x.RunID) + len(x.TraceContext) + len(x.FlowInput) + len(x.Budgets)
		for _, in := range x.Inputs {
			size += len(in.Name) + len(in.Result)
		}
		if x.Budgets == ofGraph {
			size -= len(ofGraph)
		}
		if size > len(text) || x.ExecutionID.Tag() == "" {
			t.Errorf("%q is read as %+v", text, x)
		}
	})
}
