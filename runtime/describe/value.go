package describe

import (
	"encoding/json"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"unicode/utf8"
)

// Value is an encoded value: the input or result of a run or node, or the payload of a signal.
type Value struct {
	// Codec is the name of the codec of Data: json, unless the flow or activity has another one.
	Codec string
	// Size is the number of bytes of the whole value; -1 for an input that was not composed because a part of it is
	// truncated.
	Size int
	// Data is the value as it was encoded, so large numbers and the order of keys are as they were written; its
	// beginning when Truncated is set.
	Data []byte
	// Truncated reports whether Data is not the whole value.
	Truncated bool
}

// JSON returns the value if it is whole and JSON, and nil otherwise.
func (v *fabrictype.Value) JSON() json.RawMessage {
	if v == nil || v.Truncated || v.Codec != "json" || !json.Valid(v.Data) || !utf8.Valid(v.Data) {
		return nil
	}
	return v.Data
}

// MarshalJSON encodes the value with its codec and size: as "json" if it is JSON, as "text" if it is the beginning of
// JSON, and otherwise as "data" in base64.
func (v *fabrictype.Value) MarshalJSON() ([]byte, error) {
	out := encodedValue{Codec: v.Codec, Size: v.Size, Truncated: v.Truncated}
	switch {
	case v.JSON() != nil:
		out.JSON = v.Data
	case v.Codec == "json":
		out.Text = string(v.Data)
	default:
		out.Data = v.Data
	}
	return json.Marshal(out)
}

// UnmarshalJSON decodes what MarshalJSON has written.
func (v *fabrictype.Value) UnmarshalJSON(text []byte) error {
	var in encodedValue
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*v = fabrictype.Value{Codec: in.Codec, Size: in.Size, Truncated: in.Truncated, Data: in.Data}
	switch {
	case in.JSON != nil:
		v.Data = in.JSON
	case in.Text != "":
		v.Data = []byte(in.Text)
	}
	return nil
}

// encodedValue is the JSON form of a value.
type encodedValue struct {
	Codec     string          `json:"codec"`
	Size      int             `json:"size"`
	Truncated bool            `json:"truncated,omitempty"`
	JSON      json.RawMessage `json:"json,omitempty"`
	Text      string          `json:"text,omitempty"`
	Data      []byte          `json:"data,omitempty"`
}
