package output

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Column is a column of a table.
type Column[T any] struct {
	Name string
	// Wide columns are in wide tables and by name only.
	Wide bool
	// Least is how wide the column is at least in a table whose rows are printed as they come, in characters.
	Least int
	Text  func(T) string
}

// View defines how elements are printed.
type View[T any] struct {
	Columns []Column[T]
	// Name returns the name of an element in commands.
	Name func(T) string
}

// ColumnNames returns the names of all columns.
func (v View[T]) ColumnNames() []string {
	names := make([]string, len(v.Columns))
	for i, c := range v.Columns {
		names[i] = c.Name
	}
	return names
}

// CheckColumns returns an error for a name that is not among the columns.
func CheckColumns(names, columns []string) error {
	for _, name := range names {
		if !slices.Contains(columns, name) {
			return fmt.Errorf("--columns %q: must be of %s", name, strings.Join(columns, ", "))
		}
	}
	return nil
}

// chosen returns the columns to print.
func (v View[T]) chosen(o Options) []Column[T] {
	var columns []Column[T]
	if len(o.Columns) == 0 {
		for _, c := range v.Columns {
			if !c.Wide || o.Format == Wide {
				columns = append(columns, c)
			}
		}
		return columns
	}
	for _, name := range o.Columns {
		for _, c := range v.Columns {
			if c.Name == name {
				columns = append(columns, c)
			}
		}
	}
	return columns
}

// List prints a list: a table, an array of JSON, a line of JSON each, a sequence of YAML, or a name each.
func List[T any](w *Writer, v View[T], items []T) error {
	switch w.options.Format {
	case Name:
		return each(items, func(item T) error { return w.line(Visible(v.Name(item))) })
	case JSONL:
		return each(items, func(item T) error { return w.data(item) })
	case JSON, YAML:
		if items == nil {
			items = []T{}
		}
		return w.data(items)
	}
	columns := v.chosen(w.options)
	table := tabwriter.NewWriter(w.to, 0, 4, 2, ' ', 0)
	if !w.options.NoHeaders {
		fmt.Fprintln(table, row(columns, func(c Column[T]) string { return strings.ToUpper(c.Name) }))
	}
	for _, item := range items {
		fmt.Fprintln(table, row(columns, func(c Column[T]) string { return Visible(c.Text(item)) }))
	}
	return table.Flush()
}

func each[T any](items []T, print func(T) error) error {
	for _, item := range items {
		if err := print(item); err != nil {
			return err
		}
	}
	return nil
}

func row[T any](columns []Column[T], text func(Column[T]) string) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = text(c)
	}
	return strings.TrimRight(strings.Join(cells, "\t"), "\t")
}

// Stream prints elements as they come: rows of a table whose columns become wider, or a value each.
type Stream[T any] struct {
	w       *Writer
	view    View[T]
	columns []Column[T]
	widths  []int
	begun   bool
}

// NewStream returns a stream of a writer.
func NewStream[T any](w *Writer, v View[T]) *Stream[T] {
	s := &Stream[T]{w: w, view: v, columns: v.chosen(w.options)}
	for _, c := range s.columns {
		s.widths = append(s.widths, c.Least)
	}
	return s
}

// Print prints an element.
func (s *Stream[T]) Print(item T) error {
	switch s.w.options.Format {
	case Name:
		return s.w.line(Visible(s.view.Name(item)))
	case JSON, JSONL:
		text, err := VisibleJSON(item)
		if err != nil {
			return err
		}
		return s.w.line(text)
	case YAML:
		return s.w.data(item)
	}
	if !s.begun && !s.w.options.NoHeaders {
		if err := s.print(func(c Column[T]) string { return strings.ToUpper(c.Name) }); err != nil {
			return err
		}
	}
	s.begun = true
	return s.print(func(c Column[T]) string { return Visible(c.Text(item)) })
}

func (s *Stream[T]) print(text func(Column[T]) string) error {
	var b strings.Builder
	for i, c := range s.columns {
		cell := text(c)
		width := utf8.RuneCountInString(cell)
		s.widths[i] = max(s.widths[i], width)
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", s.widths[i]-width+2))
	}
	return s.w.line(strings.TrimRight(b.String(), " "))
}
