package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Every workload that an engine in this process can have runs, and reports figures.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	var names []string
	for _, name := range workloadNames() {
		switch name {
		case "contention", "wake-50", "backlog": // need other processes, or a server's counts
		case "large": // takes long in this process
		default:
			names = append(names, name)
		}
	}
	var out bytes.Buffer
	args := []string{"-engine", "embedded:", "-flows", "3", "-clients", "2", "-time", "10ms", "-idle-time", "10ms", "-json", "-work", strings.Join(names, ",")}
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(&out)
	for _, name := range names {
		var r struct {
			Work     string
			Figures  map[string]float64
			Ceilings ceilings
		}
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if r.Work != name || len(r.Figures) == 0 || r.Ceilings.FunctionCalls <= 0 || r.Ceilings.ListTasks <= 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Every goal is of a workload that exists.
func TestGoals(t *testing.T) {
	t.Parallel()
	for _, g := range goals {
		if workloads[g.work] == nil {
			t.Errorf("no workload %q", g.work)
		}
		name, _, _ := strings.Cut(g.figure, " / ")
		name = strings.TrimSuffix(name, " adds")
		if g.work == "run-cost" && !slices.ContainsFunc(shapes, func(sh shape) bool { return sh.name == name }) {
			t.Errorf("no shape %q", name)
		}
	}
}

// Every shape is compared with one that exists.
func TestShapes(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		if sh.of != "" && !slices.ContainsFunc(shapes, func(other shape) bool { return other.name == sh.of }) {
			t.Errorf("%s is compared with %q, which does not exist", sh.name, sh.of)
		}
	}
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-work", "nothing"}, {"-slots", "0"}, {"-engine", "http://localhost"}, {"-n", "1"}, {"-aof", "everysec", "-engine", "embedded:"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	if least, middle, most := spread([]float64{3, 1, 2}); least != 1 || middle != 2 || most != 3 {
		t.Error(least, middle, most)
	}
}
