package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
)

// SummaryInput is the files of a run, and the outcome of each in the same order.
type SummaryInput struct {
	Files    []File                         `json:"files"`
	Outcomes []flow.ItemOutcome[FileReport] `json:"outcomes"`
}

// FailedFile is a file of which nothing was loaded, and why.
type FailedFile struct {
	File     string `json:"file"`
	Category string `json:"category"`
	Reason   string `json:"reason"`
}

// Summary is the result of a run.
type Summary struct {
	Reports []FileReport `json:"reports"`
	Failed  []FailedFile `json:"failed"`
	Loaded  int          `json:"loaded"`
	Refused int          `json:"refused"` // in the files of Reports
}

// Summarize joins the outcomes of all files.
func Summarize(_ context.Context, in SummaryInput) (Summary, error) {
	s := Summary{Reports: []FileReport{}, Failed: []FailedFile{}}
	for i, o := range in.Outcomes {
		if o.Outcome != fabrictype.OutcomeSucceeded {
			s.Failed = append(s.Failed, FailedFile{in.Files[i].Name, o.Category, cause(in.Files[i], o.Reason)})
			continue
		}
		s.Reports = append(s.Reports, o.Value)
		s.Loaded += o.Value.Loaded
		s.Refused += len(o.Value.Refused)
	}
	return s, nil
}

// cause returns the detail of a FileError from a reason that names the run and the node as well.
func cause(f File, reason string) string {
	if _, detail, found := strings.Cut(reason, f.Name+": "); found {
		return detail
	}
	return reason
}

// writeSummary writes a summary as tables.
func writeSummary(out io.Writer, s Summary) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tLOADED\tREFUSED\tFIRST REFUSAL")
	for _, r := range s.Reports {
		first := ""
		if len(r.Refused) > 0 {
			first = fmt.Sprintf("line %d: %s", r.Refused[0].Line, r.Refused[0].Reason)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", r.File, r.Loaded, len(r.Refused), first)
	}
	fmt.Fprintln(w, "\nFAILED FILE\tCATEGORY\tREASON")
	for _, f := range s.Failed {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.File, f.Category, f.Reason)
	}
	fmt.Fprintf(w, "\nTotal: %d files, %d loaded, %d failed; %d rows loaded, %d refused\n",
		len(s.Reports)+len(s.Failed), len(s.Reports), len(s.Failed), s.Loaded, s.Refused)
	return w.Flush()
}
