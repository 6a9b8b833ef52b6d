package activitycontext

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// Logs gives a function its logger. A worker implements it, and in tests a test.
type Logs interface {
	// Logger returns the logger of the attempt.
	Logger() *slog.Logger
}

// LogKind is the kind of frames that contain lines of the log: a JSON array of LogLine. activityspec.CheckName rejects
// it as a name, so functions cannot emit frames of this kind.
const LogKind = "$log"

// LogsFrom returns the Logs of the function that ctx belongs to, and false if ctx has none.
func LogsFrom(ctx context.Context) (Logs, bool) {
	l, ok := ctx.Value(key{}).(Logs)
	return l, ok
}

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
