package gogen

import (
	"fmt"
	"path"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// rowFolder has the tests' reader of rows.
const rowFolder = "internal/test/rowread"

// emitGoRows writes the tests' reader of rows.
func emitGoRows(l *header.Library) (string, error) {
	g := &goSource{}
	for _, r := range l.Rows {
		name := goname.Exported(r.Name)
		g.comment("", fmt.Sprintf("%sBytes is the length of a %s.", name, name))
		g.line("const %sBytes = %d\n", name, r.Size())
		for _, c := range r.Columns {
			if c.Always {
				g.comment("", fmt.Sprintf("%s%s is the value of this column.", name, goname.Exported(c.Name)))
				g.line("const %s%s = %d\n", name, goname.Exported(c.Name), c.Fixed)
			}
			if c.Values != nil {
				g.comment("", name+goname.Exported(c.Name)+" are the values of this column, from number 1 on.")
				g.line("var %s%s = []string{", name, goname.Exported(c.Name))
				for _, v := range c.Values {
					g.line("%q,", v)
				}
				g.line("}\n")
			}
			if c.Bits != nil {
				g.comment("", fmt.Sprintf("Bits of the column %s of a %s.", c.Name, name))
				g.line("const (")
				for n, bit := range c.Bits {
					g.comment("", fmt.Sprintf("%s%s: %s", name, goname.Exported(bit.Name), bit.Doc))
					g.line("%s%s = %d", name, goname.Exported(bit.Name), 1<<n)
				}
				g.line(")\n")
			}
		}
		emitRowStruct(r, g, name)
	}
	return g.file(path.Base(rowFolder), "encoding/binary")
}

func emitRowStruct(r *header.Row, g *goSource, name string) {
	g.comment("", fmt.Sprintf("%s: %s", name, r.Doc))
	g.line("type %s struct {", name)
	for _, c := range r.Columns {
		g.comment("", fmt.Sprintf("%s: %s", goname.Exported(c.Name), c.Doc))
		g.line("%s %s", goname.Exported(c.Name), rowFieldType(c))
	}
	g.line("}\n")
	g.comment("", name+"Columns has where columns are: how many bytes come before one, and how many it has.")
	g.line("var %sColumns = map[string][2]int{", name)
	for i, c := range r.Columns {
		g.line("%q: {%d, %d},", c.Name, r.Offset(i), c.Size)
	}
	g.line("}\n")
	g.comment("", fmt.Sprintf("Read%s reads one from the beginning of bytes that have at least its length.", name))
	g.line("func Read%s(b []byte) %s {\nreturn %s{", name, name, name)
	for i, c := range r.Columns {
		at, end := r.Offset(i), r.Offset(i)+c.Size
		g.line("%s: "+rowFieldReader(c)+",", goname.Exported(c.Name), at, end)
	}
	g.line("}\n}\n")
	g.comment("", fmt.Sprintf("Append appends the bytes of a %s.", name))
	g.line("func (r %s) Append(b []byte) []byte {", name)
	for _, c := range r.Columns {
		g.line(rowFieldWriter(c), goname.Exported(c.Name))
	}
	g.line("return b\n}\n")
}

func rowFieldType(c *header.RowColumn) string {
	switch {
	case c.Format[0] == 'c':
		return "string"
	case c.Size > 2:
		return "int64"
	}
	return "int"
}

func rowFieldReader(c *header.RowColumn) string {
	switch {
	case c.Format[0] == 'c':
		return "string(b[%d:%d])"
	case c.Size == 1:
		return "int(b[%d:%d][0])"
	case c.Size == 2:
		return "int(binary.LittleEndian.Uint16(b[%d:%d]))"
	case c.Size == 4:
		return "int64(binary.LittleEndian.Uint32(b[%d:%d]))"
	}
	return "littleEndian(b[%d:%d])"
}

func rowFieldWriter(c *header.RowColumn) string {
	switch {
	case c.Format[0] == 'c':
		return "b = append(b, r.%s...)"
	case c.Size == 1:
		return "b = append(b, byte(r.%s))"
	case c.Size == 2:
		return "b = binary.LittleEndian.AppendUint16(b, uint16(r.%s))"
	case c.Size == 4:
		return "b = binary.LittleEndian.AppendUint32(b, uint32(r.%s))"
	}
	return fmt.Sprintf("b = appendLittleEndian(b, r.%%s, %d)", c.Size)
}
