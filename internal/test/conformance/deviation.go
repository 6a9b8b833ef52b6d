package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync/atomic"
)

// Deviations are the differences from the reference that are meant.
type Deviations struct {
	Rows []*Row
}

// A Row describes one meant difference. Texts are patterns: literal but for
// references and wildcards in ${…}, see testdata/conformance/README.md.
//
// A row applies to the steps that call its functions and fulfil When. There it
// matches when everything that it describes, except the optional parts, is
// among the differences of the step. A step is accepted when the rows that
// match describe all its differences.
type Row struct {
	Hazard    string    `json:"hazard"`
	Functions oneOrMany `json:"function"`
	When      Condition `json:"when"`

	// Reply replaces the recorded reply.
	Reply *replyPattern `json:"reply"`

	// Publish is the complete list of messages published instead of the
	// recorded ones.
	Publish *[]messagePattern `json:"publish"`

	// Changes are differences in keys from the recording or, with InsteadOf "before", all changes of the call.
	Changes []*Change `json:"changes"`

	// Unrecorded allows the row to match no step: the recordings in the repository do not contain its situation.
	Unrecorded bool `json:"unrecorded"`

	// InsteadOf is the base of Changes: "recorded" (the default), or "before" for calls that are refused, or that have
	// entirely different effects than in the recording.
	InsteadOf string `json:"instead_of"`

	// Always demands a match wherever the row applies.
	Always bool `json:"always"`

	Reason string `json:"reason"`

	line int
	used atomic.Int64
}

// A Condition limits a row to some steps. All of it must hold.
type Condition struct {
	Traces oneOrMany       `json:"trace"` // shell patterns
	Steps  []int           `json:"steps"` // only together with one trace
	Note   *pattern        `json:"note"`
	Keys   map[int]pattern `json:"keys"`
	Args   map[int]pattern `json:"args"`
	Reply  *replyPattern   `json:"reply"` // the recorded one
	Given  []Given         `json:"given"` // contents of the key space before the call
}

// A Given is a condition on one key, or one field of it, before the call.
type Given struct {
	Key    string   `json:"key"`
	Field  *string  `json:"field"`
	Exists *bool    `json:"exists"`
	Set    *bool    `json:"set"` // neither absent nor empty
	Is     *pattern `json:"is"`
	Not    *pattern `json:"not"`
	AtMost *string  `json:"at_most"` // numbers
	Above  *string  `json:"above"`
}

// A Change is a difference in one or several keys.
type Change struct {
	Key   pattern  `json:"key"`
	Part  Part     `json:"part"`  // default: field with a field pattern, else any part
	Field *pattern `json:"field"` // of PartField

	// Recorded is the recorded value (or the value before the call), Got the present value; null means absent. Without
	// Recorded, any recorded value matches.
	Recorded *pattern `json:"recorded"`
	Got      *pattern `json:"got"`

	Optional bool `json:"optional"`
}

