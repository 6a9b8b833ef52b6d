// Package runlog has what activities log with activity.Logger: how much a worker stores of it, and the lines that
// RunRef.Logs of package runtime yields.
package runlog

import (
	"encoding/json"
	"log/slog"
	"time"
)

// Defaults of Config.
const (
	DefaultLines = 1000
	DefaultBytes = 256 << 10
)

// Config configures what a worker stores of the logs of its activities. The zero value suits most programs.
type Config struct {
	// Off stores nothing. What activities log goes to the program's logger alone.
	Off bool
	// Level is the least level that is stored. Defaults to slog.LevelInfo. The program's logger has its own.
	Level slog.Leveler
	// Lines and Bytes bound what is stored of an attempt; one that goes on after a wait begins to count anew. What is
	// above them is cut, and a last line says how many lines were. They default to DefaultLines and DefaultBytes, and
	// are at most 9,000 and 4 MiB.
	Lines, Bytes int
}

// Query selects the lines of a node.
type Query struct {
	// Attempt is the number of an attempt, counted from 1. Defaults to 0, which is all of them.
	Attempt int
	// After is the cursor of a line, behind which to begin. Defaults to the first line.
	After string
	// Follow waits for further lines until the node has ended.
	Follow bool
}

// Line is one record that an attempt logged. Its texts are as the activity logged them, control characters included:
// what prints them on a terminal has to escape those.
type Line struct {
	// Cursor is the position of the line, for Query.After.
	Cursor string
	// Attempt is the number of the attempt, counted from 1.
	Attempt int
	// At is the time of the record by the worker's clock; zero if the record has none.
	At time.Time
	// Level and Message are those of the record.
	Level   slog.Level
	Message string
	// Attrs are the attributes in JSON, an object; empty if there are none.
	Attrs json.RawMessage
	// Shortened reports that the line was too long: its message may be cut, and its attributes are left out.
	Shortened bool
	// Cut is the number of lines that were not stored, in the last line of an attempt that logged too much; else 0.
	Cut int
	// Dropped is the number of frames before this line that the engine does not keep any more, or has refused. A frame
	// has up to 100 lines, or is one that the activity emitted. It is 0 for other lines, and counts nothing before the
	// cursor of Query.After.
	Dropped int
}
