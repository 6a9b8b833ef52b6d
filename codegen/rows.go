package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Rows are stored texts of fixed width. A header declares the columns of one, and generation gives the Lua module of
// its name, the reader of tests, and the table of its bytes on the page of the stored form.

// rowLayout is one @row.
type rowLayout struct {
	pos     position
	name    string
	doc     string
	columns []*rowColumn
	pieces  []rowPiece
	beside  []string // other fields of the table that a reader makes
}

type rowColumn struct {
	pos    position
	name   string
	format string // of struct.pack
	size   int
	kind   string
	doc    string
	values []string // of a state, from number 1 on
	bits   []rowBit // of flags, from bit 1 on
	fixed  int      // the value that it always has, if `always`
	always bool
}

type rowBit struct{ name, doc string }

// rowPiece is a part of a row that is read or written by itself: adjacent columns, of which some are one text.
type rowPiece struct {
	pos   position
	name  string
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
}{"byte": {"B", 1}, "state": {"B", 1}, "flags": {"B", 1}, "short": {"H", 2}, "long": {"I4", 4}, "time": {"I6", 6}}

// size is how many bytes a row has.
func (r *rowLayout) size() int {
	n := 0
	for _, c := range r.columns {
		n += c.size
	}
	return n
}

func (r *rowLayout) format() string {
	var b strings.Builder
	b.WriteByte('<')
	for _, c := range r.columns {
		b.WriteString(c.format)
	}
	return b.String()
}

func (r *rowLayout) index(name string) int {
	return slices.IndexFunc(r.columns, func(c *rowColumn) bool { return c.name == name })
}

// offset is how many bytes come before a column.
func (r *rowLayout) offset(index int) int {
	n := 0
	for _, c := range r.columns[:index] {
		n += c.size
	}
	return n
}

// takeRow takes a tag of the header of a row; r is the row that the block has declared so far.
func takeRow(l *library, r *rowLayout, t tag, p *problems) *rowLayout {
	name, rest, _ := strings.Cut(t.text, " ")
	rest = strings.Join(strings.Fields(rest), " ")
	if t.word == "row" {
		if slices.ContainsFunc(l.rows, func(other *rowLayout) bool { return other.name == name }) {
			p.add(t.pos, "row %s is declared twice", name)
		}
		r = &rowLayout{pos: t.pos, name: name, doc: rest}
		l.rows = append(l.rows, r)
		return r
	}
	if r == nil {
		p.add(t.pos, "@%s without a @row above it", t.word)
		return nil
	}
	if err := r.take(t.pos, t.word, name, rest); err != nil {
		p.add(t.pos, "@%s %s: %v", t.word, name, err)
	}
	return r
}

func (r *rowLayout) take(pos position, word, name, rest string) error {
	switch word {
	case "beside":
		r.beside = append([]string{name}, strings.Fields(rest)...)
		return nil
	case "column":
		return r.takeColumn(pos, name, rest)
	case "piece":
		piece := rowPiece{pos: pos, name: name}
		for w := range strings.FieldsSeq(rest) {
			m := piecePart.FindStringSubmatch(w)
			if m == nil {
				return fmt.Errorf("%q is neither a column nor columns from..to", w)
			}
			piece.parts = append(piece.parts, rowPart{m[1], m[2]})
		}
		r.pieces = append(r.pieces, piece)
		_, err := r.pieceFormat(piece)
		return err
	}
	i := r.index(name)
	if i < 0 {
		return fmt.Errorf("the column does not exist")
	}
	c := r.columns[i]
	switch {
	case word == "values" && c.kind == "state":
		c.values = strings.Fields(rest)
	case word == "bit" && c.kind == "flags":
		bit, doc, _ := strings.Cut(rest, " ")
		c.bits = append(c.bits, rowBit{bit, doc})
	default:
		return fmt.Errorf("the column is of type %s", c.kind)
	}
	return nil
}

func (r *rowLayout) takeColumn(pos position, name, rest string) error {
	kind, doc, _ := strings.Cut(rest, " ")
	c := &rowColumn{pos: pos, name: name, kind: kind}
	if m := textColumn.FindStringSubmatch(kind); m != nil {
		c.size, _ = strconv.Atoi(m[1]) // digits
		c.format = "c" + m[1]
	} else if f, ok := columnFormats[kind]; ok {
		c.format, c.size = f.format, f.size
	} else {
		return fmt.Errorf("unknown type %q", kind)
	}
	if fixed, ok := strings.CutPrefix(doc, "="); ok {
		number, more, _ := strings.Cut(fixed, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		c.always, c.fixed, doc = true, n, more
	}
	c.doc = doc
	if r.index(name) >= 0 {
		return fmt.Errorf("is declared twice")
	}
	r.columns = append(r.columns, c)
	return nil
}

// pieceFormat is the format of a piece, whose columns follow each other.
func (r *rowLayout) pieceFormat(piece rowPiece) (string, error) {
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
			format += r.columns[from].format
		} else {
			format += fmt.Sprintf("c%d", r.offset(next)-r.offset(from))
		}
	}
	return format, nil
}

