package invariant

import (
	"fmt"
	"regexp"
	"strings"
)

// Edges of the cases of a condition have a kind of their own each, as lua/graph/decision.lua has it.
const (
	edgeOfCase   = 3
	caseStep     = 8
	caseKind     = "case_"
	succeeded    = "success"
	anotherCase  = "skipped"
	unlessFailed = "unless_failed"
	resultOfNode = "result"
)

var decidedNumber = regexp.MustCompile(`"number":(\d+)}$`)

// kindOfCase is the kind of the edge of a case with these flags; empty for other edges.
func kindOfCase(flags byte) string {
	if flags&edgeKindMask != edgeOfCase {
		return ""
	}
	return fmt.Sprintf("%s%d", caseKind, flags/caseStep)
}

func isCase(kind string) bool { return strings.HasPrefix(kind, caseKind) }

// outcomeFor is an upstream's outcome for an edge of a kind: for the edge of a case, success only if the upstream has
// decided for that case; for one of the kind unless_failed, a skip in consequence of a failure is one.
func (e *execution) outcomeFor(kind string) string {
	outcome := e.get("terminal_outcome")
	if kind == unlessFailed && outcome == anotherCase && e.get("failure_reason") == "" {
		return "failed"
	}
	if !isCase(kind) || outcome != succeeded {
		return outcome
	}
	if found := decidedNumber.FindStringSubmatch(e.result()); found == nil || caseKind+found[1] != kind {
		return anotherCase
	}
	return succeeded
}

// result is the result of an execution.
func (e *execution) result() string { return e.parts[resultOfNode].text }
