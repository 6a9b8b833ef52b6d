package conformance

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// scope is the data that placeholders refer to: the server clocks and the replies of the steps replayed so far.
type scope struct {
	now       int64
	clocks    []int64
	replies   []any
	tolerance float64
}

type segmentKind uint8

const (
	segLiteral segmentKind = iota
	segTime                // now (step < 0) or the clock of a step, plus an offset
	segReply               // an element of an earlier reply
	segID                  // a stream entry id
	segToken               // a signed token
)

type segment struct {
	kind   segmentKind
	text   string // literal, or the key id of a token
	step   int
	path   []int
	offset float64
	// adds is whether an offset was written: only then is a reply element
	// treated as a number.
	adds bool
	// fraction is whether the offset has one.
	fraction bool
}

var (
	placeholderTime  = regexp.MustCompile(`^(now|t\d+)([+-].+)?$`)
	placeholderReply = regexp.MustCompile(`^r(\d+)((?:\.\d+)*)([+-].+)?$`)
	plainInteger     = regexp.MustCompile(`^-?\d+$`)
	decimalNumber    = regexp.MustCompile(`^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$`)
	tokenText        = regexp.MustCompile(`^([^:]*):([0-9a-f]{40})$`)
	entryID          = regexp.MustCompile(`^(\d+)-(\d+)$`)
)

// parseTemplate splits a template. An unknown placeholder is an error: taking
// it for a literal would turn a mistake in a trace into a difference.
func parseTemplate(text string) ([]segment, error) {
	var segs []segment
	literal := func(s string) {
		if s == "" {
			return
		}
		if n := len(segs); n > 0 && segs[n-1].kind == segLiteral {
			segs[n-1].text += s
			return
		}
		segs = append(segs, segment{kind: segLiteral, text: s})
	}
	for {
		at := strings.Index(text, "${")
		if at < 0 {
			literal(text)
			return segs, nil
		}
		if at > 0 && text[at-1] == '$' {
			literal(text[:at-1] + "${")
			text = text[at+2:]
			continue
		}
		literal(text[:at])
		end := strings.IndexByte(text[at:], '}')
		if end < 0 {
			return nil, fmt.Errorf("placeholder without an end in %q", text)
		}
		seg, err := parsePlaceholder(text[at+2 : at+end])
		if err != nil {
			return nil, err
		}
		segs = append(segs, seg)
		text = text[at+end+1:]
	}
}

func parsePlaceholder(p string) (segment, error) {
	var seg segment
	switch {
	case strings.HasPrefix(p, "token:"):
		return segment{kind: segToken, text: p[len("token:"):]}, nil
	case strings.HasPrefix(p, "id:"):
		seg.kind = segID
		p = p[len("id:"):]
	default:
		seg.kind = segTime
	}
	if m := placeholderTime.FindStringSubmatch(p); m != nil {
		seg.step = -1
		if m[1] != "now" {
			seg.step, _ = strconv.Atoi(m[1][1:])
		}
		return withOffset(seg, m[2], p)
	}
	if m := placeholderReply.FindStringSubmatch(p); m != nil && seg.kind == segTime {
		seg.kind = segReply
		seg.step, _ = strconv.Atoi(m[1])
		for _, part := range strings.Split(m[2], ".")[1:] {
			i, _ := strconv.Atoi(part)
			seg.path = append(seg.path, i)
		}
		return withOffset(seg, m[3], p)
	}
	return seg, fmt.Errorf("unknown placeholder ${%s}", p)
}

func withOffset(seg segment, offset, placeholder string) (segment, error) {
	if offset == "" {
		return seg, nil
	}
	n, err := strconv.ParseFloat(offset, 64)
	if err != nil {
		return seg, fmt.Errorf("offset of ${%s}: %w", placeholder, err)
	}
	seg.adds, seg.offset, seg.fraction = true, n, n != math.Trunc(n)
	return seg, nil
}

// isLiteral reports whether a template has no placeholders.
func isLiteral(text string) bool { return !strings.Contains(text, "${") }

