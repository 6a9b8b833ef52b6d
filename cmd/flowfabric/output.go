package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// output prints rows as a table, or as JSON.
type output struct {
	table *tabwriter.Writer
	lines bool
	to    io.Writer
	// columns are the names of the columns until they are printed, with the first row or at the end.
	columns []string
}

func newOutput(to io.Writer, asJSON bool) *output {
	if asJSON {
		return &output{lines: true, to: to}
	}
	return &output{table: tabwriter.NewWriter(to, 0, 4, 2, ' ', 0), to: to}
}

// head gives the names of the columns.
func (o *output) head(columns ...string) { o.columns = columns }

func (o *output) printHead() {
	if len(o.columns) == 0 {
		return
	}
	for i, name := range o.columns {
		o.columns[i] = visible(strings.ToUpper(name))
	}
	fmt.Fprintln(o.table, strings.Join(o.columns, "\t"))
	o.columns = nil
}

// row prints a row: the cells in a table, the value as JSON.
func (o *output) row(value any, cells ...string) {
	if o.lines {
		if line, err := visibleJSON(value); err == nil { // the views always have a JSON form
			fmt.Fprintln(o.to, line)
		}
		return
	}
	o.printHead()
	for i := range cells {
		cells[i] = visible(cells[i])
	}
	fmt.Fprintln(o.table, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

// say prints a message that is not a row, for people only.
func (o *output) say(format string, args ...any) {
	if o.table != nil {
		_ = o.table.Flush() // to the terminal
		fmt.Fprintln(o.to, visibleLines(fmt.Sprintf(format, args...)))
	}
}

func (o *output) flush() error {
	if o.table != nil {
		o.printHead()
		return o.table.Flush()
	}
	return nil
}

// cutShort prints the rows that there are before an error, and no head without rows.
func (o *output) cutShort() error {
	o.columns = nil
	return o.flush()
}

// at shows a time; "-" is none.
func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// tagsText shows tags in the order of their keys.
func tagsText(tags map[string]string) string {
	data, err := json.Marshal(tags)
	if err != nil || len(tags) == 0 {
		return ""
	}
	return string(data)
}
