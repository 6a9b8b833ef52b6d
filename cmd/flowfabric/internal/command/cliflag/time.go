package cliflag

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// kindOfTime is how the text of a time is read.
type kindOfTime int

// A point in time: a duration counts from now, a day is its beginning. The beginning and the end of a span in the past:
// a duration counts back from now, and a day that ends a span is in it.
const (
	point kindOfTime = iota
	since
	until
)

// Time reads a time of people: a duration, a day, or a time with or without a zone.
type Time struct {
	Text string
	Time time.Time

	kind kindOfTime
	day  bool // a whole day
}

// DeclareTime declares a flag for a point in time.
func DeclareTime(flags *pflag.FlagSet, name, usage string) *Time {
	f := &Time{}
	flags.StringVar(&f.Text, name, "", usage+": a `TIME` such as \"2026-11-20 14:00\", tomorrow, 90m (from now) or -1d")
	return f
}

// DeclareSince declares a flag for the beginning of a span in the past.
func DeclareSince(flags *pflag.FlagSet, name, usage string) *Time {
	f := &Time{kind: since}
	flags.StringVar(&f.Text, name, "", usage+": a `TIME` such as 90m (ago), 2d, 1w, yesterday, 2026-11-20 or \"2026-11-20 14:00\"")
	return f
}

// DeclareUntil declares a flag for the end of a span in the past. A day is a part of the span.
func DeclareUntil(flags *pflag.FlagSet, name, usage string) *Time {
	f := &Time{kind: until}
	flags.StringVar(&f.Text, name, "", usage+": a `TIME` as for the beginning; a day is included")
	return f
}

// Parse reads the time; zero without the flag.
func (f *Time) Parse(name string, now time.Time) error {
	if f.Text == "" {
		return nil
	}
	at, day, err := parseTime(f.Text, now, f.kind)
	if err != nil {
		return fmt.Errorf("--%s %w", name, err)
	}
	if day && f.kind == until {
		at = at.AddDate(0, 0, 1)
	}
	f.Time, f.day = at, day
	return nil
}

// Last is the last moment of the span that the time ends, where the end of the span is a part of it.
func (f *Time) Last() time.Time {
	if f.day && f.kind == until {
		return f.Time.Add(-time.Millisecond)
	}
	return f.Time
}

// ParseTime reads a point in time.
func ParseTime(text string, now time.Time) (time.Time, error) {
	at, _, err := parseTime(text, now, point)
	return at, err
}

// Layouts of times, whose zone is a part of the text or the zone of the machine.
var (
	zoned = []string{
		time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00",
		"2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04 Z07:00",
	}
	local = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"}
)

// parseTime reads a time, and reports whether it is a whole day.
func parseTime(text string, now time.Time, kind kindOfTime) (at time.Time, day bool, err error) {
	if d, err := ParseDuration(text); err == nil {
		switch {
		case kind == point:
			return now.Add(d), false, nil
		case d < 0:
			return at, false, fmt.Errorf("%q: must not be negative: it counts back from now", text)
		}
		return now.Add(-d), false, nil
	}
	rest, place := text, now.Location()
	if cut := strings.LastIndexByte(text, ' '); cut > 0 && !strings.ContainsAny(text[cut:], ":") {
		if zone, err := time.LoadLocation(text[cut+1:]); err == nil {
			rest, place = text[:cut], zone
		}
	}
	if rest == "now" {
		return now, false, nil
	}
	for i, word := range []string{"yesterday", "today", "tomorrow"} {
		if after, found := strings.CutPrefix(rest, word); found {
			rest = now.In(place).AddDate(0, 0, i-1).Format(time.DateOnly) + after
		}
	}
	if at, err := time.ParseInLocation(time.DateOnly, rest, place); err == nil {
		return at, true, nil
	}
	for _, layout := range zoned {
		if at, err := time.Parse(layout, rest); err == nil {
			return at, false, nil
		}
	}
	for _, layout := range local {
		if at, err := time.ParseInLocation(layout, rest, place); err == nil {
			return at, false, nil
		}
	}
	return at, false, fmt.Errorf("%q: must be a time such as 2026-11-20, \"2026-11-20 14:00\", \"2026-11-20 14:00 "+
		"Europe/Berlin\", 2026-11-20T14:00:00Z or yesterday, or a duration such as 90m, 2d or 1w", text)
}

// days matches the parts of a duration that package time does not know.
var days = regexp.MustCompile(`(\d+(?:\.\d+)?)([dw])`)

// ParseDuration reads a duration of package time, or with days of 24 hours and weeks: 90m, 1d12h, 2w.
func ParseDuration(text string) (time.Duration, error) {
	hours := map[string]float64{"d": 24, "w": 7 * 24}
	d, err := time.ParseDuration(days.ReplaceAllStringFunc(text, func(part string) string {
		match := days.FindStringSubmatch(part)
		n, _ := strconv.ParseFloat(match[1], 64)
		return strconv.FormatFloat(n*hours[match[2]], 'f', -1, 64) + "h"
	}))
	if err != nil {
		return 0, fmt.Errorf("%q: must be a duration such as 90m, 1d12h or 2w", text)
	}
	return d, nil
}

// duration is the value of a flag.
type duration struct{ to *time.Duration }

// DeclareDuration declares a flag for a duration, also in days and weeks.
func DeclareDuration(flags *pflag.FlagSet, to *time.Duration, name string, byDefault time.Duration, usage string) {
	*to = byDefault
	flags.Var(duration{to}, name, usage)
}

// String implements pflag.Value.
func (d duration) String() string {
	if d.to == nil {
		return "0s"
	}
	return d.to.String()
}

// Type implements pflag.Value.
func (duration) Type() string { return "duration" }

// Set implements pflag.Value.
func (d duration) Set(text string) error {
	parsed, err := ParseDuration(text)
	if err != nil {
		return errors.New("must be a duration such as 90m, 1d12h or 2w")
	}
	*d.to = parsed
	return nil
}