// locals names the variables of a reader, which must not be names of modules.
func (r *rowLayout) locals() string {
	var names []string
	for _, c := range r.columns {
		names = append(names, c.name+"_")
	}
	return strings.Join(names, ", ")
}

// values lists the values that a writer writes of the table r.
func (r *rowLayout) values() string {
	var values []string
	for _, c := range r.columns {
		if c.always {
			values = append(values, strconv.Itoa(c.fixed))
		} else {
			values = append(values, "r."+c.name)
		}
	}
	return strings.Join(values, ", ")
}

// rowModules names the modules of rows.
func rowModules(l *library) []string {
	var names []string
	for _, r := range l.rows {
		names = append(names, r.name)
	}
	return names
}

// emitLuaRows writes the modules of rows.
func emitLuaRows(l *library) string {
	var b strings.Builder
	b.WriteString(luaHeader)
	used := func(name string) bool {
		word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
		return slices.ContainsFunc(l.files, func(f sourceFile) bool { return word.MatchString(f.text) })
	}
	for _, r := range l.rows {
		r.emitLua(&b, used)
	}
	return b.String()
}

// emitLua writes the module of a row: its length; where columns begin, from 1 on, and their formats, as far as the
// library uses them; values, bits and pieces; the reader and the writer.
func (r *rowLayout) emitLua(b *strings.Builder, used func(name string) bool) {
	fmt.Fprintf(b, "\n-- %s\n%s.BYTES = %d\n", r.doc, r.name, r.size())
	for i, c := range r.columns {
		name := strings.ToUpper(c.name)
		if at := r.name + "." + name + "_AT"; used(at) {
			fmt.Fprintf(b, "%s = %d\n", at, r.offset(i)+1)
		}
		if format := r.name + "." + name + "_FORMAT"; used(format) {
			fmt.Fprintf(b, "%s = '<%s'\n", format, c.format)
		}
		if c.always {
			fmt.Fprintf(b, "%s.%s = %d\n", r.name, name, c.fixed)
		}
		if c.values != nil {
			fmt.Fprintf(b, "%s.%s = { '%s' }\n", r.name, name, strings.Join(c.values, "', '"))
		}
		for n, bit := range c.bits {
			fmt.Fprintf(b, "%s.%s = %d\n", r.name, strings.ToUpper(bit.name), 1<<n)
		}
	}
	for _, piece := range r.pieces {
		format, _ := r.pieceFormat(piece) // checked
		fmt.Fprintf(b, "%s.%s = '%s'\n", r.name, strings.ToUpper(piece.name), format)
	}
	beside := ""
	for _, name := range r.beside {
		beside += ", " + name
	}
	fmt.Fprintf(b, "\nfunction %s.read(bytes, from%s)\n", r.name, beside)
	fmt.Fprintf(b, "  local %s = struct.unpack('%s', bytes, from)\n  return {\n", r.locals(), r.format())
	for _, name := range r.beside {
		fmt.Fprintf(b, "    %s = %s,\n", name, name)
	}
	for _, c := range r.columns {
		fmt.Fprintf(b, "    %s = %s_,\n", c.name, c.name)
	}
	fmt.Fprintf(b, "  }\nend\n\nfunction %s.pack(r)\n", r.name)
	fmt.Fprintf(b, "  return struct.pack('%s', %s)\nend\n", r.format(), r.values())
}

// rowFolder has the tests' reader of rows.
const rowFolder = "internal/test/rowread"

// emitGoRows writes the tests' reader of rows.
func emitGoRows(l *library) (string, error) {
	g := &goSource{}
	for _, r := range l.rows {
		name := exported(r.name)
		g.comment("", fmt.Sprintf("%sBytes is the length of a %s.", name, name))
		g.line("const %sBytes = %d\n", name, r.size())
		for _, c := range r.columns {
			if c.always {
				g.comment("", fmt.Sprintf("%s%s is the value of this column.", name, exported(c.name)))
				g.line("const %s%s = %d\n", name, exported(c.name), c.fixed)
			}
			if c.values != nil {
				g.comment("", name+exported(c.name)+" are the values of this column, from number 1 on.")
				g.line("var %s%s = []string{", name, exported(c.name))
				for _, v := range c.values {
					g.line("%q,", v)
				}
				g.line("}\n")
			}
			if c.bits != nil {
				g.comment("", fmt.Sprintf("Bits of the column %s of a %s.", c.name, name))
				g.line("const (")
				for n, bit := range c.bits {
					g.comment("", fmt.Sprintf("%s%s: %s", name, exported(bit.name), bit.doc))
					g.line("%s%s = %d", name, exported(bit.name), 1<<n)
				}
				g.line(")\n")
			}
		}
		r.emitGoStruct(g, name)
	}
	return g.file(path.Base(rowFolder), "encoding/binary")
}

