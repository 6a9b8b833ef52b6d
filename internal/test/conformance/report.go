package conformance

import (
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// textLimit bounds one value in a report.
const textLimit = 400

// Write prints a failure for a reader: the call and the differences. Numbers that may be times are followed by their
// form in the trace.
func (f *Failure) Write(w io.Writer, maxDifferences int) {
	fmt.Fprintf(w, "trace %s, step %d: %s", f.Trace.Name, f.Step.Index, f.Step.Name())
	if f.Step.Note != "" {
		fmt.Fprintf(w, "  (%s)", f.Step.Note)
	}
	fmt.Fprintln(w)
	for i, key := range f.Keys {
		fmt.Fprintf(w, "    KEYS[%d] %s\n", i+1, key)
	}
	for i, arg := range f.Args {
		fmt.Fprintf(w, "    ARGV[%d] %s\n", i+1, shorten(f.withTimes(arg)))
	}
	if e, ok := f.Reply.(errorReply); ok {
		fmt.Fprintf(w, "    error text: %s\n", shorten(e.text))
	}
	for _, problem := range f.Problems {
		fmt.Fprintf(w, "  %s\n", problem)
	}
	key := ""
	for i, d := range f.sorted() {
		if i == maxDifferences {
			fmt.Fprintf(w, "  … and %d more differences\n", len(f.Differences)-i)
			break
		}
		if d.Key != key {
			key = d.Key
			fmt.Fprintf(w, "  %s\n", key)
		}
		f.writeDifference(w, d)
	}
}

// sorted puts the reply and the messages before the keys.
func (f *Failure) sorted() []Difference {
	diffs := append([]Difference(nil), f.Differences...)
	sort.SliceStable(diffs, func(i, j int) bool { return diffs[i].Key == "" && diffs[j].Key != "" })
	return diffs
}

func (f *Failure) writeDifference(w io.Writer, d Difference) {
	switch d.Part {
	case PartReply, PartPublish:
		fmt.Fprintf(w, "  %-8s expected %s\n", d.Part, f.text(d.Want))
		fmt.Fprintf(w, "  %-8s      got %s\n", "", f.text(d.Got))
		return
	case PartField:
		fmt.Fprintf(w, "    %-32s", d.Field)
	default:
		fmt.Fprintf(w, "    (%s)%*s", d.Part, 30-len(d.Part), "")
	}
	if d.Part == PartEntry {
		fmt.Fprintf(w, "\n      expected %s\n           got %s\n", f.expected(d.Want), f.got(d.Got))
		return
	}
	remark := ""
	if d.stale {
		remark = "   (the value from before the call)"
	}
	fmt.Fprintf(w, " expected %s   got %s%s\n", f.expected(d.Want), f.got(d.Got), remark)
}

func (f *Failure) expected(s *string) string {
	if s == nil {
		return "nothing"
	}
	return shorten(quoteUnlessJSON(*s))
}

// text is a reply or a list of messages, which is JSON already.
func (f *Failure) text(s *string) string { return shorten(f.withTimes(*s)) }

func (f *Failure) got(s *string) string {
	if s == nil {
		return "nothing"
	}
	return shorten(f.withTimes(quoteUnlessJSON(*s)))
}

func quoteUnlessJSON(s string) string {
	if strings.HasPrefix(s, "[") || strings.HasPrefix(s, "{\"") {
		return s
	}
	return strconv.Quote(s)
}

var timeLike = regexp.MustCompile(`-?\d{13,16}`)

// withTimes annotates numbers within a day of the step's clock.
func (f *Failure) withTimes(s string) string {
	step := f.Step.Index
	if step >= len(f.clocks) {
		return s
	}
	const day = 24 * 60 * 60 * 1000
	return timeLike.ReplaceAllStringFunc(s, func(text string) string {
		n, err := strconv.ParseInt(text, 10, 64)
		if off := n - f.clocks[step]; err == nil && off > -day && off < day {
			return fmt.Sprintf("%s‹t%d%+d›", text, step, off)
		}
		return text
	})
}

func shorten(s string) string {
	if len(s) <= textLimit {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:textLimit], ""), len(s))
}

// A Summary adds up the results of several traces.
type Summary struct {
	Traces, Passed, Steps               int
	Called, Bridged, Commands, Accepted int
	Failures                            []*Failure
	byFunction                          map[string]*functionCount
}

type functionCount struct{ called, bridged, failed int }

