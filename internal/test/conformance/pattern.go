package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// oneOrMany is a text or a list of texts.
type oneOrMany []string

// UnmarshalJSON implements [encoding/json.Unmarshaler].
func (o *oneOrMany) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*o = make(oneOrMany, 1)
		return json.Unmarshal(data, &(*o)[0])
	}
	return json.Unmarshal(data, (*[]string)(o))
}

// A pattern is a text with references and wildcards, null for something that
// is absent, or a list of texts for a stream entry.
type pattern struct {
	null bool
	text string
	list []string
}

func (p *pattern) absent() bool { return p.text == "" && p.list == nil }

// UnmarshalJSON implements [encoding/json.Unmarshaler].
func (p *pattern) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("null")):
		p.null = true
		return nil
	case len(data) > 0 && data[0] == '[':
		if err := json.Unmarshal(data, &p.list); err != nil {
			return err
		}
		for _, text := range p.list {
			if err := checkPattern(text); err != nil {
				return err
			}
		}
		return nil
	}
	if err := json.Unmarshal(data, &p.text); err != nil {
		return err
	}
	return checkPattern(p.text)
}

// UnmarshalJSON implements [encoding/json.Unmarshaler]. JSON would turn a null into a
// nil pointer, which means something else here: no condition.
func (c *Change) UnmarshalJSON(data []byte) error {
	type plain Change
	if err := strictJSON(data, (*plain)(c)); err != nil {
		return err
	}
	var nulls map[string]json.RawMessage
	if err := json.Unmarshal(data, &nulls); err != nil {
		return err
	}
	c.Recorded = nullPattern(nulls["recorded"], c.Recorded)
	c.Got = nullPattern(nulls["got"], c.Got)
	return nil
}

// UnmarshalJSON implements [encoding/json.Unmarshaler].
func (g *Given) UnmarshalJSON(data []byte) error {
	type plain Given
	if err := strictJSON(data, (*plain)(g)); err != nil {
		return err
	}
	var nulls map[string]json.RawMessage
	if err := json.Unmarshal(data, &nulls); err != nil {
		return err
	}
	g.Is = nullPattern(nulls["is"], g.Is)
	g.Not = nullPattern(nulls["not"], g.Not)
	if g.Exists == nil && g.Set == nil && g.Is == nil && g.Not == nil && g.AtMost == nil && g.Above == nil {
		return fmt.Errorf("the condition on %q says nothing", g.Key)
	}
	return nil
}

func strictJSON(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func nullPattern(raw json.RawMessage, p *pattern) *pattern {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return &pattern{null: true}
	}
	return p
}

// References, in ${…}: k0 (a key), a1 (an argument), k0.field (a field of the hash at that key, before the call), tag
// (the braced part of key 0), before (the compared value before the call), recorded (the recorded value, rendered),
// now±n.
var (
	patternPart   = regexp.MustCompile(`\$\{(/(?:[^/]|/[^}])*/|[^}]*)\}`)
	referenceItem = regexp.MustCompile(`^([ka])(\d+)(?:\.(.+))?$`)
	patternTime   = regexp.MustCompile(`^now([+-]\d+)?$`)
	hashTag       = regexp.MustCompile(`\{[^}]*\}`)
)

func checkPattern(text string) error {
	for _, m := range patternPart.FindAllStringSubmatch(text, -1) {
		ref := m[1]
		switch {
		case ref == "any", ref == "num", ref == "tag", ref == "before", ref == "recorded", ref == "recorded.floor",
			patternTime.MatchString(ref):
			continue
		case strings.HasPrefix(ref, "/"):
			if _, err := regexp.Compile(ref[1 : len(ref)-1]); err != nil {
				return fmt.Errorf("pattern %q: %w", text, err)
			}
			continue
		}
		item := referenceItem.FindStringSubmatch(ref)
		if item == nil || item[1] == "a" && item[3] != "" {
			return fmt.Errorf("unknown reference ${%s} in pattern %q", ref, text)
		}
	}
	return nil
}

// checkReferences is checkPattern for texts that must become concrete.
func checkReferences(text string) error {
	if err := checkPattern(text); err != nil {
		return err
	}
	for _, m := range patternPart.FindAllStringSubmatch(text, -1) {
		if m[1] == "any" || m[1] == "num" || strings.HasPrefix(m[1], "/") {
			return fmt.Errorf("%q is a key, a field or a number: it must not have wildcards", text)
		}
	}
	return nil
}