// escape writes a concrete text as a template that fits only it.
func escape(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// clock is the server clock before a step; -1 is the present step.
func (sc *scope) clock(step int) (int64, error) {
	if step < 0 {
		return sc.now, nil
	}
	if step >= len(sc.clocks) {
		return 0, fmt.Errorf("the clock of step %d is not known yet", step)
	}
	return sc.clocks[step], nil
}

// render makes a template concrete. Tokens are left to the caller, as they
// need a secret and a record.
func (sc *scope) render(text string) (string, error) {
	if isLiteral(text) {
		return text, nil
	}
	segs, err := parseTemplate(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, seg := range segs {
		switch seg.kind {
		case segLiteral:
			out.WriteString(seg.text)
		case segTime, segID:
			clock, err := sc.clock(seg.step)
			if err != nil {
				return "", err
			}
			out.WriteString(formatNumber(float64(clock) + seg.offset))
			if seg.kind == segID {
				out.WriteString("-0")
			}
		case segReply:
			out.WriteString(sc.replyElement(seg))
		case segToken:
			return "", fmt.Errorf("no value for token of key id %q", seg.text)
		}
	}
	return out.String(), nil
}

func (sc *scope) replyElement(seg segment) string {
	if seg.step >= len(sc.replies) {
		return ""
	}
	value := sc.replies[seg.step]
	for _, i := range seg.path {
		list, ok := value.([]any)
		if !ok || i >= len(list) {
			return ""
		}
		value = list[i]
	}
	var text string
	switch v := value.(type) {
	case string:
		text = v
	case int64:
		text = strconv.FormatInt(v, 10)
	default:
		return ""
	}
	if !seg.adds {
		return text
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return ""
	}
	return formatNumber(n + seg.offset)
}

// fits compares a concrete text with a template without tokens.
func (sc *scope) fits(template, got string) bool {
	if isLiteral(template) {
		return template == got || sameNumber(template, got) || sameJSON(template, got)
	}
	segs, err := parseTemplate(template)
	if err != nil {
		return false
	}
	if len(segs) == 1 && segs[0].kind == segID {
		m := entryID.FindStringSubmatch(got)
		return m != nil && sc.fitsTime(segs[0], m[1])
	}
	if sc.fitsSegments(segs, got) {
		return true
	}
	return len(segs) == 1 && segs[0].kind == segLiteral && sameJSON(segs[0].text, got)
}

func (sc *scope) fitsSegments(segs []segment, got string) bool {
	if len(segs) == 0 {
		return got == ""
	}
	seg := segs[0]
	switch seg.kind {
	case segLiteral:
		rest, ok := strings.CutPrefix(got, seg.text)
		return ok && sc.fitsSegments(segs[1:], rest)
	case segTime:
		// The longest run of number characters is tried first, then shorter
		// ones: a full stop after a time can belong to the sentence.
		end := 0
		for end < len(got) && strings.IndexByte("0123456789.-", got[end]) >= 0 {
			end++
		}
		for ; end > 0; end-- {
			if sc.fitsTime(seg, got[:end]) && sc.fitsSegments(segs[1:], got[end:]) {
				return true
			}
		}
	}
	return false
}

// fitsTime is whether a number is the time of a placeholder, within the
// tolerance, with the same fraction.
func (sc *scope) fitsTime(seg segment, got string) bool {
	clock, err := sc.clock(seg.step)
	if err != nil {
		return false
	}
	if !seg.fraction && !plainInteger.MatchString(got) || !decimalNumber.MatchString(got) {
		return false
	}
	n, err := strconv.ParseFloat(got, 64)
	if err != nil {
		return false
	}
	off := n - (float64(clock) + seg.offset)
	// Fractions come out of 14 to 17 significant digits, so they agree only
	// roughly; the whole part of a time in ms takes 13.
	return off <= sc.tolerance && off >= -sc.tolerance && math.Abs(off-math.Round(off)) < 0.06
}

// formatNumber writes a number as clients do: no exponent, no point for whole
// numbers.
func formatNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// sameNumber is whether two texts are server renderings of one number. They
// differ between servers only for fractions and for numbers that do not fit
// into 53 bits; everywhere else the text itself counts.
func sameNumber(a, b string) bool {
	if strings.TrimPrefix(a, "-") == "nan" && strings.TrimPrefix(b, "-") == "nan" {
		return true
	}
	if !decimalNumber.MatchString(a) || !decimalNumber.MatchString(b) {
		return false
	}
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err1 == nil && err2 == nil && x == y && (x != math.Trunc(x) || math.Abs(x) >= 1<<52)
}
