package header

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Rows are stored texts of fixed width. A header declares the columns of one, and generation gives the Lua module of
// its name, the reader of tests, and the table of its bytes on the page of the stored form.

// Row is one @row.
type Row struct {
	pos     Position
	Name    string
	Doc     string
	Columns []*RowColumn
	Pieces  []rowPiece
	Beside  []string // other fields of the table that a reader makes
}

type RowColumn struct {
	pos    Position
	Name   string
	Format string // of struct.pack
	Size   int
	Kind   string
	Doc    string
	Values []string // of a state, from number 1 on
	Bits   []rowBit // of flags, from bit 1 on
	Fixed  int      // the value that it always has, if `always`
	Always bool
}

type rowBit struct{ Name, Doc string }

// rowPiece is a part of a row that is read or written by itself: adjacent columns, of which some are one text.
type rowPiece struct {
	pos   Position
	Name  string
	parts []rowPart
}

// rowPart is a column, or the bytes of all columns from one to another.
type rowPart struct{ from, to string }

var (
	textColumn = regexp.MustCompile(`^text\((\d+)\)$`)
	piecePart  = regexp.MustCompile(`^(\w+)(?:\.\.(\w+))?$`)
)

// columnFormats are the widths of columns and how struct.pack writes them, little endian.
var columnFormats = map[string]struct {
	format string
	size   int
}{
	"byte": {"B", 1}, "state": {"B", 1}, "flags": {"B", 1}, "short": {"H", 2}, "long": {"I4", 4}, "time": {"I6", 6},
	"micros": {"I7", 7},
}

// Size is how many bytes a row has.
func (r *Row) Size() int {
	n := 0
	for _, c := range r.Columns {
		n += c.Size
	}
	return n
}

func (r *Row) Format() string {
	var b strings.Builder
	b.WriteByte('<')
	for _, c := range r.Columns {
		b.WriteString(c.Format)
	}
	return b.String()
}

func (r *Row) index(name string) int {
	return slices.IndexFunc(r.Columns, func(c *RowColumn) bool { return c.Name == name })
}

// Offset is how many bytes come before a column.
func (r *Row) Offset(index int) int {
	n := 0
	for _, c := range r.Columns[:index] {
		n += c.Size
	}
	return n
}

// takeRow takes a tag of the header of a row; r is the row that the block has declared so far.
func takeRow(l *Library, r *Row, t Tag, p *Problems) *Row {
	name, rest, _ := strings.Cut(t.Text, " ")
	rest = strings.Join(strings.Fields(rest), " ")
	if t.Word == "row" {
		if slices.ContainsFunc(l.Rows, func(other *Row) bool { return other.Name == name }) {
			p.Add(t.Pos, "row %s is declared twice", name)
		}
		r = &Row{pos: t.Pos, Name: name, Doc: rest}
		l.Rows = append(l.Rows, r)
		return r
	}
	if r == nil {
		p.Add(t.Pos, "@%s without a @row above it", t.Word)
		return nil
	}
	if err := r.take(t.Pos, t.Word, name, rest); err != nil {
		p.Add(t.Pos, "@%s %s: %v", t.Word, name, err)
	}
	return r
}

func (r *Row) take(pos Position, word, name, rest string) error {
	switch word {
	case "beside":
		r.Beside = append([]string{name}, strings.Fields(rest)...)
		return nil
	case "column":
		return r.takeColumn(pos, name, rest)
	case "piece":
		piece := rowPiece{pos: pos, Name: name}
		for w := range strings.FieldsSeq(rest) {
			m := piecePart.FindStringSubmatch(w)
			if m == nil {
				return fmt.Errorf("%q is neither a column nor columns from..to", w)
			}
			piece.parts = append(piece.parts, rowPart{m[1], m[2]})
		}
		r.Pieces = append(r.Pieces, piece)
		_, err := r.PieceFormat(piece)
		return err
	}
	i := r.index(name)
	if i < 0 {
		return fmt.Errorf("the column does not exist")
	}
	c := r.Columns[i]
	switch {
	case word == "values" && c.Kind == "state":
		c.Values = strings.Fields(rest)
	case word == "bit" && c.Kind == "flags":
		bit, doc, _ := strings.Cut(rest, " ")
		c.Bits = append(c.Bits, rowBit{bit, doc})
	default:
		return fmt.Errorf("the column is of type %s", c.Kind)
	}
	return nil
}

func (r *Row) takeColumn(pos Position, name, rest string) error {
	kind, doc, _ := strings.Cut(rest, " ")
	c := &RowColumn{pos: pos, Name: name, Kind: kind}
	if m := textColumn.FindStringSubmatch(kind); m != nil {
		c.Size, _ = strconv.Atoi(m[1]) // digits
		c.Format = "c" + m[1]
	} else if f, ok := columnFormats[kind]; ok {
		c.Format, c.Size = f.format, f.size
	} else {
		return fmt.Errorf("unknown type %q", kind)
	}
	if fixed, ok := strings.CutPrefix(doc, "="); ok {
		number, more, _ := strings.Cut(fixed, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		c.Always, c.Fixed, doc = true, n, more
	}
	c.Doc = doc
	if r.index(name) >= 0 {
		return fmt.Errorf("is declared twice")
	}
	r.Columns = append(r.Columns, c)
	return nil
}

// PieceFormat is the format of a piece, whose columns follow each other.
func (r *Row) PieceFormat(piece rowPiece) (string, error) {
	format, next := "<", -1
	for _, part := range piece.parts {
		from := r.index(part.from)
		to := from
		if part.to != "" {
			to = r.index(part.to)
		}
		if from < 0 || to < from || next >= 0 && from != next {
			return "", fmt.Errorf("%s is not where it should be", part.from)
		}
		next = to + 1
		if part.to == "" {
			format += r.Columns[from].Format
		} else {
			format += fmt.Sprintf("c%d", r.Offset(next)-r.Offset(from))
		}
	}
	return format, nil
}

// isRowTag reports whether a tag belongs to the header of a row.
func isRowTag(word string) bool {
	return slices.Contains([]string{"row", "beside", "column", "values", "bit", "piece"}, word)
}
