package output

import (
	"fmt"
	"slices"
	"strings"
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
	rows := make([][]string, 0, len(items))
	for _, item := range items {
		rows = append(rows, cells(columns, func(c Column[T]) string { return Visible(c.Text(item)) }))
	}
	heads := cells(columns, func(c Column[T]) string { return strings.ToUpper(c.Name) })
	if w.options.NoHeaders {
		heads = make([]string, len(columns))
	}
	widths := make([]int, len(columns))
	for _, row := range append([][]string{heads}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if !w.options.NoHeaders {
		if err := w.line(aligned(heads, widths)); err != nil {
			return err
		}
	}
	for _, row := range rows {
		if err := w.line(aligned(paintStates(w, columns, row), widths)); err != nil {
			return err
		}
	}
	return nil
}

func each[T any](items []T, print func(T) error) error {
	for _, item := range items {
		if err := print(item); err != nil {
			return err
		}
	}
	return nil
}

func cells[T any](columns []Column[T], text func(Column[T]) string) []string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = text(c)
	}
	return cells
}

// paintStates gives the cells of columns with states their colours, on a terminal.
func paintStates[T any](w *Writer, columns []Column[T], cells []string) []string {
	for i, c := range columns {
		switch c.Name {
		case "state", "outcome", "severity", "kind":
			cells[i] = w.State(cells[i])
		}
	}
	return cells
}

// aligned returns cells as a line, filled to the widths of their columns.
func aligned(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", max(0, widths[i]-visibleWidth(cell))+2))
	}
	return strings.TrimRight(b.String(), " ")
}

// Stream prints elements as they come: rows of a table whose columns keep their width, or a value each.
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
		s.widths = append(s.widths, max(c.Least, utf8.RuneCountInString(c.Name)))
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
		heads := cells(s.columns, func(c Column[T]) string { return strings.ToUpper(c.Name) })
		if err := s.w.line(aligned(heads, s.widths)); err != nil {
			return err
		}
	}
	s.begun = true
	row := cells(s.columns, func(c Column[T]) string { return Visible(c.Text(item)) })
	return s.w.line(aligned(paintStates(s.w, s.columns, row), s.widths))
}
