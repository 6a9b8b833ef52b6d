package enginerpc

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// goldenText is one message or text with the value that it encodes. parse is nil for elements of lists.
type goldenText struct {
	name, text string
	encode     func() (string, error)
	parse      func(string) (any, bool)
	want       any
}

func TestTextsOnTheWire(t *testing.T) {
	t.Parallel()
	for _, x := range goldenTexts() {
		if got, err := x.encode(); err != nil || got != x.text {
			t.Errorf("%s: text is %q, %v, want %q", x.name, got, err, x.text)
		}
		if x.parse == nil {
			continue
		}
		if got, ok := x.parse(x.text); !ok || !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %q is read as %+v, %v, want %+v", x.name, x.text, got, ok, x.want)
		}
		for _, other := range []string{"", " ", "gibberish", "x 1 2 3"} {
			if got, ok := x.parse(other); ok && !strings.Contains(other, " ") {
				t.Errorf("%s: %q is read as %+v", x.name, other, got)
			}
		}
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	t.Parallel()
	p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 12}
	if m, ok := ParseNoneMessage("none 12 more"); !ok || m.Partition != p {
		t.Errorf("a part that a later version sends is not ignored: %+v, %v", m, ok)
	}
	if m, ok := ParseCancelMessage("cancel e  expired its time is up"); !ok || m != (CancelMessage{"e", "", "expired", "its time is up"}) {
		t.Errorf("an empty lease: %+v, %v", m, ok)
	}
	if m, ok := ParseDoneMessage("f success"); !ok || m != (DoneMessage{FlowID: "f", Outcome: "success"}) {
		t.Errorf("without a result: %+v, %v", m, ok)
	}
	if m, ok := ParseDoneMessage("f success a result"); !ok || m.Result != "a result" {
		t.Errorf("with a result: %+v, %v", m, ok)
	}
	if m, ok := ParseDueMessage("b7 0"); !ok || m.Partition != (keyspace.Partition{Family: keyspace.BudgetFamily, Index: 7}) || m.Text() != "b7 0" {
		t.Errorf("of a budget: %+v, %v", m, ok)
	}
	for _, text := range []string{"work x 1", "work 70000 1", "work -1 1", "work 1", "works 1 1", "work"} {
		if m, ok := ParseWorkMessage(text); ok {
			t.Errorf("%q is read as %+v", text, m)
		}
	}
}

func TestText_RefusesUnrepresentableValues(t *testing.T) {
	t.Parallel()
	if text, err := (LimitsText{Count: 1, Words: "a\nb"}).Text(); !errors.Is(err, ErrText) {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := (BreachTaskText{Node: "a b"}).Text(); !errors.Is(err, ErrText) {
		t.Errorf("%q, %v", text, err)
	}
}

func TestSplitMany(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a success 1":                       {"a success 1"},
		"many 9 a success10 b failed 1":     {"a success", "b failed 1"},
		"many 15 a success 2 b c8 b failed": {"a success 2 b c", "b failed"},
		"many 12 a success \n\n8 b failed":  {"a success \n\n", "b failed"},
		"many ":                             nil,
		"many 9 a success99 b failed":       {"a success"}, // cut off
		"many 9 a success-1 b failed":       {"a success"},
		"many 9 a success8 b failedx":       {"a success", "b failed"},
	} {
		if got := slices.Collect(SplitMany(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func BenchmarkParseWork(b *testing.B) {
	text := WorkMessage{keyspace.Partition{Family: keyspace.FlowFamily, Index: 255}, "1795188498438"}.Text()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := ParseWorkMessage(text); !ok {
			b.Fatal("not read")
		}
	}
}

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
