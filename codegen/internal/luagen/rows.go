package luagen

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// locals names the variables of a reader, which must not be names of modules.
func locals(r *header.Row) string {
	var names []string
	for _, c := range r.Columns {
		names = append(names, c.Name+"_")
	}
	return strings.Join(names, ", ")
}

// values lists the values that a writer writes of the table r.
func values(r *header.Row) string {
	var values []string
	for _, c := range r.Columns {
		if c.Always {
			values = append(values, strconv.Itoa(c.Fixed))
		} else {
			values = append(values, "r."+c.Name)
		}
	}
	return strings.Join(values, ", ")
}

// rowModules names the modules of rows.
func rowModules(l *header.Library) []string {
	var names []string
	for _, r := range l.Rows {
		names = append(names, r.Name)
	}
	return names
}

// rows writes the modules of rows.
func rows(l *header.Library) string {
	var b strings.Builder
	b.WriteString(luaHeader)
	used := func(name string) bool {
		word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
		return slices.ContainsFunc(l.Files, func(f header.SourceFile) bool { return word.MatchString(f.Text) })
	}
	for _, r := range l.Rows {
		emitRow(r, &b, used)
	}
	return b.String()
}

// emitRow writes the module of a row: its length; where columns begin, from 1 on, and their formats, as far as the
// library uses them; values, bits and pieces; the reader and the writer.
func emitRow(r *header.Row, b *strings.Builder, used func(name string) bool) {
	fmt.Fprintf(b, "\n-- %s\n%s.BYTES = %d\n", r.Doc, r.Name, r.Size())
	for i, c := range r.Columns {
		name := strings.ToUpper(c.Name)
		if at := r.Name + "." + name + "_AT"; used(at) {
			fmt.Fprintf(b, "%s = %d\n", at, r.Offset(i)+1)
		}
		if format := r.Name + "." + name + "_FORMAT"; used(format) {
			fmt.Fprintf(b, "%s = '<%s'\n", format, c.Format)
		}
		if c.Always {
			fmt.Fprintf(b, "%s.%s = %d\n", r.Name, name, c.Fixed)
		}
		if c.Values != nil {
			fmt.Fprintf(b, "%s.%s = { '%s' }\n", r.Name, name, strings.Join(c.Values, "', '"))
		}
		for n, bit := range c.Bits {
			fmt.Fprintf(b, "%s.%s = %d\n", r.Name, strings.ToUpper(bit.Name), 1<<n)
		}
	}
	for _, piece := range r.Pieces {
		format, _ := r.PieceFormat(piece) // checked
		fmt.Fprintf(b, "%s.%s = '%s'\n", r.Name, strings.ToUpper(piece.Name), format)
	}
	beside := ""
	for _, name := range r.Beside {
		beside += ", " + name
	}
	fmt.Fprintf(b, "\nfunction %s.read(bytes, from%s)\n", r.Name, beside)
	fmt.Fprintf(b, "  local %s = struct.unpack('%s', bytes, from)\n  return {\n", locals(r), r.Format())
	for _, name := range r.Beside {
		fmt.Fprintf(b, "    %s = %s,\n", name, name)
	}
	for _, c := range r.Columns {
		fmt.Fprintf(b, "    %s = %s_,\n", c.Name, c.Name)
	}
	fmt.Fprintf(b, "  }\nend\n\nfunction %s.pack(r)\n", r.Name)
	fmt.Fprintf(b, "  return struct.pack('%s', %s)\nend\n", r.Format(), values(r))
}

// rowModuleFile is where the modules of rows are, which only the composite library has.
const rowModuleFile = "composite/generated/rows.gen.lua"
