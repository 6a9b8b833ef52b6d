package describe

import (
	"cmp"
	"encoding/json"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// JSONCodec is the name of the codec of flows and activities that have no other one.
const JSONCodec = "json"

// Codec returns the name of a codec as a graph has it.
func Codec(stored string) string { return cmp.Or(stored, JSONCodec) }

// Value returns a value of size bytes, of which data is the whole or the beginning.
func Value(codec string, size int, data []byte) *fabrictype.Value {
	v := &fabrictype.Value{Codec: codec, Size: size, Truncated: size > len(data)}
	switch {
	case codec != JSONCodec:
		v.Data = data
	case !v.Truncated && IsJSON(data):
		v.JSON = data
	default:
		v.Text = string(data)
	}
	return v
}

// IsJSON reports whether data can be part of a JSON text as it is. Readers would change invalid UTF-8.
func IsJSON(data []byte) bool { return json.Valid(data) && utf8.Valid(data) }
