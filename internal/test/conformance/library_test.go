package conformance_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/conformance"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

const data = "../../../testdata/conformance"

// workers is the number of databases that one engine's traces are spread over.
const workers = 2

// TestLibrary replays all traces against the library on every engine.
func TestLibrary(t *testing.T) {
	traces, err := conformance.LoadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range testserver.Kinds(t) {
		if kind == testserver.OnCluster {
			continue // traces are spread over databases, of which a cluster has one
		}
		t.Run(string(kind), func(t *testing.T) {
			testLibrary(t, traces, openers(t, kind))
		})
	}
}

func openers(t *testing.T, kind testserver.Kind) []conformance.Opener {
	t.Helper()
	open := make([]conformance.Opener, workers)
	for i := range open {
		if kind == testserver.Embedded {
			open[i] = conformance.NewEmbedded()
		} else {
			open[i] = conformance.NewAddress(testserver.Start(t, testserver.Options{Kind: kind}).Addr(), false)
		}
	}
	return open
}

func testLibrary(t *testing.T, traces []*conformance.Trace, open []conformance.Opener) {
	t.Helper()
	deviations, err := conformance.LoadDeviations(filepath.Join(data, "deviations.json"))
	if err != nil {
		t.Fatal(err)
	}
	options := conformance.Options{KeepGoing: true, Deviations: deviations}
	results, err := conformance.Run(t.Context(), traces, open, lualib.Source(), options, nil)
	if err != nil {
		t.Fatal(err)
	}
	summary := conformance.Summarize(results)
	const shown = 10
	for i, f := range summary.Failures {
		if i == shown {
			t.Errorf("%d more steps differ; see go run ./internal/test/conformance/replay -keep-going", len(summary.Failures)-i)
			break
		}
		var text strings.Builder
		f.Write(&text, 20)
		t.Error(text.String())
	}
	for _, row := range deviations.Unused(summary.Functions()) {
		t.Errorf("deviation %s for %s matches nothing", row.Name(), strings.Join(row.Functions, ", "))
	}
	for _, name := range summary.Missing() {
		t.Errorf("the library lacks %s", name)
	}
	var text strings.Builder
	summary.Write(&text)
	t.Log("\n" + text.String())
}
