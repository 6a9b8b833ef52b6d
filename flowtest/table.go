package flowtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// decodeJSON decodes a value of which nothing may be left over.
func decodeJSON(data []byte, target any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(target); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("bytes after the value")
	}
	return nil
}

// maxShown is the length of the longest value that a table shows whole, in bytes.
const maxShown = 72

// Table returns the run as text: one line for each node with its state, its attempts, when it began and ended, counted
// from the start of the run, and its result or the reason why it has none.
func (r *TestRun) Table() string {
	r.t.Helper()
	d := r.describe()
	var text strings.Builder
	fmt.Fprintf(&text, "run %s of flow %s: %s", d.Run, d.Flow, d.State)
	if !d.ClosedAt.IsZero() {
		fmt.Fprintf(&text, " after %s", d.ClosedAt.Sub(d.CreatedAt))
	} else {
		fmt.Fprintf(&text, ", %d nodes open after %s", d.OpenNodes, time.Since(d.CreatedAt).Truncate(time.Millisecond))
	}
	text.WriteString("\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  node\tactivity\tstate\tattempts\tbegan\tended\tresult or reason")
	for _, n := range d.Nodes {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, orDash(n.Activity), n.State, attempts(n),
			since(d.CreatedAt, n.StartedAt), since(d.CreatedAt, n.CompletedAt), r.outcome(n))
	}
	_ = table.Flush()
	return text.String()
}

// attempts returns the number of attempts, and of lost workers.
func attempts(n fabrictype.Node) string {
	if n.Reclaims > 0 {
		return fmt.Sprintf("%d (%d lost)", n.Attempts, n.Reclaims)
	}
	return fmt.Sprint(n.Attempts)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// since is a time counted from another one.
func since(start, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return "+" + at.Sub(start).String()
}

// outcome is the result of a node, or why it has none.
func (r *TestRun) outcome(n fabrictype.Node) string {
	switch {
	case n.State == fabrictype.NodeSucceeded:
		data, err := (&TestNode{r, n.Name}).result()
		if err != nil {
			return "-"
		}
		return shown(data)
	case n.State.Ended():
		return shown([]byte(orDash(strings.TrimPrefix(n.Category+": "+n.Reason, ": "))))
	}
	return orDash(n.Waiting.Sentence)
}

// shown is a value as a table shows it: in one line, and not too long.
func shown(data []byte) string {
	if !utf8.Valid(data) {
		return fmt.Sprintf("%d bytes", len(data))
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, string(data))
	if len(text) <= maxShown {
		return text
	}
	cut := maxShown
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:cut], len(text))
}
