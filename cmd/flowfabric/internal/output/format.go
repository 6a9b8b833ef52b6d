package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Format is a form of output.
type Format string

// Formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	JSONL Format = "jsonl"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// Formats returns all formats.
func Formats() []Format { return []Format{Table, Wide, JSON, JSONL, YAML, Name} }

// Options configure the output. The zero value prints tables.
type Options struct {
	Format Format
	// Columns are the names of the columns of tables; empty for the usual ones.
	Columns   []string
	NoHeaders bool
	// Color shows states in colours, in tables and texts for people.
	Color bool
}

// Check returns an error for an unknown format, and for columns without a table.
func (o Options) Check() error {
	if !slices.Contains(Formats(), o.Format) {
		return fmt.Errorf("--output %q: must be table, wide, json, jsonl, yaml or name", o.Format)
	}
	if len(o.Columns) > 0 && o.Format != Table && o.Format != Wide {
		return fmt.Errorf("--columns needs --output table or wide, got: %s", o.Format)
	}
	return nil
}

// Writer prints. It is for one goroutine.
type Writer struct {
	to      io.Writer
	options Options
	parts   int
}

// New returns a writer.
func New(to io.Writer, options Options) *Writer { return &Writer{to: to, options: options} }

// ForPeople reports whether the output consists of tables and explaining texts.
func (w *Writer) ForPeople() bool { return w.options.Format == Table || w.options.Format == Wide }

// Wide reports whether as much as there is should be printed.
func (w *Writer) Wide() bool { return w.options.Format == Wide }

// Names reports whether names alone are printed.
func (w *Writer) Names() bool { return w.options.Format == Name }

// Say prints a text for people, on separate lines; nothing in other formats.
func (w *Writer) Say(format string, args ...any) {
	if w.ForPeople() {
		fmt.Fprintln(w.to, VisibleLines(fmt.Sprintf(format, args...)))
	}
}

// State returns a state with its colour, on a terminal, for a text that the caller prints by itself.
func (w *Writer) State(state string) string {
	if !w.options.Color {
		return state
	}
	return paint(state)
}

// Value prints a value: the text for people, its name, or the value itself.
func (w *Writer) Value(value any, name, text string) error {
	switch w.options.Format {
	case Name:
		return w.line(Visible(name))
	case Table, Wide:
		return w.line(VisibleLines(strings.TrimSuffix(text, "\n")))
	default:
		return w.data(value)
	}
}

func (w *Writer) line(text string) error {
	_, err := fmt.Fprintln(w.to, text)
	return err
}

// data prints a value as JSON or YAML.
func (w *Writer) data(value any) error {
	w.parts++
	switch w.options.Format {
	case JSON:
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		return w.line(escapeJSON(string(text)))
	case YAML:
		text, err := yamlOf(value)
		if err != nil {
			return err
		}
		if w.parts > 1 {
			text = "---\n" + text
		}
		_, err = io.WriteString(w.to, text)
		return err
	default:
		text, err := VisibleJSON(value)
		if err != nil {
			return err
		}
		return w.line(text)
	}
}

// At shows a time; "-" is none.
func At(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// Tags shows tags in the order of their keys.
func Tags(tags map[string]string) string {
	data, err := json.Marshal(tags)
	if err != nil || len(tags) == 0 {
		return ""
	}
	return string(data)
}

// Lines reports whether each value is a separate line.
func (w *Writer) Lines() bool { return w.options.Format == JSONL }
