package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Every workload runs, and reports what it was asked for.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	names := workloadNames()
	args := []string{"-engine", "embedded:", "-flows", "3", "-clients", "2", "-json", "-work", strings.Join(names, ",")}
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(&out)
	for _, name := range names {
		var r result
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if r.Work != name || r.Flows != 3 || r.FlowsPerSecond <= 0 || r.P50 <= 0 || r.Max < r.P50 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-work", "nothing"}, {"-slots", "0"}, {"-engine", "http://localhost"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
