package activitycontext

import (
	"encoding/json"
	"log/slog"
	"time"
)

// LogAttrs is the group of slog.JSONHandler that has the attributes of a stored line.
const LogAttrs = "attrs"

// LogLine is a stored line: the first four fields are as slog.JSONHandler writes them.
type LogLine struct {
	Time    time.Time       `json:"time,omitzero"`
	Level   slog.Level      `json:"level"`
	Message string          `json:"msg"`
	Attrs   json.RawMessage `json:"attrs,omitempty"`
	// Shortened marks a line without its attributes and the end of its message.
	Shortened bool `json:"shortened,omitempty"`
	// Cut is the number of lines that were not stored.
	Cut int `json:"cut,omitempty"`
}
