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
	once   bool // measured in the first round only
	adjust func(*settings)
}

// manyClients keep 100 runs under way.
func manyClients(s *settings) { s.clients = 100 }

// onValkey is a goal on a server without an append-only file.
func onValkey(g goal) goal {
	g.engine, g.aof = "valkey", "no"
	return g
}

// atMost is a goal that is an upper bound.
func atMost(work, figure, unit string, target float64) goal {
	return onValkey(goal{work: work, figure: figure, unit: unit, atMost: true, target: target})
}

// atLeast is a goal that is a lower bound.
func atLeast(work, figure, unit string, target float64) goal {
	return onValkey(goal{work: work, figure: figure, unit: unit, target: target})
}

// withManyClients is a goal with 100 runs under way.
func withManyClients(g goal) goal {
	g.adjust = manyClients
	return g
}

// once is a goal that is measured in the first round only, because it takes long.
func once(g goal) goal {
	g.once = true
	return g
}

// flushed is a goal on a server that flushes its append-only file every second.
func flushed(g goal) goal {
	g.aof = "everysec"
	return g
}

var goals = []goal{
	withManyClients(atLeast("single", "flows", "1/s", 12_000)),
	flushed(withManyClients(atLeast("single", "flows", "1/s", 9_000))),
	withManyClients(atLeast("chain", "flows", "1/s", 2_000)),
	withManyClients(atMost("chain", "p99", "ms", 120)),
	withManyClients(atMost("chain", "server CPU per node", "µs", 40)),
	withManyClients(atMost("chain", "commands per node", "", 9)),
	withManyClients(atMost("chain", "own CPU per node", "µs", 30)),
	flushed(withManyClients(atLeast("chain", "flows", "1/s", 1_400))),
	atMost("single-idle", "p50", "ms", 0.6),
	atMost("chain-idle", "p50", "ms", 2.5),
	atMost("fanout-idle", "p50", "ms", 9),
	atMost("retry", "late p99", "ms", 20),
	atMost("raw-idle", "create p50", "ms", 5),
	atMost("raw-idle", "late retry p50", "ms", 5),
	atMost("raw-idle", "replay p50", "ms", 5),
	atMost("raw-idle", "edge p50", "ms", 5),
	onValkey(goal{work: "node-cost", figure: "server CPU per node", unit: "µs", atMost: true}),
	atMost("idle", "server commands", "1/s", 50),
	atMost("idle", "server CPU", "% of a core", 1),
	atMost("idle", "client CPU", "% of a core", 1),
	once(atMost("idle-50", "function calls", "1/s", 5)),
	once(atMost("idle-50", "server CPU", "% of a core", 0.1)),
	withManyClients(atMost("admission", "limit adds", "µs/run", 15)),
	withManyClients(atMost("admission", "used budget adds", "µs/run", 25)),
	atMost("memory", "memory per finished node", "B", 1100),
	atMost("memory-single", "memory per finished node", "B", 2500),
	atMost("large", "submit", "ms", 300),
	atMost("large", "slowest call of submit", "ms", 3),
	atMost("large", "slowest call of run", "ms", 5),
	once(atMost("wake-50", "wasted claims per execution", "", 3)),
	once(withManyClients(atLeast("contention", "worst of best", "%", 85))),
	once(withManyClients(atMost("contention", "64 workers: wasted claims per execution", "", 0.2))),
	once(atMost("backlog", "more", "%", 20)),
	once(atMost("backlog", "memory per waiting node", "B", 400)),
	{work: "chain", figure: "flows", engine: "", aof: "no", unit: "1/s", target: 1_200},
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
