package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/findingcode"
)

// findings collects the findings of an inspection, in the order of its checks.
type findings []fabrictype.Finding

// add appends a finding.
func (list *findings) add(code string, severity fabrictype.Severity, subject, found, remedy string) {
	*list = append(*list, fabrictype.Finding{
		Code: code, Severity: severity, Subject: subject, Found: found, Remedy: remedy,
	})
}

// report returns the findings with the worst first. Findings of one severity keep their order.
func (list findings) report() fabrictype.Inspection {
	slices.SortStableFunc(list, func(a, b fabrictype.Finding) int { return int(b.Severity) - int(a.Severity) })
	report := fabrictype.Inspection{Findings: list}
	if len(list) > 0 {
		report.Worst = list[0].Severity
	}
	return report
}

// errFull is why an engine is not ready that refuses writes.
var errFull = fmt.Errorf("%w: %w", observe.ErrNotReady, enginecore.ErrFull)

// refusal returns an error that names the findings with which an engine is not ready; nil if there are none.
func (list findings) refusal(volatile bool) error {
	var bad []fabrictype.Finding
	reason := observe.ErrNotReady
	for _, f := range list {
		switch f.Code {
		case findingcode.MemoryFull, findingcode.WriteRefused:
			bad, reason = append(bad, f), errFull
		case findingcode.Eviction, findingcode.Replica:
			bad = append(bad, f)
		case findingcode.PersistenceOff:
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
func texts(list []fabrictype.Finding) []string {
	lines := make([]string, len(list))
	for i, f := range list {
		lines[i] = f.String()
	}
	return lines
}
