package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// figure is one measured number.
type figure struct {
	name  string
	unit  string
	value float64
}

// milliseconds is a figure of a time.
func milliseconds(name string, d time.Duration) figure {
	return figure{name, "ms", float64(d) / float64(time.Millisecond)}
}

// newHistogram counts times from 1 µs to 10 min with three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 600_000_000, 3) }

// quantiles are the figures of a histogram of microseconds.
func quantiles(h *hdrhistogram.Histogram) []figure {
	at := func(name string, q float64) figure {
		return milliseconds(name, time.Duration(h.ValueAtQuantile(q))*time.Microsecond)
	}
	return []figure{at("p50", 50), at("p99", 99), milliseconds("max", time.Duration(h.Max())*time.Microsecond)}
}

// result has the figures of one workload.
type result struct {
	work     string
	engine   string
	figures  []figure
	ceilings ceilings
}

// MarshalJSON writes a figure as "<name>_<unit>".
func (r result) MarshalJSON() ([]byte, error) {
	figures := make(map[string]float64, len(r.figures))
	for _, f := range r.figures {
		figures[f.name+"_"+f.unit] = f.value
	}
	return json.Marshal(struct {
		Work     string             `json:"work"`
		Engine   string             `json:"engine"`
		Figures  map[string]float64 `json:"figures"`
		Ceilings ceilings           `json:"ceilings"`
	}{r.work, r.engine, figures, r.ceilings})
}

// number shows a figure with three digits or so.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

func printResults(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "work\tfigure\tvalue\tunit")
	for _, r := range results {
		for _, f := range r.figures {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.work, f.name, number(f.value), f.unit)
		}
	}
	if len(results) > 0 {
		c := results[0].ceilings
		fmt.Fprintf(w, "ceiling\tempty FCALL\t%s\t1/s\nceiling\tlist tasks\t%s\t1/s\n", number(c.FunctionCalls),
			number(c.ListTasks))
	}
	return w.Flush()
}

// spread is the least, the middle and the most of several measurements.
func spread(values []float64) (least, middle, most float64) {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]
}
