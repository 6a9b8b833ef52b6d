package enginetest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// referenceVariable names the file of a library of another project that implements the contract. It is not part of
// this repository.
const referenceVariable = "FLOWFABRIC_REFERENCE_LIBRARY"

// Reference returns the text of the reference library, and skips the test when the environment names none.
func Reference(tb testing.TB) string {
	tb.Helper()
	file := os.Getenv(referenceVariable)
	if file == "" {
		tb.Skipf("left out: %s does not name the file of the reference library", referenceVariable)
	}
	text, err := os.ReadFile(file)
	require.NoError(tb, err)
	return string(text)
}

// ReferenceKinds returns the engines on which tests load the reference library.
func ReferenceKinds(tb testing.TB) []testserver.Kind {
	tb.Helper()
	return slices.DeleteFunc(testserver.Kinds(tb), func(k testserver.Kind) bool {
		return k != testserver.Embedded && k != testserver.Valkey
	})
}

// EachReference runs a test with the reference library, on the embedded engine and on Valkey at the same time.
func EachReference(t *testing.T, test func(t *testing.T, b *Bench), config ...runtime.OpenConfig) {
	t.Helper()
	Reference(t)
	testserver.SideBySide(t, ReferenceKinds(t), func(t *testing.T, kind testserver.Kind) {
		test(t, NewReference(t, kind, config...))
	})
}

// NewReference opens an engine of a kind in contract mode with the reference library. A server is one of its own.
func NewReference(tb testing.TB, kind testserver.Kind, config ...runtime.OpenConfig) *Bench {
	tb.Helper()
	library := Reference(tb)
	var b *Bench
	if kind == testserver.Embedded {
		b = Open(tb, kind, "embedded:"+ContractQuery, ContractPrefix, config...)
		client := engine.ConnOf(b.Engine.Internal()).Client()
		load := client.B().FunctionLoad().Replace().FunctionCode(library).Build()
		require.NoError(tb, client.Do(Context(tb), load).Error())
	} else {
		b = Open(tb, kind, ServerWith(tb, kind, library).URL()+ContractQuery, ContractPrefix, config...)
	}
	b.reference = true
	return b
}

// report checks a snapshot. For the reference library it leaves out records that the contract itself does not remove:
// the last attempt of an execution that was released, or that ended while it waited to be resumed; the time of its
// lease; the entry in a worker's list of an execution that was cancelled just after another worker had claimed it; and
// the waitpoint of an execution that was cancelled just after its wait had begun.
func (b *Bench) report(s *invariant.Snapshot, mode invariant.Mode) *invariant.Report {
	report := s.Check(mode)
	if b.reference {
		report.Violations = slices.DeleteFunc(report.Violations, func(v invariant.Violation) bool {
			return v.Rule == invariant.RuleAttempts && strings.Contains(v.Detail, "but the execution has ended") ||
				v.Rule == invariant.RuleAttempts && strings.HasSuffix(v.Detail, "in phase terminal") ||
				v.Rule == invariant.RuleLease && strings.HasSuffix(v.Detail, "which the worker does not have") ||
				v.Rule == invariant.RuleWaits && strings.HasSuffix(v.Detail, `waits at ""`) ||
				v.Rule == invariant.RuleState && strings.HasSuffix(v.Detail, "although no worker holds the execution")
		})
	}
	return report
}

// Reference reports whether the engine has the reference library.
func (b *Bench) Reference() bool { return b.reference }