// LoadDeviations reads deviations. A file that does not exist has none.
func LoadDeviations(file string) (*Deviations, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &Deviations{}, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := ParseDeviations(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// ParseDeviations decodes a JSON array of rows. Unknown members are errors: a
// misspelt condition would silently widen a row.
func ParseDeviations(data []byte) (*Deviations, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	d := &Deviations{}
	if err := decoder.Decode(&d.Rows); err != nil {
		line := 1 + bytes.Count(data[:decoder.InputOffset()], []byte("\n"))
		return nil, fmt.Errorf("near line %d: %w", line, err)
	}
	for i, row := range d.Rows {
		row.line = i + 1
		if err := row.check(); err != nil {
			return nil, fmt.Errorf("row %d (%s): %w", i+1, row.Hazard, err)
		}
	}
	return d, nil
}

func (r *Row) check() error {
	switch {
	case r.Hazard == "" || r.Reason == "":
		return errors.New("hazard and reason are needed")
	case len(r.Functions) == 0:
		return errors.New("a function is needed")
	case r.Reply == nil && r.Publish == nil && len(r.Changes) == 0 && r.InsteadOf != "before":
		return errors.New("the row describes no difference")
	case r.InsteadOf != "" && r.InsteadOf != "before" && r.InsteadOf != "recorded":
		return fmt.Errorf("instead_of %q is unknown", r.InsteadOf)
	case len(r.When.Steps) > 0 && len(r.When.Traces) != 1:
		return errors.New("steps need exactly one trace")
	}
	for _, c := range r.Changes {
		if c.Key.absent() || c.Got == nil {
			return errors.New("a change needs key and got")
		}
		if c.Part == "" && c.Field != nil {
			c.Part = PartField
		}
		if (c.Part == PartField) != (c.Field != nil) {
			return errors.New("a field pattern goes with the part field")
		}
		switch c.Part {
		case "", PartType, PartField, PartValue, PartEntry, PartExpiry:
		default:
			return fmt.Errorf("part %q is unknown", c.Part)
		}
	}
	for _, g := range r.When.Given {
		if err := g.check(); err != nil {
			return err
		}
	}
	for _, trace := range r.When.Traces {
		if _, err := path.Match(trace, ""); err != nil {
			return fmt.Errorf("trace %q: %w", trace, err)
		}
	}
	return nil
}

// Name identifies a row in reports.
func (r *Row) Name() string { return fmt.Sprintf("row %d (%s)", r.line, r.Hazard) }

// Unused returns the rows that matched nothing, of those whose functions were
// all replayed.
func (d *Deviations) Unused(replayed map[string]bool) []*Row {
	if d == nil {
		return nil
	}
	var unused []*Row
	for _, row := range d.Rows {
		missing := slices.ContainsFunc(row.Functions, func(f string) bool { return !replayed[f] && f != "*" })
		if row.used.Load() == 0 && !missing && !row.Unrecorded {
			unused = append(unused, row)
		}
	}
	return unused
}

// stepView is the state of a step that rows are matched against.
type stepView struct {
	player     *player
	step       *Step
	keys, args []string
	before     keyspace
	reply      any
	messages   []Message
	rows       []*Row // those that apply
	diffs      []Difference

	// candidate is the difference that a pattern is compared with.
	candidate *Difference
}

// applicable returns the rows whose conditions hold. It is called before the
// step, as conditions are about the state that the call finds.
func (d *Deviations) applicable(v *stepView) []*Row {
	if d == nil {
		return nil
	}
	v.before = v.player.live
	var rows []*Row
	for _, row := range d.Rows {
		if row.applies(v) {
			rows = append(rows, row)
		}
	}
	return rows
}

func (r *Row) applies(v *stepView) bool {
	if !slices.Contains(r.Functions, v.step.Name()) && !slices.Contains(r.Functions, "*") {
		return false
	}
	w := &r.When
	if len(w.Traces) > 0 && !slices.ContainsFunc(w.Traces, func(t string) bool {
		ok, _ := path.Match(t, v.player.trace.Name)
		return ok
	}) {
		return false
	}
	if len(w.Steps) > 0 && !slices.Contains(w.Steps, v.step.Index) {
		return false
	}
	if w.Note != nil && !w.Note.fitsPresent(v, v.step.Note) {
		return false
	}
	if !fitIndexed(v, w.Keys, v.keys) || !fitIndexed(v, w.Args, v.args) {
		return false
	}
	if w.Reply != nil && !w.Reply.fitsRecorded(v, v.step.reply) {
		return false
	}
	for _, g := range w.Given {
		if !g.holds(v) {
			return false
		}
	}
	return true
}

// check refuses conditions that could never hold.
func (g *Given) check() error {
	for _, text := range []*string{&g.Key, g.Field, g.AtMost, g.Above} {
		if text == nil {
			continue
		}
		if err := checkReferences(*text); err != nil {
			return err
		}
	}
	return nil
}

func fitIndexed(v *stepView, patterns map[int]pattern, texts []string) bool {
	for i, p := range patterns {
		var text *string
		if i >= 0 && i < len(texts) {
			text = &texts[i]
		}
		if !p.fits(v, text) {
			return false
		}
	}
	return true
}

func (g *Given) holds(v *stepView) bool {
	key, ok := v.expand(g.Key)
	if !ok {
		return false
	}
	text, exists := v.lookup(key, g.Field)
	if g.Exists != nil && *g.Exists != exists || g.Set != nil && *g.Set != (exists && text != "") {
		return false
	}
	var subject *string
	if exists {
		subject = &text
	}
	if g.Is != nil && !g.Is.fits(v, subject) || g.Not != nil && g.Not.fits(v, subject) {
		return false
	}
	compare := func(bound *string, holds func(n, limit float64) bool) bool {
		if bound == nil {
			return true
		}
		limit, ok := v.expand(*bound)
		if !ok || !exists {
			return false
		}
		x, err1 := parseNumber(text)
		y, err2 := parseNumber(limit)
		return err1 == nil && err2 == nil && holds(x, y)
	}
	return compare(g.AtMost, func(n, limit float64) bool { return n <= limit }) &&
		compare(g.Above, func(n, limit float64) bool { return n > limit })
}

// lookup reads the key space before the call: a field or member, or the
// string at a key.
func (v *stepView) lookup(key string, field *string) (string, bool) {
	have := v.before[key]
	if have == nil {
		return "", false
	}
	if field == nil {
		return have.str, true
	}
	name, ok := v.expand(*field)
	if !ok {
		return "", false
	}
	text, ok := have.fields[name]
	return text, ok
}

// explain returns the differences that no matching row describes, and other
// problems.
func (d *Deviations) explain(v *stepView, rows []*Row) ([]Difference, []string) {
	var relative []*Row
	for _, row := range rows {
		if row.InsteadOf == "before" {
			if row.replaces(v) {
				row.used.Add(1)
				return nil, nil
			}
			continue
		}
		relative = append(relative, row)
	}
	covered := make([]bool, len(v.diffs))
	matched := map[*Row]bool{}
	for _, row := range relative {
		mine, ok := row.match(v, v.diffs)
		if !ok {
			continue
		}
		for _, i := range mine {
			covered[i] = true
			matched[row] = true
		}
		if matched[row] {
			row.used.Add(1)
		}
	}
	var problems []string
	for _, row := range rows {
		if row.Always && !matched[row] {
			problems = append(problems, fmt.Sprintf("%s applies, but the step does not differ as it says: %s", row.Name(), row.Reason))
		}
	}
	var rest []Difference
	for i, diff := range v.diffs {
		if !covered[i] {
			rest = append(rest, diff)
		}
	}
	return rest, problems
}

// match returns the differences that the row describes; false when a part of
// the row that is not optional is not among them.
func (r *Row) match(v *stepView, diffs []Difference) ([]int, bool) {
	var covered []int
	replyFound, publishFound := false, false
	for i := range diffs {
		switch d := &diffs[i]; {
		case d.Part == PartReply && r.Reply != nil && r.Reply.fitsReply(v, v.step.reply, v.reply):
			covered, replyFound = append(covered, i), true
		case d.Part == PartPublish && r.Publish != nil && fitMessages(v, *r.Publish, v.messages):
			covered, publishFound = append(covered, i), true
		}
	}
	if r.Reply != nil && !replyFound || r.Publish != nil && !publishFound {
		return nil, false
	}
	for _, c := range r.Changes {
		found := c.Optional
		for i := range diffs {
			if c.fits(v, &diffs[i]) {
				covered, found = append(covered, i), true
			}
		}
		if !found {
			return nil, false
		}
	}
	return covered, true
}

func (c *Change) fits(v *stepView, d *Difference) bool {
	if d.Key == "" || c.Part != "" && c.Part != d.Part {
		return false
	}
	v.candidate = d
	defer func() { v.candidate = nil }()
	if !c.Key.fitsPresent(v, d.Key) || c.Field != nil && !c.Field.fitsPresent(v, d.Field) {
		return false
	}
	if d.Part == PartEntry {
		return (c.Recorded == nil || c.Recorded.fitsRecordedEntry(v, d.wantEntry)) && c.Got.fitsEntry(v, d.gotEntry)
	}
	return (c.Recorded == nil || c.Recorded.fitsRecorded(v, d.Want)) && c.Got.fits(v, d.Got)
}

// replaces reports whether the row describes all effects of the call, compared with the state before it.
func (r *Row) replaces(v *stepView) bool {
	p := v.player
	differs := func(part Part) bool {
		return slices.ContainsFunc(v.diffs, func(d Difference) bool { return d.Part == part })
	}
	if r.Reply == nil && differs(PartReply) ||
		r.Reply != nil && !r.Reply.fitsReply(v, v.step.reply, v.reply) {
		return false
	}
	if r.Publish == nil && len(v.messages) > 0 ||
		r.Publish != nil && !fitMessages(v, *r.Publish, v.messages) {
		return false
	}
	if len(v.diffs) == 0 {
		return false
	}
	var changes []Difference
	for key, have := range v.before {
		// Values are never changed in place, so an untouched key has the same.
		if now := p.live[key]; now != have {
			changes = append(changes, p.compareKey(key, have.escaped(), now)...)
		}
	}
	for key, now := range p.live {
		if v.before[key] == nil {
			changes = append(changes, p.compareKey(key, nil, now)...)
		}
	}
	only := &Row{Changes: r.Changes}
	covered, ok := only.match(v, changes)
	if !ok {
		return false
	}
	seen := map[int]bool{}
	for _, i := range covered {
		seen[i] = true
	}
	return len(seen) == len(changes)
}
