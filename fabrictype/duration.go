package fabrictype

import (
	"fmt"
	"time"
)

// Duration is a length of time. In JSON it is a text as in Go, such as "1h30m0s" or "250ms".
type Duration struct{ time.Duration }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("duration %q: must be a number with a unit, such as 90s or 1h30m", text)
	}
	d.Duration = parsed
	return nil
}
