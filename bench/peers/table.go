package main

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// printTables prints Markdown: medians, then each figure with its range and ratio, the cost of systems without work,
// and the versions.
func printTables(out io.Writer, s settings, pairs []pair) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%d rounds of %s for each kind of work, %d functions at a time and %d bytes of input and result where "+
		"the row names no others, %d processors.\n", s.rounds, s.time, s.slots, payloadSize, runtime.NumCPU())
	printMedians(w, s, pairs)
	printFigures(w, s, pairs)
	printIdle(w, s, pairs)
	printVersions(w, s, pairs)
	return w.Flush()
}

// of returns the measurements of a system.
func of(name string, pairs []pair) []result {
	var results []result
	for _, p := range pairs {
		for _, r := range []result{p.ours, p.peer} {
			if r.System == name {
				results = append(results, r)
			}
		}
	}
	return results
}

// shown are the peers that were measured, in the order of the tables, and FlowFabric first.
func shown(s settings) []peer {
	return slices.DeleteFunc(peers(), func(p peer) bool {
		return p.name != flowFabric && !slices.Contains(s.only, p.name)
	})
}

func values(w work, results []result) []float64 {
	var list []float64
	for _, r := range results {
		if m, ok := r.Works[w.name]; ok {
			list = append(list, w.value(m))
		}
	}
	return list
}

// ratios are by how much FlowFabric was better than a peer, each by the measurement right before the peer's.
func ratios(w work, name string, pairs []pair) []float64 {
	var list []float64
	for _, p := range pairs {
		ours, ok := p.ours.Works[w.name]
		theirs, both := p.peer.Works[w.name]
		if p.peer.System != name || !ok || !both {
			continue
		}
		ratio := w.value(ours) / w.value(theirs)
		if w.unit == "ms" {
			ratio = 1 / ratio
		}
		list = append(list, ratio)
	}
	return list
}

func printMedians(w io.Writer, s settings, pairs []pair) {
	head, rule := "\n| median |", "| --- |"
	for _, p := range shown(s) {
		head += " " + p.title + " |"
		rule += " ---: |"
	}
	fmt.Fprintf(w, "%s\n%s\n", head, rule)
	for _, k := range works {
		if !slices.Contains(s.works, k.name) {
			continue
		}
		line := "| " + k.title + " |"
		for _, p := range shown(s) {
			cell := "–"
			if list := values(k, of(p.name, pairs)); len(list) > 0 {
				_, middle, _ := spread(list)
				cell = withUnit(middle, k)
				if k.chain && p.handMade {
					cell += "\\*"
				}
			}
			line += " " + cell + " |"
		}
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w, "\n\\* made by hand: each function submits the next one.")
}

func withUnit(v float64, k work) string {
	if k.unit == "ms" {
		return number(v) + " ms"
	}
	return number(v) + "/s"
}

func printFigures(w io.Writer, s settings, pairs []pair) {
	fmt.Fprintln(w, "\n| work | system | least | median | most | FlowFabric is better by | repeated |\n"+
		"| --- | --- | ---: | ---: | ---: | ---: | ---: |")
	for _, k := range works {
		title := k.title
		for _, p := range shown(s) {
			results := of(p.name, pairs)
			list := values(k, results)
			if len(list) == 0 {
				continue
			}
			repeated := 0
			for _, r := range results {
				repeated += r.Works[k.name].Repeated
			}
			better := "–"
			if r := ratios(k, p.name, pairs); len(r) > 0 {
				least, middle, most := spread(r)
				better = fmt.Sprintf("%s× (%s to %s)", number(middle), number(least), number(most))
			}
			least, middle, most := spread(list)
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %d |\n", title, p.title,
				withUnit(least, k), withUnit(middle, k), withUnit(most, k), better, repeated)
			title = ""
		}
	}
}

func printIdle(w io.Writer, s settings, pairs []pair) {
	if s.idleTime == 0 {
		return
	}
	fmt.Fprintf(w, "\n| without work, %% of a processor | client and worker | server |\n| --- | ---: | ---: |\n")
	for _, p := range shown(s) {
		for _, r := range of(p.name, pairs) {
			if r.Idle != nil {
				fmt.Fprintf(w, "| %s | %s | %s |\n", p.title, number(r.Idle.Program), number(r.Idle.Server))
			}
		}
	}
}

func printVersions(w io.Writer, s settings, pairs []pair) {
	var list []string
	for _, p := range shown(s) {
		for _, r := range of(p.name, pairs) {
			list = append(list, r.Versions...)
		}
	}
	var once []string
	for _, v := range append(list, strings.Replace(runtime.Version(), "go", "Go ", 1)) {
		if !slices.Contains(once, v) {
			once = append(once, v)
		}
	}
	fmt.Fprintf(w, "\nVersions: %s.\n", strings.Join(once, ", "))
}

// spread is the least, the middle and the most of several figures.
func spread(values []float64) (least, middle, most float64) {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]
}

// number shows a figure with two digits after the point, or none when it is large.
func number(v float64) string {
	switch {
	case v >= 1000:
		return thousands(int(v + 0.5))
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// thousands writes a comma before the last three digits.
func thousands(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
