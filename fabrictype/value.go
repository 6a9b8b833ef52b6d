package fabrictype

import (
	"encoding/json"
	"fmt"
	"time"
)

// Value is an encoded value: the input or result of a run or node.
type Value struct {
	// Codec is the name of the codec of the value: json, unless the flow or activity has another one.
	Codec string `json:"codec" doc:"Name of the codec of the value."`
	// Size is the number of bytes of the whole value; -1 for an input that was not composed because a part of it is
	// truncated.
	Size int `json:"size" doc:"Bytes of the whole value; -1 if it is not known."`
	// JSON is the value if it is whole and JSON: as it was written, with large numbers and the order of keys.
	JSON json.RawMessage `json:"json,omitempty" doc:"The value, if it is whole and JSON."`
	// Text is the beginning of truncated JSON.
	Text string `json:"text,omitempty" doc:"The beginning of JSON that is truncated."`
	// Data is anything else: the value of another codec, or its beginning.
	Data []byte `json:"data,omitempty" doc:"Anything else, in base64."`
	// Truncated reports whether only the beginning of the value is there.
	Truncated bool `json:"truncated,omitempty"`
}

// Bytes returns the value as it was encoded: its beginning when it is truncated.
func (v *Value) Bytes() []byte {
	switch {
	case v == nil:
		return nil
	case v.JSON != nil:
		return v.JSON
	case v.Text != "":
		return []byte(v.Text)
	}
	return v.Data
}

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
