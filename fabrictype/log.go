package fabrictype

import (
	"encoding/json"
	"log/slog"
	"time"
)

// LogLine is one record that an attempt logged. Its texts are as the activity logged them, control characters included:
// a program that prints them on a terminal has to escape those.
type LogLine struct {
	// Cursor is the position of the line, for runtime.LogQuery.After.
	Cursor string `json:"cursor"`
	// Attempt is the number of the attempt, counted from 1.
	Attempt int `json:"attempt"`
	// At is the time of the record by the worker's clock; zero if the record has none.
	At time.Time `json:"at,omitzero"`
	// Level and Message are the level and the message of the record.
	Level   slog.Level `json:"level"`
	Message string     `json:"message"`
	// Attrs are the attributes in JSON, an object; empty if there are none.
	Attrs json.RawMessage `json:"attrs,omitempty"`
	// Shortened reports that the line was too long: its message may be cut, and its attributes are left out.
	Shortened bool `json:"shortened,omitempty"`
	// Dropped is the number of frames before this line that the engine no longer keeps, or has refused. A frame has up
	// to 100 lines, or is one that the activity emitted. It is 0 for other lines, and counts nothing before the cursor
	// at which the reader began.
	Dropped int `json:"dropped,omitempty" doc:"Frames before this line that are not kept any more."`
	// Cut is the number of lines that were not stored, in the last line of an attempt that logged too much; else 0.
	Cut int `json:"cut,omitempty" doc:"Lines that were not stored, in the last line of an attempt that logged too much."`
}