// refer returns the value of a reference.
func (v *stepView) refer(ref string) (string, bool) {
	if m := patternTime.FindStringSubmatch(ref); m != nil {
		offset, _ := strconv.ParseInt("0"+m[1], 10, 64)
		if m[1] != "" {
			offset, _ = strconv.ParseInt(m[1], 10, 64)
		}
		return strconv.FormatInt(v.player.scope.now+offset, 10), true
	}
	switch ref {
	case "tag":
		if len(v.keys) == 0 {
			return "", false
		}
		tag := hashTag.FindString(v.keys[0])
		return tag, tag != ""
	case "before":
		if v.candidate == nil {
			return "", false
		}
		var field *string
		if v.candidate.Part == PartField {
			name := escapePattern(v.candidate.Field)
			field = &name
		}
		return v.lookup(v.candidate.Key, field)
	case "recorded":
		if v.candidate == nil || v.candidate.Want == nil {
			return "", false
		}
		text, err := v.player.scope.render(*v.candidate.Want)
		return text, err == nil
	}
	m := referenceItem.FindStringSubmatch(ref)
	if m == nil {
		return "", false
	}
	from := v.keys
	if m[1] == "a" {
		from = v.args
	}
	i, _ := strconv.Atoi(m[2])
	if i >= len(from) {
		return "", false
	}
	if m[3] == "" {
		return from[i], true
	}
	field := m[3]
	return v.lookup(from[i], &field)
}

func escapePattern(text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	return "${/" + regexp.QuoteMeta(text) + "/}"
}

// expand makes a text without wildcards concrete.
func (v *stepView) expand(text string) (string, bool) {
	ok := true
	out := patternPart.ReplaceAllStringFunc(text, func(part string) string {
		value, found := v.refer(part[2 : len(part)-1])
		ok = ok && found
		return value
	})
	return out, ok
}

var (
	compiledMu sync.Mutex
	compiled   = map[string]*regexp.Regexp{}
)

func compileCached(expr string) *regexp.Regexp {
	compiledMu.Lock()
	defer compiledMu.Unlock()
	if len(compiled) > 4096 {
		clear(compiled)
	}
	re := compiled[expr]
	if re == nil {
		re = regexp.MustCompile(expr)
		compiled[expr] = re
	}
	return re
}

// fitsPattern compares a concrete text with the text of a pattern.
func (v *stepView) fitsPattern(pattern, got string) bool {
	if !strings.Contains(pattern, "${") {
		return pattern == got || sameNumber(pattern, got)
	}
	if pattern == "${recorded.floor}" {
		return v.candidate != nil && v.candidate.Want != nil &&
			v.player.scope.fits(floorOffsets(*v.candidate.Want), got)
	}
	var expr strings.Builder
	var times []float64
	expr.WriteString(`(?s)^(?:`)
	rest := pattern
	for {
		at := patternPart.FindStringSubmatchIndex(rest)
		if at == nil {
			expr.WriteString(regexp.QuoteMeta(rest))
			break
		}
		expr.WriteString(regexp.QuoteMeta(rest[:at[0]]))
		ref := rest[at[2]:at[3]]
		rest = rest[at[1]:]
		switch {
		case ref == "any":
			expr.WriteString(`.*`)
		case ref == "num":
			expr.WriteString(`-?\d+(?:\.\d+)?`)
		case strings.HasPrefix(ref, "/"):
			expr.WriteString(`(?:` + nonCapturing(ref[1:len(ref)-1]) + `)`)
		case patternTime.MatchString(ref):
			text, _ := v.refer(ref)
			n, _ := strconv.ParseFloat(text, 64)
			times = append(times, n)
			expr.WriteString(`(-?\d+)`)
		default:
			text, ok := v.refer(ref)
			if !ok {
				return false
			}
			expr.WriteString(regexp.QuoteMeta(text))
		}
	}
	expr.WriteString(`)$`)
	m := compileCached(expr.String()).FindStringSubmatch(got)
	if m == nil {
		return false
	}
	for i, want := range times {
		n, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil || math.Abs(n-want) > v.player.scope.tolerance {
			return false
		}
	}
	return true
}

var capturing = regexp.MustCompile(`(\\.)|\((\?)?`)

// nonCapturing keeps the groups of a pattern's expression from shifting those
// that catch times.
func nonCapturing(expr string) string {
	return capturing.ReplaceAllStringFunc(expr, func(s string) string {
		if s == "(" {
			return "(?:"
		}
		return s
	})
}

var offsetFraction = regexp.MustCompile(`(\$\{t\d+[+-]\d+)\.\d+\}`)

// floorOffsets cuts the fractions off the times of a template.
func floorOffsets(template string) string {
	return offsetFraction.ReplaceAllString(template, "$1}")
}

func (p *pattern) fits(v *stepView, got *string) bool {
	if p.null || got == nil {
		return p.null && got == nil
	}
	return p.list == nil && v.fitsPattern(p.text, *got)
}

