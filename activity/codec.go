package activity

import (
	"encoding/json"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Codec turns values into bytes and back. Its methods are called from several goroutines at once.
type Codec interface {
	// Name is stored with each flow and must not change while flows are kept. It is a name by the rule of the package.
	Name() string
	// Encode returns the bytes of a value, which the codec does not use afterwards.
	Encode(value any) ([]byte, error)
	// Decode fills the value that target points to. It must refuse bytes that are not exactly one encoded value, and
	// must not keep data.
	Decode(data []byte, target any) error
}

// JSON is the default codec: encoding/json, without the escaping of <, > and &. It refuses values without a JSON form,
// such as NaN and channels, and refuses bytes after the value; fields that the target type does not have are ignored.
// As encoding/json does, it replaces bytes of a string that are not valid UTF-8 by U+FFFD without an error: pass binary
// data as []byte, which is encoded in base64.
type JSON struct{}

// Name returns "json".
func (JSON) Name() string { return "json" }

// Encode implements Codec.
func (JSON) Encode(value any) ([]byte, error) {
	return activityspec.EncodeJSON(value)
}

// Decode implements Codec.
func (JSON) Decode(data []byte, target any) error {
	return json.Unmarshal(data, target)
}
