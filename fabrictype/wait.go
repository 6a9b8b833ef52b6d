package fabrictype

import (
	"encoding/json"
	"time"
)

// ReceivedSignal is a signal that a wait has received.
type ReceivedSignal struct {
	// ID identifies the signal in the engine.
	ID string `json:"id"`
	// Name, Category, SourceType, Source and CorrelationID are as the sender gave them.
	Name          string `json:"name"`
	Category      string `json:"category,omitempty"`
	SourceType    string `json:"source_type,omitempty"`
	Source        string `json:"source,omitempty"`
	CorrelationID string `json:"correlation_id,omitempty"`
	// At is when the engine accepted the signal.
	At time.Time `json:"at"`
	// Counts reports whether the signal counts towards the end of the wait.
	Counts bool `json:"counts"`
	// JSON is the payload if it is JSON, as from this SDK, and Data anything else. Both are empty for none.
	JSON json.RawMessage `json:"json,omitempty"`
	Data []byte          `json:"data,omitempty"`
}

// Payload returns the encoded payload; nil for none.
func (s ReceivedSignal) Payload() []byte {
	if s.JSON != nil {
		return s.JSON
	}
	return s.Data
}
