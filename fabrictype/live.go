package fabrictype

import (
	"encoding/json"
	"fmt"
	"time"
)

// LiveValue is a value that a function has published by activity.Publish.
type LiveValue struct {
	Key string `json:"key"`
	// At is when it was published last, by the engine's clock, and Attempt the attempt that did, counted from 1.
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	// Size is the number of bytes of the value.
	Size int `json:"size" doc:"Bytes of the value."`
	// JSON is the value; nil in a Node, which lists keys only.
	JSON json.RawMessage `json:"json,omitempty" doc:"The value, of get-live-value."`
}

// Decode decodes the value into target, a pointer.
func (v LiveValue) Decode(target any) error {
	if err := json.Unmarshal(v.JSON, target); err != nil {
		return fmt.Errorf("live value %q: %w", v.Key, err)
	}
	return nil
}

// Frame is one frame that an attempt emitted with activity.Emit.
type Frame struct {
	// Cursor is the position of the frame, for the next call of RunRef.Stream or RunRef.Frames.
	Cursor string `json:"cursor"`
	// Attempt is the number of the attempt, counted from 1.
	Attempt int `json:"attempt"`
	// Kind is the kind that was passed to Emit.
	Kind string `json:"kind"`
	// At is when the engine stored the frame.
	At time.Time `json:"at"`
	// ProducedAt is the At of activity.Frame, by the clock of the worker; without one, the time of the engine.
	ProducedAt time.Time `json:"produced_at,omitzero" doc:"Time by the clock of the worker."`
	// Dropped is how many frames before this one no longer exist, or were refused by the engine. Frames before a cursor
	// are not counted. Lines of the log (RunRef.Logs) are in frames, too, and count here.
	Dropped int `json:"dropped,omitempty" doc:"Frames before this one that are not kept any more."`
	// JSON is the emitted value if it is JSON, and Data a []byte as it was emitted.
	JSON json.RawMessage `json:"json,omitempty"`
	Data []byte          `json:"data,omitempty"`
	// Encoding is the name of the encoding: "json", "bytes", or the one of activity.Frame.
	Encoding string `json:"encoding"`
	// CorrelationID is the one of activity.Frame; empty if the frame has none.
	CorrelationID string `json:"correlation_id,omitempty"`
}

// Payload returns the emitted value as it was encoded.
func (f Frame) Payload() []byte {
	if f.JSON != nil {
		return f.JSON
	}
	return f.Data
}

// Decode decodes the JSON of the frame into target, a pointer.
func (f Frame) Decode(target any) error {
	if f.JSON == nil {
		return fmt.Errorf("frame %s was emitted as bytes, not as a value", f.Cursor)
	}
	return json.Unmarshal(f.JSON, target)
}
