package conformance

import (
	"sort"
	"strconv"
	"strings"
)

// A Part is the part of a step or of a key that differs.
type Part string

// The parts of a step and of a key.
const (
	PartReply   Part = "reply"   // of a step: the whole reply
	PartPublish Part = "publish" // of a step: all messages
	PartType    Part = "type"    // of a key: its existence or type
	PartField   Part = "field"   // a hash field, a member of a sorted set (with score) or of a set
	PartValue   Part = "value"   // a string
	PartEntry   Part = "entry"   // an entry of a stream, without its id
	PartExpiry  Part = "expiry"  // when a key runs out
)

// A Difference is one place where a replayed step and its recording disagree. Want is a template; a nil pointer means
// that the value is absent.
type Difference struct {
	Part  Part
	Key   string
	Field string
	Want  *string
	Got   *string

	wantEntry, gotEntry []string // PartEntry
	// stale is set for a time that should have changed, though it still fits.
	stale bool
	// id is set for a stream entry that differs in its id only.
	id bool
}

// fitsText compares a text with a template. The record is the hash that the
// text is a field of, when a token can be verified with it.
func (p *player) fitsText(want, got string, record map[string]string) bool {
	kid, ok := tokenKID(want)
	if !ok {
		return p.scope.fits(want, got)
	}
	if record != nil && p.tokens.verify(kid, got, record) {
		return true
	}
	// A record that lost a field can no longer prove its token.
	return !isSigned(record) && p.tokens.genuine[got] && strings.HasPrefix(got, kid+":")
}

// isSigned is whether a record has all that its token is made of.
func isSigned(record map[string]string) bool {
	for _, field := range []string{"waitpoint_id", "waitpoint_key", "created_at"} {
		if _, ok := record[field]; !ok {
			return false
		}
	}
	return true
}

// isRecord is whether a key can hold a waitpoint record.
func isRecord(key string) bool { return strings.HasPrefix(key, recordPrefix) }

// compareKeys returns the differences between keys of the model and the keys that were read. Records come first, since
// tokens in other keys are checked against the tokens in records.
func (p *player) compareKeys(keys []string, model, read keyspace) []Difference {
	sort.Slice(keys, func(i, j int) bool {
		a, b := isRecord(keys[i]), isRecord(keys[j])
		return a != b && a || a == b && keys[i] < keys[j]
	})
	var diffs []Difference
	for _, key := range keys {
		diffs = append(diffs, p.compareKey(key, model[key], read[key])...)
	}
	return diffs
}

func (p *player) compareKey(key string, want, got *value) []Difference {
	switch {
	case want == nil && got == nil:
		return nil
	case want == nil:
		if p.runningOut(got.expires) {
			return nil
		}
		return p.compareContent(key, &value{}, got)
	case got == nil:
		if p.runningOut(want.expires) {
			return nil
		}
		return []Difference{{Part: PartType, Key: key, Want: &want.typ}}
	}
	return p.compareContent(key, want, got)
}

// runningOut is whether an expiry is so near that a key may be gone or not.
func (p *player) runningOut(expires string) bool {
	if expires == "" {
		return false
	}
	at, err := p.scope.render(expires)
	if err != nil {
		return false
	}
	n, err := strconv.ParseFloat(at, 64)
	return err == nil && n <= float64(p.clockNow())+p.scope.tolerance
}

func (p *player) compareContent(key string, want, got *value) []Difference {
	var diffs []Difference
	add := func(part Part, field string, want, got *string) {
		diffs = append(diffs, Difference{Part: part, Key: key, Field: field, Want: want, Got: got})
	}
	if want.typ != got.typ {
		add(PartType, "", nonEmpty(want.typ), nonEmpty(got.typ))
		if want.typ != "" {
			return diffs
		}
	}
	switch got.typ {
	case "string":
		if want.typ == "" {
			add(PartValue, "", nil, &got.str)
		} else if !p.fitsText(want.str, got.str, nil) {
			add(PartValue, "", &want.str, &got.str)
		}
	case "stream":
		diffs = append(diffs, p.compareEntries(key, want.entries, got.entries)...)
	default:
		diffs = append(diffs, p.compareFields(key, want, got)...)
	}
	if (want.expires == "") != (got.expires == "") ||
		want.expires != "" && !p.scope.fits(want.expires, got.expires) {
		add(PartExpiry, "", nonEmpty(want.expires), nonEmpty(got.expires))
	}
	return diffs
}

func (p *player) compareFields(key string, want, got *value) []Difference {
	var diffs []Difference
	var record map[string]string
	if got.typ == "hash" && isRecord(key) {
		record = got.fields
	}
	for field, w := range want.fields {
		g, ok := got.fields[field]
		switch {
		case !ok:
			diffs = append(diffs, Difference{Part: PartField, Key: key, Field: field, Want: &w})
		case w == g:
		case got.typ == "zset" && sameScore(w, g):
		case !p.fitsText(w, g, record):
			diffs = append(diffs, Difference{Part: PartField, Key: key, Field: field, Want: &w, Got: &g})
		}
	}
	for field, g := range got.fields {
		if _, ok := want.fields[field]; !ok {
			diffs = append(diffs, Difference{Part: PartField, Key: key, Field: field, Got: &g})
		}
	}
	sort.Slice(diffs, func(i, j int) bool { return diffs[i].Field < diffs[j].Field })
	return diffs
}

// sameScore compares scores as numbers: their text is the server's.
func sameScore(a, b string) bool {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err1 == nil && err2 == nil && (x == y || x != x && y != y)
}

// compareEntries pairs the entries of a stream from both ends, so that an
// entry too many is reported as one.
func (p *player) compareEntries(key string, want, got []entry) []Difference {
	for len(want) > 0 && len(got) > 0 && p.fitsEntry(want[0], got[0]) {
		want, got = want[1:], got[1:]
	}
	for len(want) > 0 && len(got) > 0 && p.fitsEntry(want[len(want)-1], got[len(got)-1]) {
		want, got = want[:len(want)-1], got[:len(got)-1]
	}
	var diffs []Difference
	for i := 0; i < len(want) || i < len(got); i++ {
		d := Difference{Part: PartEntry, Key: key}
		if i < len(want) {
			text := compactJSON(want[i].Fields)
			d.Want, d.wantEntry = &text, want[i].Fields
		}
		if i < len(got) {
			text := compactJSON(got[i].Fields)
			d.Got, d.gotEntry = &text, got[i].Fields
		}
		if d.Want != nil && d.Got != nil && p.fitsTexts(want[i].Fields, got[i].Fields) {
			d.id = true
			w, g := want[i].ID+" "+*d.Want, got[i].ID+" "+*d.Got
			d.Want, d.Got = &w, &g
		}
		diffs = append(diffs, d)
	}
	return diffs
}

func (p *player) fitsEntry(want, got entry) bool {
	return p.scope.fits(want.ID, got.ID) && p.fitsTexts(want.Fields, got.Fields)
}

func (p *player) fitsTexts(want, got []string) bool {
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if !p.fitsText(want[i], got[i], nil) {
			return false
		}
	}
	return true
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
