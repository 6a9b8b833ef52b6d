package activitycontext

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// MaxFrame is the largest payload of a frame, in bytes.
const MaxFrame = 64 << 10

// maxFrameText bounds the correlation id of a frame, maxFrameEncoding the name of its encoding, in bytes.
const (
	maxFrameText     = 256
	maxFrameEncoding = 64
)

// Encodings of a frame.
const (
	JSONEncoding  = "json"
	BytesEncoding = "bytes"
)

// Frame is one entry of an attempt's stream.
type Frame struct {
	Kind          string
	Payload       []byte
	Encoding      string
	CorrelationID string
	At            time.Time // zero: when the engine stores it
}

// NewFrame checks the fields of an activity.Frame and encodes its payload.
func NewFrame(kind, encoding, correlationID string, payload any, at time.Time) (Frame, error) {
	f := Frame{Kind: kind, Encoding: cmp.Or(encoding, BytesEncoding), CorrelationID: correlationID, At: at}
	if err := activityspec.CheckName(kind); err != nil {
		return f, fmt.Errorf("emit: %w", err)
	}
	if raw, ok := payload.([]byte); ok {
		f.Payload = bytes.Clone(raw)
	} else {
		var err error
		if f.Payload, err = activityspec.EncodeJSON(payload); err != nil {
			return f, fmt.Errorf("emit %q: payload of type %T does not encode: %w", kind, payload, err)
		}
		if encoding != "" {
			return f, fmt.Errorf("emit %q: encoding %q is for payloads of type []byte, not %T", kind, encoding, payload)
		}
		f.Encoding = JSONEncoding
	}
	if len(f.Payload) > MaxFrame {
		return f, fmt.Errorf("emit %q: payload has %d bytes, at most %d are allowed", kind, len(f.Payload), MaxFrame)
	}
	for _, text := range []struct {
		name, value string
		most        int
	}{{"encoding", encoding, maxFrameEncoding}, {"correlation id", correlationID, maxFrameText}} {
		if err := activityspec.CheckText(text.value); err != nil || len(text.value) > text.most {
			return f, fmt.Errorf("emit %q: %s %.80q: must be at most %d bytes of UTF-8 without control characters",
				kind, text.name, text.value, text.most)
		}
	}
	return f, nil
}
