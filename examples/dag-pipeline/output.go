package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// pictures draws a flow; a definition implements it.
type pictures interface {
	Mermaid() string
	DOT() string
}

// writeEdition writes the files of a census into a directory and returns their names.
func writeEdition(dir string, e Edition, p pictures, s *runtime.RunDescription) ([]string, error) {
	files := []struct{ name, content string }{
		{"report.md", e.Report + record(s)},
		{"chart.svg", e.Chart},
		{"flow.mmd", p.Mermaid()},
		{"flow.dot", p.DOT()},
	}
	var written []string
	for _, f := range files {
		if err := replaceFile(filepath.Join(dir, f.name), f.content); err != nil {
			return written, err
		}
		written = append(written, filepath.Join(dir, f.name))
	}
	return written, nil
}

// replaceFile writes a file so that a reader finds the old content or the new one, never a part.
func replaceFile(path, content string) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = temp.WriteString(content)
	err = errors.Join(err, temp.Chmod(0o644), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(temp.Name())))
	}
	return nil
}

// record is the part of the report about the run itself. It is written from the engine's records after the run, when
// the last node has ended too.
func record(s *runtime.RunDescription) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## How the census ran\n\nRun `%s`, begun %s, took %s.\n\n", strings.ReplaceAll(s.Run, "`", "'"),
		s.CreatedAt.UTC().Format(time.RFC3339), s.ClosedAt.Sub(s.CreatedAt).Round(time.Millisecond))
	b.WriteString("| Node | State | Attempts | After a failure | After a lost worker | Time |\n|---|---|--:|--:|--:|--:|\n")
	for _, n := range s.Nodes {
		took := ""
		if n.State == fabrictype.NodeSucceeded {
			took = n.CompletedAt.Sub(n.StartedAt).Round(time.Millisecond).String()
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %s |\n", n.Name, n.State, n.Attempts, n.Retries, n.Reclaims, took)
	}
	return b.String()
}

// tableRows is the number of packages in the table on standard output.
const tableRows = 10

// writeTotals prints the outcome in short.
func writeTotals(out io.Writer, r Ranking) {
	fmt.Fprintf(out, "\n%s\n%s packages, %s files, %s lines, %s functions", r.Root, thousands(r.Packages), thousands(r.Files),
		thousands(r.Lines), thousands(r.Counts.Functions))
	if r.Unparsable > 0 {
		fmt.Fprintf(out, "; %s files do not parse", thousands(r.Unparsable))
	}
	fmt.Fprint(out, "\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PACKAGE\tFILES\tLINES\tFUNCTIONS\tIMPORTS\tCOMMENTS\tLONGEST FUNCTION")
	for i, p := range r.Largest() {
		if i == tableRows {
			break
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.1f %%\t%s (%s)\n", p.Dir, thousands(p.Files), thousands(p.Lines),
			thousands(p.Functions), thousands(p.Imports), 100*p.CommentRatio(), p.Longest.Name,
			thousands(p.Longest.Lines))
	}
	_ = table.Flush() // a closed standard output is not a failure
}
