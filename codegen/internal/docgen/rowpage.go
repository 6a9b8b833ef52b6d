package docgen

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

const (
	rowPage  = "docs/reference/stored-form.md"
	rowBegin = "<!-- Written by codegen from the headers in lua: -->\n"
	rowEnd   = "<!-- Written by codegen until here. -->\n"
)

// RowPage writes the page of the stored form.
func RowPage(root string, l *header.Library, outputs map[string]string) error {
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rowPage)))
	if err != nil {
		return err
	}
	outputs[rowPage], err = fillRowPage(l, string(page))
	return err
}

// fillRowPage writes the bytes of rows into their place on the page.
func fillRowPage(l *header.Library, page string) (string, error) {
	head, rest, begins := strings.Cut(page, rowBegin)
	_, tail, ends := strings.Cut(rest, rowEnd)
	if !begins || !ends {
		return "", fmt.Errorf("%s: the marks around the rows are missing", rowPage)
	}
	var b strings.Builder
	for _, r := range l.Rows {
		fmt.Fprintf(&b, "\n%s: %d bytes.\n\n", r.Doc, r.Size())
		b.WriteString("| offset | bytes | name | content |\n| ---: | ---: | --- | --- |\n")
		for i, c := range r.Columns {
			fmt.Fprintf(&b, "| %d | %d | `%s` | %s |\n", r.Offset(i), c.Size, c.Name, content(c))
		}
		for _, c := range r.Columns {
			fillLists(c, &b)
		}
	}
	return head + rowBegin + b.String() + "\n" + rowEnd + tail, nil
}

func content(c *header.RowColumn) string {
	doc := c.Doc
	if c.Kind == "time" {
		doc += " (Unix ms)"
	}
	if c.Kind == "micros" {
		doc += " (Unix µs)"
	}
	if c.Always {
		doc += fmt.Sprintf(": %d", c.Fixed)
	}
	return doc
}

func fillLists(c *header.RowColumn, b *strings.Builder) {
	if c.Values != nil {
		fmt.Fprintf(b, "\nValues of `%s`:", c.Name)
		for i, v := range c.Values {
			fmt.Fprintf(b, "%s %d `%s`", map[bool]string{true: ",", false: ""}[i > 0], i+1, v)
		}
		b.WriteString(".\n")
	}
	if c.Bits != nil {
		fmt.Fprintf(b, "\n| bit of `%s` | name | meaning |\n| ---: | --- | --- |\n", c.Name)
		for n, bit := range c.Bits {
			fmt.Fprintf(b, "| %d | `%s` | %s |\n", 1<<n, bit.Name, bit.Doc)
		}
	}
}
