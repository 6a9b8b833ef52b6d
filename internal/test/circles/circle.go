package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// check prints the largest circle of each package that has one, and returns an error for each that is larger than
// allowed and for each superfluous entry of known.
func check(out io.Writer, packages []sources) error {
	type finding struct {
		sources
		circle []string
	}
	var findings []finding
	for _, p := range packages {
		findings = append(findings, finding{p, p.circle()})
	}
	slices.SortStableFunc(findings, func(a, b finding) int { return cmp.Compare(len(b.circle), len(a.circle)) })
	var faults []error
	for _, f := range findings {
		size, allowed := len(f.circle), max(maxCircle, known[f.path])
		if size > 1 {
			fmt.Fprintf(out, "%3d of %3d files  %s\n", size, len(f.files), f.path)
		}
		if size > allowed {
			faults = append(faults, fmt.Errorf("%s: %d files depend on each other in a circle, at most %d may:\n\t%s",
				f.path, size, allowed, strings.Join(f.circle, "\n\t")))
		}
		if known[f.path] > 0 && size <= maxCircle {
			faults = append(faults, fmt.Errorf("%s: remove the entry from the table: its largest circle has %d files", f.path, size))
		}
	}
	return errors.Join(faults...)
}

// circle returns the files of the largest circle: the largest strongly connected component of their uses.
func (p *sources) circle() []string {
	c := components{uses: p.uses, index: make(map[string]int), low: make(map[string]int), open: make(map[string]bool)}
	for _, file := range p.files {
		if c.index[file] == 0 {
			c.visit(file)
		}
	}
	slices.Sort(c.largest)
	return c.largest
}

// components is the state of Tarjan's search for strongly connected components.
type components struct {
	uses       map[string]map[string]bool
	index, low map[string]int // of the visited files; indexes begin with 1
	stack      []string
	open       map[string]bool // the files on the stack
	largest    []string
}

func (c *components) visit(file string) {
	c.index[file] = len(c.index) + 1
	c.low[file] = c.index[file]
	c.stack, c.open[file] = append(c.stack, file), true
	for _, used := range slices.Sorted(maps.Keys(c.uses[file])) {
		if c.index[used] == 0 {
			c.visit(used)
			c.low[file] = min(c.low[file], c.low[used])
		} else if c.open[used] {
			c.low[file] = min(c.low[file], c.index[used])
		}
	}
	if c.low[file] != c.index[file] {
		return
	}
	begin := slices.Index(c.stack, file)
	component := c.stack[begin:]
	for _, member := range component {
		c.open[member] = false
	}
	if len(component) > len(c.largest) {
		c.largest = slices.Clone(component)
	}
	c.stack = c.stack[:begin]
}
