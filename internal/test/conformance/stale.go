package conformance

import (
	"context"
	"sort"
	"strings"
	"time"
)

// A time that a step should have renewed is within the tolerance of its old value, as steps follow each other within
// milliseconds. Therefore the server clock advances between steps, and a renewed time must differ.

// longestCall bounds how long after the beginning of its step a recorded time
// can lie without being one of the future.
const longestCall = 200

// staleTimes returns times that a step changed in the recording and left alone
// in the replay.
func (p *player) staleTimes(before keyspace) []Difference {
	var diffs []Difference
	for key, d := range p.step.Delta {
		was, is := before[key], p.live[key]
		if was == nil || is == nil || was.typ != is.typ || d.Whole != nil || d.Deleted {
			continue
		}
		for field, want := range d.Set {
			old, existed := was.fields[field]
			if got, ok := is.fields[field]; ok && existed && got == old && isTime(want) && p.scope.fits(want, got) {
				diffs = append(diffs, Difference{Part: PartField, Key: key, Field: field, Want: &want, Got: &got, stale: true})
			}
		}
		if d.ExpiresAt != nil && isTime(*d.ExpiresAt) && is.expires == was.expires && p.scope.fits(*d.ExpiresAt, is.expires) {
			diffs = append(diffs, Difference{Part: PartExpiry, Key: key, Want: d.ExpiresAt, Got: &is.expires, stale: true})
		}
	}
	sort.Slice(diffs, func(i, j int) bool {
		return diffs[i].Key+"\x00"+diffs[i].Field < diffs[j].Key+"\x00"+diffs[j].Field
	})
	return diffs
}

// isTime is whether a template has a time of the recording in it.
func isTime(template string) bool {
	return strings.Contains(template, "${t") && !strings.Contains(template, "${token:")
}

// tick reads the clock once it has advanced since the last step.
func (p *player) tick(ctx context.Context) (int64, error) {
	if p.clock != nil {
		err := p.setClock(ctx, p.last+1)
		return p.clock.now(), err
	}
	for {
		now, err := p.store.clock(ctx)
		if err != nil || now > p.last {
			return now, err
		}
		select {
		case <-time.After(time.Duration(p.last-now)*time.Millisecond + 200*time.Microsecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// wrote notes that recorded times of the present step were written: later
// times must not coincide with them.
func (p *player) wrote() {
	note := func(text string) {
		segs, err := parseTemplate(text)
		if err != nil {
			return
		}
		for _, seg := range segs {
			if seg.kind == segTime && seg.step == p.step.Index && seg.offset > 0 && seg.offset <= longestCall {
				p.last = max(p.last, p.scope.now+int64(seg.offset))
			}
		}
	}
	for _, d := range p.step.Delta {
		fields := d.Set
		if d.Whole != nil {
			fields = d.Whole.Fields
		}
		for _, text := range fields {
			if isTime(text) {
				note(text)
			}
		}
	}
}
