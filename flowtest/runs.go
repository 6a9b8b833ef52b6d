package flowtest

import (
	"iter"
	"testing"

	"github.com/flowfabric/flowfabric-go/flowtest/runcheck"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// CheckRuns fails the test for each run that a program could not continue: the gate before a deploy. The runs come from
// a file that runcheck.Export has written, read by runcheck.Read, or are the open ones of an engine, by runcheck.Open.
// It needs no engine, so the test need not be one of Run.
func CheckRuns(t testing.TB, program runcheck.Program, runs iter.Seq2[*runtime.RunDescription, error]) {
	t.Helper()
	for problem, err := range program.Check(runs) {
		if err != nil {
			t.Fatalf("flowtest: %v", err)
		}
		t.Errorf("flowtest: %s", problem)
	}
}