func (p *pattern) fitsPresent(v *stepView, got string) bool { return p.fits(v, &got) }

// fitsRecorded compares a recorded template, made concrete.
func (p *pattern) fitsRecorded(v *stepView, want *string) bool {
	if p.null || want == nil {
		return p.null && want == nil
	}
	return p.list == nil && v.fitsPattern(p.text, v.rendered(*want))
}

// rendered makes a template concrete; a token stays as it is written.
func (v *stepView) rendered(template string) string {
	text, err := v.player.scope.render(template)
	if err != nil {
		return template
	}
	return text
}

func (p *pattern) fitsEntry(v *stepView, got []string) bool {
	if p.null || got == nil {
		return p.null && got == nil
	}
	if p.list == nil {
		return v.fitsPattern(p.text, compactJSON(got))
	}
	return fitList(v, p.list, got)
}

func (p *pattern) fitsRecordedEntry(v *stepView, want []string) bool {
	if want == nil {
		return p.fitsEntry(v, nil)
	}
	return p.fitsEntry(v, mapTexts(want, v.rendered))
}

func fitList(v *stepView, patterns, got []string) bool {
	if len(patterns) != len(got) {
		return false
	}
	for i := range got {
		if !v.fitsPattern(patterns[i], got[i]) {
			return false
		}
	}
	return true
}

// replyPattern is a reply whose texts are patterns. A list that ends in "..."
// allows any further elements. ${recorded} is the recorded element at the same
// place.
type replyPattern struct{ reply any }

// UnmarshalJSON implements [encoding/json.Unmarshaler].
func (r *replyPattern) UnmarshalJSON(data []byte) (err error) {
	if r.reply, err = decodeReply(data); err != nil {
		return err
	}
	return checkReply(r.reply)
}

func checkReply(reply any) error {
	switch r := reply.(type) {
	case string:
		return checkPattern(r)
	case []any:
		for _, e := range r {
			if err := checkReply(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *replyPattern) fitsReply(v *stepView, recorded, got any) bool {
	return v.fitsElement(r.reply, recorded, got)
}

// fitsRecorded compares the recorded reply itself.
func (r *replyPattern) fitsRecorded(v *stepView, recorded any) bool {
	return v.fitsElement(r.reply, nil, v.renderedReply(recorded))
}

func (v *stepView) renderedReply(reply any) any {
	switch r := reply.(type) {
	case string:
		return v.rendered(r)
	case []any:
		out := make([]any, len(r))
		for i := range r {
			out[i] = v.renderedReply(r[i])
		}
		return out
	}
	return reply
}

func (v *stepView) fitsElement(pattern, recorded, got any) bool {
	switch want := pattern.(type) {
	case string:
		text, ok := got.(string)
		if want == "${recorded}" {
			return v.player.fitsElement(recorded, got)
		}
		if want == "${recorded.floor}" {
			template, isText := recorded.(string)
			return ok && isText && v.player.scope.fits(floorOffsets(template), text)
		}
		return ok && v.fitsPattern(want, text)
	case []any:
		list, ok := got.([]any)
		if !ok {
			return false
		}
		was, _ := recorded.([]any)
		for i, w := range want {
			if w == "..." && i == len(want)-1 {
				return true
			}
			if i >= len(list) {
				return false
			}
			var r any
			if i < len(was) {
				r = was[i]
			}
			if !v.fitsElement(w, r, list[i]) {
				return false
			}
		}
		return len(want) == len(list)
	case errorReply:
		e, ok := got.(errorReply)
		return ok && e.Class == want.Class
	}
	return pattern == got
}

// messagePattern is a message with patterns; a JSON object is compared as
// such.
type messagePattern struct {
	Channel pattern         `json:"channel"`
	Text    json.RawMessage `json:"message"`
}

func fitMessages(v *stepView, want []messagePattern, got []Message) bool {
	if len(want) != len(got) {
		return false
	}
	for i, w := range want {
		if !w.Channel.fitsPresent(v, got[i].Channel) || !w.fitsText(v, got[i].Text) {
			return false
		}
	}
	return true
}

func (m *messagePattern) fitsText(v *stepView, got string) bool {
	var text string
	if json.Unmarshal(m.Text, &text) == nil {
		return v.fitsPattern(text, got)
	}
	want, ok1 := parseContainer(string(m.Text))
	have, ok2 := parseContainer(got)
	return ok1 && ok2 && equalJSON(want, have, v.fitsPattern)
}

func parseNumber(text string) (float64, error) {
	if !decimalNumber.MatchString(text) {
		return 0, errors.New("not a number")
	}
	return strconv.ParseFloat(text, 64)
}
