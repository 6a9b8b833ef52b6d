package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
)

// Source has the folder that a run loads from, and the one that it loads into. Both are absolute paths.
type Source struct {
	Data      string `json:"data"`
	Warehouse string `json:"warehouse"`
}

// File is one file of a Source.
type File struct {
	Source Source `json:"source"`
	Name   string `json:"name"`
}

// RawRow is a row as it is in a file, as text. Fault is the reason why a line is not a row.
type RawRow struct {
	Line   int    `json:"line"`
	Time   string `json:"time,omitempty"`
	Sensor string `json:"sensor,omitempty"`
	Value  string `json:"value,omitempty"`
	Unit   string `json:"unit,omitempty"`
	Fault  string `json:"fault,omitempty"`
}

// Extracted is the content of a file.
type Extracted struct {
	File File `json:"file"`
	// Key identifies the file with this content in the warehouse.
	Key  string   `json:"key"`
	Rows []RawRow `json:"rows"`
}

// Categories of failures of a file.
const (
	categoryUnreadable = "unreadable" // the file system refuses to read it
	categoryFormat     = "format"     // it is not a file of measurements
	categoryQuality    = "quality"    // too many of its rows were refused
)

// FileError is why a file cannot be loaded. Programs that wait for a run find it by errors.As.
type FileError struct {
	File   string `json:"file"`
	Detail string `json:"detail"`
}

// ErrorName is the name under which a failure keeps the error.
func (*FileError) ErrorName() string { return "etl.file" }

// Error names the file and its fault.
func (e *FileError) Error() string { return e.File + ": " + e.Detail }

// fail returns a FileError of a category. Its cause is in the data, so it is not tried again.
func fail(f File, category, format string, args ...any) error {
	return activity.NonRetryable(activity.Category(&FileError{f.Name, fmt.Sprintf(format, args...)}, category))
}

// List lists the files of the folder by name. It does not open them.
func List(_ context.Context, s Source) ([]File, error) {
	entries, err := os.ReadDir(s.Data)
	if err != nil {
		return nil, err
	}
	files := make([]File, 0, len(entries))
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".csv" || ext == ".jsonl" {
			files = append(files, File{s, e.Name()})
		}
	}
	return files, nil
}

// Extract reads a file. A line that is not a row becomes a row with a fault; a file without any table is an error.
func Extract(_ context.Context, f File) (Extracted, error) {
	content, err := os.ReadFile(filepath.Join(f.Source.Data, f.Name))
	if err != nil {
		// The disk may recover, so this one is tried again.
		return Extracted{}, activity.Category(&FileError{f.Name, err.Error()}, categoryUnreadable)
	}
	rows, err := rowsOf(f, content)
	if err != nil {
		return Extracted{}, err
	}
	sum := sha256.Sum256(content)
	return Extracted{File: f, Key: f.Name + "@" + hex.EncodeToString(sum[:8]), Rows: rows}, nil
}

func rowsOf(f File, content []byte) ([]RawRow, error) {
	if filepath.Ext(f.Name) == ".csv" {
		return csvRows(f, content)
	}
	return jsonRows(content), nil
}

// columns are the columns of a CSV file.
var columns = []string{"time", "sensor", "value", "unit"}

func csvRows(f File, content []byte) ([]RawRow, error) {
	header, rest, _ := bytes.Cut(content, []byte("\n"))
	if names := strings.Split(strings.TrimSpace(string(header)), ","); !slices.Equal(names, columns) {
		return nil, fail(f, categoryFormat, "the header is %.60q, must be %q", header, strings.Join(columns, ","))
	}
	var rows []RawRow
	line := 1
	for text := range bytes.Lines(rest) {
		line++
		rows = append(rows, csvRow(line, text))
	}
	return rows, nil
}

// csvRow reads one line. Fields with line breaks inside do not occur in measurements.
func csvRow(line int, text []byte) RawRow {
	fields, err := csv.NewReader(bytes.NewReader(text)).Read()
	switch {
	case err != nil:
		return RawRow{Line: line, Fault: "no CSV: " + err.Error()}
	case len(fields) != len(columns):
		return RawRow{Line: line, Fault: fmt.Sprintf("has %d fields, must have %d", len(fields), len(columns))}
	}
	return RawRow{Line: line, Time: fields[0], Sensor: fields[1], Value: fields[2], Unit: fields[3]}
}

func jsonRows(content []byte) []RawRow {
	var rows []RawRow
	line := 0
	for text := range bytes.Lines(content) {
		line++
		var fields struct {
			Time, Sensor, Unit string
			Value              json.RawMessage
		}
		if err := json.Unmarshal(text, &fields); err != nil {
			rows = append(rows, RawRow{Line: line, Fault: "no JSON: " + err.Error()})
			continue
		}
		rows = append(rows, RawRow{
			Line: line, Time: fields.Time, Sensor: fields.Sensor, Value: string(fields.Value), Unit: fields.Unit,
		})
	}
	return rows
}
