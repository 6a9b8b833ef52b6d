package conformance

import (
	"archive/zip"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// maxLine bounds one line of a trace. States of large traces take megabytes.
const maxLine = 64 << 20

// A Trace is one recorded conversation.
type Trace struct {
	Name  string
	Steps []*Step

	// hasDeltas is false for a trace that does not record changes: its key space is compared only where a state is
	// recorded.
	hasDeltas bool

	// late has, by key, the step at which a key is in a delta for the first
	// time without the step naming it. Recordings only see keys that have been
	// named, or a whole state, so such a key was made by an earlier step.
	late map[string]int
}

// A Step is one call or one plain command of a trace. Texts are templates unless TRACE-FORMAT.md defines them as
// literal.
type Step struct {
	Index     int             `json:"i"`
	Function  string          `json:"fn"`
	Command   []string        `json:"cmd"`
	Keys      []string        `json:"keys"`
	Args      []string        `json:"args"`
	SleepMS   int64           `json:"sleep_ms_before"`
	Note      string          `json:"note"`
	NowMS     int64           `json:"now_ms"`
	Reply     json.RawMessage `json:"reply"`
	Unordered *struct {
		From  int `json:"from"`
		Width int `json:"width"`
	} `json:"unordered"`
	ToleranceMS map[string]float64     `json:"tolerance_ms"`
	Publish     []Message              `json:"publish"`
	Delta       map[string]*keyDelta   `json:"delta"`
	State       map[string]*storedJSON `json:"state"`

	reply any
}

// A Message is one published message.
type Message struct {
	Channel string `json:"channel"`
	Text    string `json:"message"`
}

// Name is the function that the step calls, or the plain command in capitals.
func (s *Step) Name() string {
	if s.Function != "" {
		return s.Function
	}
	if len(s.Command) > 0 {
		return strings.ToUpper(s.Command[0])
	}
	return ""
}

// Functions returns the functions that the trace calls, sorted.
func (t *Trace) Functions() []string {
	seen := map[string]bool{}
	for _, s := range t.Steps {
		if s.Function != "" {
			seen[s.Function] = true
		}
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// traceArchive is the file of a directory with all its traces. The files in it end in traceEnd.
const traceArchive, traceEnd = "traces.zip", ".jsonl"

// LoadDir reads all traces of a directory, sorted by name. A trace is named after its file in traces.zip.
func LoadDir(dir string) ([]*Trace, error) {
	archive, err := zip.OpenReader(filepath.Join(dir, traceArchive))
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	files, err := fs.Glob(archive, "*"+traceEnd)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no traces (*%s) in %s of %s", traceEnd, traceArchive, dir)
	}
	sort.Strings(files)
	traces := make([]*Trace, 0, len(files))
	for _, file := range files {
		text, err := archive.Open(file)
		if err != nil {
			return nil, err
		}
		trace, err := Load(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		trace.Name = strings.TrimSuffix(file, traceEnd)
		traces = append(traces, trace)
	}
	return traces, nil
}

// Load reads an uncompressed trace.
func Load(r io.Reader) (*Trace, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<20), maxLine)
	if !lines.Scan() {
		return nil, errors.Join(errors.New("the trace is empty"), lines.Err())
	}
	var header struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
		Name    string `json:"name"`
	}
	if err := json.Unmarshal(lines.Bytes(), &header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if header.Format != "oracle-trace" || header.Version != 1 {
		return nil, fmt.Errorf("unknown format %q, version %d", header.Format, header.Version)
	}
	trace := &Trace{Name: header.Name}
	for lines.Scan() {
		step := &Step{}
		if err := json.Unmarshal(lines.Bytes(), step); err != nil {
			return nil, fmt.Errorf("step %d: %w", len(trace.Steps), err)
		}
		if step.Index != len(trace.Steps) {
			return nil, fmt.Errorf("step %d is numbered %d", len(trace.Steps), step.Index)
		}
		if (step.Function == "") == (len(step.Command) == 0) {
			return nil, fmt.Errorf("step %d: exactly one of fn and cmd is needed", step.Index)
		}
		var err error
		if step.reply, err = decodeReply(step.Reply); err != nil {
			return nil, fmt.Errorf("step %d: reply: %w", step.Index, err)
		}
		step.Reply = nil
		trace.hasDeltas = trace.hasDeltas || step.Delta != nil
		trace.Steps = append(trace.Steps, step)
	}
	trace.late = lateKeys(trace.Steps)
	return trace, lines.Err()
}

func lateKeys(steps []*Step) map[string]int {
	late := map[string]int{}
	named := map[string]bool{}
	for _, s := range steps {
		for _, text := range slices.Concat(s.Keys, s.Args, s.Command) {
			named[text] = true
		}
		for key, d := range s.Delta {
			if !named[key] && d.Whole != nil {
				late[key] = s.Index
			}
			named[key] = true
		}
		for key := range s.State {
			named[key] = true
		}
	}
	return late
}