func (r *rowLayout) emitGoStruct(g *goSource, name string) {
	g.comment("", fmt.Sprintf("%s: %s", name, r.doc))
	g.line("type %s struct {", name)
	for _, c := range r.columns {
		g.comment("", fmt.Sprintf("%s: %s", exported(c.name), c.doc))
		g.line("%s %s", exported(c.name), c.goType())
	}
	g.line("}\n")
	g.comment("", name+"Columns has where columns are: how many bytes come before one, and how many it has.")
	g.line("var %sColumns = map[string][2]int{", name)
	for i, c := range r.columns {
		g.line("%q: {%d, %d},", c.name, r.offset(i), c.size)
	}
	g.line("}\n")
	g.comment("", fmt.Sprintf("Read%s reads one from the beginning of bytes that have at least its length.", name))
	g.line("func Read%s(b []byte) %s {\nreturn %s{", name, name, name)
	for i, c := range r.columns {
		at, end := r.offset(i), r.offset(i)+c.size
		g.line("%s: "+c.goReader()+",", exported(c.name), at, end)
	}
	g.line("}\n}\n")
	g.comment("", fmt.Sprintf("Append appends the bytes of a %s.", name))
	g.line("func (r %s) Append(b []byte) []byte {", name)
	for _, c := range r.columns {
		g.line(c.goWriter(), exported(c.name))
	}
	g.line("return b\n}\n")
}

func (c *rowColumn) goType() string {
	switch {
	case c.format[0] == 'c':
		return "string"
	case c.size > 2:
		return "int64"
	}
	return "int"
}

func (c *rowColumn) goReader() string {
	switch {
	case c.format[0] == 'c':
		return "string(b[%d:%d])"
	case c.size == 1:
		return "int(b[%d:%d][0])"
	case c.size == 2:
		return "int(binary.LittleEndian.Uint16(b[%d:%d]))"
	case c.size == 4:
		return "int64(binary.LittleEndian.Uint32(b[%d:%d]))"
	}
	return "time48(b[%d:%d])"
}

func (c *rowColumn) goWriter() string {
	switch {
	case c.format[0] == 'c':
		return "b = append(b, r.%s...)"
	case c.size == 1:
		return "b = append(b, byte(r.%s))"
	case c.size == 2:
		return "b = binary.LittleEndian.AppendUint16(b, uint16(r.%s))"
	case c.size == 4:
		return "b = binary.LittleEndian.AppendUint32(b, uint32(r.%s))"
	}
	return "b = appendTime48(b, r.%s)"
}

const (
	rowPage  = "docs/reference/stored-form.md"
	rowBegin = "<!-- Written by codegen from the headers in lua: -->\n"
	rowEnd   = "<!-- Written by codegen until here. -->\n"
)

// emitRowPage writes the page of the stored form.
func emitRowPage(root string, files []sourceFile, outputs map[string]string) error {
	l, err := readLibrary(files)
	if err != nil {
		return err
	}
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rowPage)))
	if err != nil {
		return err
	}
	outputs[rowPage], err = fillRowPage(l, string(page))
	return err
}

// fillRowPage writes the bytes of rows into their place on the page.
func fillRowPage(l *library, page string) (string, error) {
	head, rest, begins := strings.Cut(page, rowBegin)
	_, tail, ends := strings.Cut(rest, rowEnd)
	if !begins || !ends {
		return "", fmt.Errorf("%s: the marks around the rows are missing", rowPage)
	}
	var b strings.Builder
	for _, r := range l.rows {
		fmt.Fprintf(&b, "\n%s: %d bytes.\n\n", r.doc, r.size())
		b.WriteString("| offset | bytes | name | content |\n| ---: | ---: | --- | --- |\n")
		for i, c := range r.columns {
			fmt.Fprintf(&b, "| %d | %d | `%s` | %s |\n", r.offset(i), c.size, c.name, c.content())
		}
		for _, c := range r.columns {
			c.fillLists(&b)
		}
	}
	return head + rowBegin + b.String() + "\n" + rowEnd + tail, nil
}

func (c *rowColumn) content() string {
	doc := c.doc
	if c.kind == "time" {
		doc += " (Unix ms)"
	}
	if c.always {
		doc += fmt.Sprintf(": %d", c.fixed)
	}
	return doc
}

func (c *rowColumn) fillLists(b *strings.Builder) {
	if c.values != nil {
		fmt.Fprintf(b, "\nValues of `%s`:", c.name)
		for i, v := range c.values {
			fmt.Fprintf(b, "%s %d `%s`", map[bool]string{true: ",", false: ""}[i > 0], i+1, v)
		}
		b.WriteString(".\n")
	}
	if c.bits != nil {
		fmt.Fprintf(b, "\n| bit of `%s` | name | meaning |\n| ---: | --- | --- |\n", c.name)
		for n, bit := range c.bits {
			fmt.Fprintf(b, "| %d | `%s` | %s |\n", 1<<n, bit.name, bit.doc)
		}
	}
}

// isRowTag reports whether a tag belongs to the header of a row.
func isRowTag(word string) bool {
	return slices.Contains([]string{"row", "beside", "column", "values", "bit", "piece"}, word)
}

// rowModuleFile is where the modules of rows are, which only the composite library has.
const rowModuleFile = "composite/generated/rows.gen.lua"
