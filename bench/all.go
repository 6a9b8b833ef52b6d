package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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
	once   bool     // measured in the first round only
	over   *setting // the value is divided by the one there, in the same round
	adjust func(*settings)
}

// manyClients keep 100 runs under way.
func manyClients(s *settings) { s.clients = 100 }

// shapeTime is how long each shape is loaded, in all rounds of run-cost together.
const shapeTime = 1200 * time.Millisecond

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

// plain is a goal of a kind of runs, as a multiple of the costs of the same kind without a feature; without a target,
// the figure is only shown.
func plain(name string, target float64) goal {
	g := once(withManyClients(atMost("run-cost", name+" / plain", "×", target)))
	g.adjust = func(s *settings) {
		manyClients(s)
		s.time = shapeTime
	}
	return g
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

// flushed is a goal on a server with an append-only file: "everysec" or "always" is when it is flushed.
func flushed(when string, g goal) goal {
	g.aof = when
	return g
}

// inCluster is a goal of a cluster of three.
func inCluster(g goal) goal {
	g.engine = "cluster"
	return g
}

// ofOneServer is a goal of a figure as a multiple of the one of one server.
func ofOneServer(g goal) goal {
	g.over, g.unit = &setting{"valkey", "no", g.work}, "×"
	return g
}

// inProcess is a goal of the engine in this process.
func inProcess(g goal) goal {
	g.engine = ""
	return g
}

var goals = []goal{
	withManyClients(atLeast("single", "flows", "1/s", 30_000)),
	withManyClients(atMost("single", "server CPU per node", "µs", 25)),
	withManyClients(atMost("single", "own CPU per node", "µs", 12)),
	withManyClients(atMost("single", "own allocations per node", "", 25)),
	flushed("everysec", withManyClients(atLeast("single", "flows", "1/s", 23_800))),
	flushed("always", withManyClients(atLeast("single", "flows", "1/s", 10_000))),
	withManyClients(atLeast("chain", "flows", "1/s", 5_500)),
	withManyClients(atMost("chain", "p99", "ms", 120)),
	withManyClients(atMost("chain", "server CPU per node", "µs", 14)),
	withManyClients(atMost("chain", "commands per node", "", 9)),
	withManyClients(atMost("chain", "own CPU per node", "µs", 9)),
	flushed("everysec", withManyClients(atLeast("chain", "flows", "1/s", 4_000))),
	flushed("always", withManyClients(atLeast("chain", "flows", "1/s", 1_200))),
	withManyClients(atLeast("one-slot", "flows", "1/s", 8_000)),
	atMost("single-idle", "p50", "ms", 0.2),
	atMost("chain-idle", "p50", "ms", 0.8),
	atMost("fanout-idle", "p50", "ms", 9),
	atMost("retry", "late p99", "ms", 20),
	atMost("raw-idle", "create p50", "ms", 5),
	atMost("raw-idle", "late retry p50", "ms", 5),
	atMost("raw-idle", "replay p50", "ms", 5),
	atMost("raw-idle", "edge p50", "ms", 5),
	onValkey(goal{work: "node-cost", figure: "server CPU per node", unit: "µs", atMost: true}),
	once(atMost("idle", "server commands", "1/s", 50)),
	once(atMost("idle", "server CPU", "% of a core", 1)),
	once(atMost("idle", "client CPU", "% of a core", 1)),
	once(atMost("idle-50", "function calls", "1/s", 5)),
	once(atMost("idle-50", "server CPU that they add", "% of a core", 0.1)),
	plain("chain with Finally", 1.3),
	plain("any-of", 1.3),
	plain("quorum", 1.3),
	plain("StartAt", 1.3),
	plain("signal", 0),
	plain("WithSignal", 1.3),
	plain("WithKey", 1.3),
	plain("fork", 1.3),
	plain("retry", 0),
	plain("chain with a retry", 1.3),
	plain("WithID", 1.1),
	plain("ScheduleToStart", 1.3),
	plain("StartToClose", 1.1),
	plain("HeartbeatTimeout", 1.1),
	plain("limit", 1.1),
	plain("Deadline", 1.1),
	plain("Retention", 1.1),
	plain("priority, memo, tag", 1.2),
	{work: "run-cost", figure: "used budget adds", engine: "valkey", aof: "no", unit: "µs/run", atMost: true, target: 5, once: true},
	{work: "run-cost", figure: "1 KB", engine: "valkey", aof: "no", unit: "1/s", once: true},
	{work: "run-cost", figure: "10 KB", engine: "valkey", aof: "no", unit: "1/s", once: true},
	{work: "run-cost", figure: "100 KB", engine: "valkey", aof: "no", unit: "1/s", once: true},
	once(atLeast("due-10000", "runs", "1/s", 0)),
	once(atMost("due-10000", "server CPU", "µs/run", 0)),
	once(atLeast("due-100000", "runs", "1/s", 0)),
	once(atMost("due-100000", "server CPU", "µs/run", 0)),
	once(withManyClients(atMost("idle-clients", "64 idle: more", "%", 5))),
	once(withManyClients(atMost("kept", "more", "%", 10))),
	once(withManyClients(atMost("kept", "memory per kept run", "B", 1100))),
	atMost("memory", "memory per finished node", "B", 350),
	atMost("memory-single", "memory per finished node", "B", 1100),
	atMost("large", "submit", "ms", 300),
	atMost("large", "slowest call of submit", "ms", 3),
	atMost("large", "slowest call of run", "ms", 5),
	once(atMost("wake-50", "wasted claims per execution", "", 3)),
	once(withManyClients(atLeast("contention", "worst of best", "%", 95))),
	once(withManyClients(atMost("contention", "64 workers: wasted claims per execution", "", 0.2))),
	once(withManyClients(atMost("idle-clients", "64 idle: more", "%", 5))),
	once(atMost("backlog", "more", "%", 20)),
	once(atMost("backlog", "memory per waiting node", "B", 400)),
	inCluster(withManyClients(atLeast("single", "flows", "1/s", 0))),
	inCluster(ofOneServer(withManyClients(atMost("single", "server CPU per node", "", 0)))),
	inCluster(withManyClients(atLeast("chain", "flows", "1/s", 0))),
	inCluster(ofOneServer(withManyClients(atMost("chain", "server CPU per node", "", 1.1)))),
	inProcess(withManyClients(atLeast("single", "flows", "1/s", 20_000))),
	inProcess(withManyClients(atLeast("chain", "flows", "1/s", 5_000))),
}

// allRounds is the number of rounds of -all, unless -rounds sets another.
const allRounds = 3

// setting is a workload on one server with one durability.
type setting struct{ engine, aof, work string }

// server is the engine, with its append-only file if it has one.
func (s setting) server() string {
	switch {
	case s.engine == "":
		return "embedded"
	case s.aof != "no":
		return s.engine + ", AOF " + s.aof
	}
	return s.engine
}

// patience bounds a workload of -all.
const patience = 10 * time.Minute

// measureAll prints the table of targets as Markdown: minimum, median and maximum of several rounds.
func measureAll(ctx context.Context, s settings, out io.Writer) error {
	rounds := s.rounds
	if rounds == 1 {
		rounds = allRounds
	}
	values := make(map[setting]map[string][]float64)
	var calls, tasks []float64
	for round := range rounds {
		for _, server := range []setting{{engine: "valkey", aof: "no"}, {engine: "valkey", aof: "everysec"},
			{engine: "valkey", aof: "always"}, {engine: "cluster", aof: "no"}, {aof: "no"}} {
			c, err := measureGoals(ctx, s, server, round, values)
			if err != nil {
				return err
			}
			if server.engine == "valkey" && server.aof == "no" {
				calls, tasks = append(calls, c.FunctionCalls), append(tasks, c.ListTasks)
			}
		}
	}
	fmt.Fprint(out, "| work | engine | AOF | figure | unit | target | least | median | most |\n"+
		"| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: |\n")
	row := func(list []float64, cells ...string) {
		least, middle, most := spread(list)
		cells = append(cells, number(least), number(middle), number(most))
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
	for _, g := range goals {
		if list := g.of(values); len(list) > 0 {
			row(list, g.work, cmp.Or(g.engine, "embedded"), g.aof, g.figure, g.unit, g.shown())
		}
	}
	row(calls, "ceiling", "valkey", "no", "empty FCALL", "1/s", "")
	row(tasks, "ceiling", "valkey", "no", "list tasks", "1/s", "")
	return nil
}

// of returns the figure of each round.
func (g goal) of(values map[setting]map[string][]float64) []float64 {
	list := values[setting{g.engine, g.aof, g.work}][g.figure]
	if g.over == nil {
		return list
	}
	ratios := make([]float64, len(list))
	for round, value := range list {
		ratios[round] = value / values[*g.over][g.figure][round]
	}
	return ratios
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
		at := setting{on.engine, on.aof, g.work}
		begun := time.Now()
		within, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it does not end"))
		figures, err := workloads[g.work](within, mine)
		cancel()
		if err != nil {
			return c, fmt.Errorf("%s on %s: %w", g.work, at.server(), errors.Join(err, context.Cause(within)))
		}
		fmt.Fprintf(os.Stderr, "round %d, %s: %s took %s\n", round+1, at.server(), g.work,
			time.Since(begun).Round(time.Second))
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
