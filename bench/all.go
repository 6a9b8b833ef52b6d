package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// goal is one line of the table of targets.
type goal struct {
	work   string
	figure string // whose value is meant
	engine string // "" is in this process
	aof    string
	unit   string
	atMost bool
	target float64
	once   bool // measured in the first round only, because it takes long
	adjust func(*settings)
}

// manyClients keep 100 runs under way.
func manyClients(s *settings) { s.clients = 100 }

var goals = []goal{
	{work: "single", figure: "flows", engine: "valkey", aof: "no", unit: "1/s", target: 10_000, adjust: manyClients},
	{
		work: "single", figure: "flows", engine: "valkey", aof: "everysec", unit: "1/s", target: 7_000,
		adjust: manyClients,
	},
	{work: "chain", figure: "flows", engine: "valkey", aof: "no", unit: "1/s", target: 1_000, adjust: manyClients},
	{work: "chain", figure: "p99", engine: "valkey", aof: "no", unit: "ms", adjust: manyClients},
	{work: "chain", figure: "flows", engine: "valkey", aof: "everysec", unit: "1/s", target: 700, adjust: manyClients},
	{work: "single-idle", figure: "p50", engine: "valkey", aof: "no", unit: "ms", atMost: true, target: 1},
	{work: "chain-idle", figure: "p50", engine: "valkey", aof: "no", unit: "ms", atMost: true, target: 4},
	{work: "fanout-idle", figure: "p50", engine: "valkey", aof: "no", unit: "ms", atMost: true, target: 20},
	{work: "retry", figure: "late p99", engine: "valkey", aof: "no", unit: "ms", atMost: true, target: 20},
	{
		work: "node-cost", figure: "server CPU per node", engine: "valkey", aof: "no", unit: "µs", atMost: true,
		target: 60,
	},
	{work: "idle", figure: "server commands", engine: "valkey", aof: "no", unit: "1/s", atMost: true, target: 50},
	{work: "idle", figure: "server CPU", engine: "valkey", aof: "no", unit: "% of a core", atMost: true, target: 1},
	{work: "idle", figure: "client CPU", engine: "valkey", aof: "no", unit: "% of a core", atMost: true, target: 1},
	{work: "idle-50", figure: "server commands", engine: "valkey", aof: "no", unit: "1/s", atMost: true, target: 500},
	{
		work: "admission", figure: "limit costs", engine: "valkey", aof: "no", unit: "%", atMost: true, target: 25,
		adjust: manyClients,
	},
	{
		work: "memory", figure: "memory per finished node", engine: "valkey", aof: "no", unit: "B", atMost: true,
		target: 1 << 10,
	},
	{work: "large", figure: "submit", engine: "valkey", aof: "no", unit: "ms", atMost: true, target: 3000},
	{work: "large", figure: "slowest call of submit", engine: "valkey", aof: "no", unit: "ms", atMost: true, target: 5},
	{work: "large", figure: "slowest call of run", engine: "valkey", aof: "no", unit: "ms", atMost: true, target: 5},
	{
		work: "wake-50", figure: "wasted claims per execution", engine: "valkey", aof: "no", atMost: true, target: 3,
		once: true,
	},
	{
		work: "contention", figure: "worst of best", engine: "valkey", aof: "no", unit: "%", target: 80, once: true,
		adjust: manyClients,
	},
	{
		work: "contention", figure: "64 workers: wasted claims per execution", engine: "valkey", aof: "no",
		atMost: true, target: 0.2, once: true, adjust: manyClients,
	},
	{work: "backlog", figure: "more", engine: "valkey", aof: "no", unit: "%", atMost: true, target: 20, once: true},
	{work: "chain", figure: "flows", engine: "", aof: "no", unit: "1/s", target: 150},
}

// allRounds is the number of rounds of -all, unless -rounds sets another.
const allRounds = 3

// measured has the measurements of one server with one durability.
type setting struct{ engine, aof, work string }

// measureAll prints the table of targets: least, middle and most of several rounds.
func measureAll(ctx context.Context, s settings, out io.Writer) error {
	rounds := s.rounds
	if rounds == 1 {
		rounds = allRounds
	}
	values := make(map[setting]map[string][]float64)
	var calls, tasks []float64
	for round := range rounds {
		for _, server := range []setting{{engine: "valkey", aof: "no"}, {engine: "valkey", aof: "everysec"},
			{aof: "no"}} {
			c, err := measureGoals(ctx, s, server, round, values)
			if err != nil {
				return err
			}
			if server.engine != "" && server.aof == "no" {
				calls, tasks = append(calls, c.FunctionCalls), append(tasks, c.ListTasks)
			}
		}
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "work\tengine\tAOF\tfigure\tunit\ttarget\tleast\tmiddle\tmost\t")
	row := func(list []float64, cells ...any) {
		least, middle, most := spread(list)
		fmt.Fprintln(w, strings.TrimSuffix(fmt.Sprintf(strings.Repeat("%v\t", len(cells)), cells...), "")+
			number(least)+"\t"+number(middle)+"\t"+number(most)+"\t")
	}
	for _, g := range goals {
		if list := values[setting{g.engine, g.aof, g.work}][g.figure]; len(list) > 0 {
			engine := g.engine
			if engine == "" {
				engine = "embedded"
			}
			row(list, g.work, engine, g.aof, g.figure, g.unit, g.shown())
		}
	}
	row(calls, "ceiling", "valkey", "no", "empty FCALL", "1/s", "")
	row(tasks, "ceiling", "valkey", "no", "list tasks", "1/s", "")
	return w.Flush()
}

func (g goal) shown() string {
	switch {
	case g.target == 0:
		return ""
	case g.atMost:
		return "≤ " + number(g.target)
	default:
		return "≥ " + number(g.target)
	}
}

// measureGoals measures the figures with targets on one server.
func measureGoals(
	ctx context.Context, s settings, on setting, round int, values map[setting]map[string][]float64,
) (c ceilings, err error) {
	url, stop, err := startServer(on.engine, on.aof)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	s.url = url
	done := make(map[string]bool)
	for _, g := range goals {
		if g.engine != on.engine || g.aof != on.aof || done[g.work] || g.once && round > 0 {
			continue
		}
		done[g.work] = true
		mine := s
		mine.prefix = newPrefix()
		if g.adjust != nil {
			g.adjust(&mine)
		}
		begun := time.Now()
		figures, err := workloads[g.work](ctx, mine)
		if err != nil {
			return c, fmt.Errorf("%s: %w", g.work, err)
		}
		s.logger.Info("measured", "work", g.work, "took", time.Since(begun))
		at := setting{on.engine, on.aof, g.work}
		if values[at] == nil {
			values[at] = make(map[string][]float64)
		}
		for _, f := range figures {
			values[at][f.name] = append(values[at][f.name], f.value)
		}
	}
	s.prefix = newPrefix()
	err = withEngine(ctx, s, func(e *runtime.Engine, _ *runtime.Client) (err error) {
		c, err = measureCeilings(ctx, e, s.concurrency)
		return err
	})
	return c, err
}