// Summarize adds up results.
func Summarize(results []*Result) *Summary {
	s := &Summary{byFunction: map[string]*functionCount{}}
	count := func(name string) *functionCount {
		if s.byFunction[name] == nil {
			s.byFunction[name] = &functionCount{}
		}
		return s.byFunction[name]
	}
	for _, r := range results {
		s.Traces++
		s.Steps += len(r.Trace.Steps)
		s.Commands += r.Commands
		s.Accepted += r.Accepted
		if len(r.Failures) == 0 {
			s.Passed++
		}
		for name, n := range r.Called {
			count(name).called += n
			s.Called += n
		}
		for name, n := range r.Bridged {
			count(name).bridged += n
			s.Bridged += n
		}
		for _, f := range r.Failures {
			count(f.Step.Name()).failed++
			s.Failures = append(s.Failures, f)
		}
	}
	return s
}

// Write prints the summary: a table of functions, those with failures first,
// and the totals.
func (s *Summary) Write(w io.Writer) {
	names := make([]string, 0, len(s.byFunction))
	for name := range s.byFunction {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := s.byFunction[names[i]], s.byFunction[names[j]]
		if a.failed != b.failed {
			return a.failed > b.failed
		}
		return names[i] < names[j]
	})
	fmt.Fprintf(w, "%-42s %8s %8s %8s\n", "function", "failed", "called", "bridged")
	for _, name := range names {
		c := s.byFunction[name]
		fmt.Fprintf(w, "%-42s %8s %8s %8s\n", name, blankZero(c.failed), blankZero(c.called), blankZero(c.bridged))
	}
	fmt.Fprintf(w, "%d of %d traces as recorded; %d steps: %d calls, %d plain commands, %d bridged; %d accepted deviations, %d failures\n",
		s.Passed, s.Traces, s.Steps, s.Called, s.Commands, s.Bridged, s.Accepted, len(s.Failures))
}

func blankZero(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// Functions returns the functions that were called everywhere, bridged
// nowhere.
func (s *Summary) Functions() map[string]bool {
	names := map[string]bool{}
	for name, c := range s.byFunction {
		if c.called > 0 && c.bridged == 0 {
			names[name] = true
		}
	}
	return names
}

// WriteRow prints a failure as a draft of a row of deviations.json, to be generalised by its author.
func (f *Failure) WriteRow(w io.Writer) {
	type change struct {
		Key      string `json:"key"`
		Part     Part   `json:"part,omitempty"`
		Field    string `json:"field,omitempty"`
		Recorded any    `json:"recorded"`
		Got      any    `json:"got"`
	}
	row := struct {
		Hazard   string         `json:"hazard"`
		Function string         `json:"function"`
		When     map[string]any `json:"when"`
		Reply    any            `json:"reply,omitempty"`
		Publish  any            `json:"publish,omitempty"`
		Changes  []change       `json:"changes,omitempty"`
		Reason   string         `json:"reason"`
	}{Hazard: "?", Function: f.Step.Name(), Reason: "?",
		When: map[string]any{"trace": f.Trace.Name, "steps": []int{f.Step.Index}}}
	for _, d := range f.Differences {
		switch d.Part {
		case PartReply:
			row.Reply = f.Reply
		case PartPublish:
			row.Publish = append([]Message{}, f.Messages...)
		default:
			c := change{Key: f.reference(d.Key), Part: d.Part, Field: f.reference(d.Field)}
			if d.Want != nil {
				c.Recorded = f.reference(*d.Want)
			}
			if d.Got != nil {
				c.Got = f.reference(*d.Got)
			}
			if c.Part == PartField {
				c.Part = ""
			}
			row.Changes = append(row.Changes, c)
		}
	}
	fmt.Fprintln(w, compactJSON(row)+",")
}

// reference writes a text as the key or argument that it equals.
func (f *Failure) reference(text string) string {
	for i, key := range f.Keys {
		if key == text {
			return fmt.Sprintf("${k%d}", i)
		}
	}
	for i, arg := range f.Args {
		if arg == text && len(text) > 8 {
			return fmt.Sprintf("${a%d}", i)
		}
	}
	return timeLike.ReplaceAllStringFunc(text, func(number string) string {
		n, err := strconv.ParseInt(number, 10, 64)
		if off := n - f.clocks[f.Step.Index]; err == nil && off > -1000 && off < 1000 {
			return "${now}"
		}
		return number
	})
}

// Missing returns the functions that had to be bridged, sorted.
func (s *Summary) Missing() []string {
	var names []string
	for name, c := range s.byFunction {
		if c.bridged > 0 {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}
