package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/runtime/inspection"
)

// findings collects the findings of an inspection, in the order of its checks.
type findings []inspection.Finding

// add appends a finding.
func (list *findings) add(code inspection.Code, severity inspection.Severity, subject, found, remedy string) {
	*list = append(*list, inspection.Finding{
		Code: code, Severity: severity, Subject: subject, Found: found, Remedy: remedy,
	})
}

// report returns the findings with the worst first. Findings of one severity keep their order.
func (list findings) report() inspection.Report {
	slices.SortStableFunc(list, func(a, b inspection.Finding) int { return int(b.Severity) - int(a.Severity) })
	return inspection.Report{Findings: list}
}

// errFull is why an engine is not ready that refuses writes.
var errFull = fmt.Errorf("%w: %w", observe.ErrNotReady, enginecore.ErrFull)

// refusal returns an error that names the findings with which an engine is not ready; nil if there are none.
func (list findings) refusal(volatile bool) error {
	var bad []inspection.Finding
	reason := observe.ErrNotReady
	for _, f := range list {
		switch f.Code {
		case inspection.MemoryFull, inspection.WriteRefused:
			bad, reason = append(bad, f), errFull
		case inspection.Eviction, inspection.Replica:
			bad = append(bad, f)
		case inspection.PersistenceOff:
			if !volatile {
				bad = append(bad, f)
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", reason, strings.Join(texts(bad), "; "))
}

// texts returns findings in the form of log records and errors.
func texts(list []inspection.Finding) []string {
	lines := make([]string, len(list))
	for i, f := range list {
		lines[i] = f.String()
	}
	return lines
}
