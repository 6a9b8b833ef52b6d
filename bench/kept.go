package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// kept compares the cost of runs of one node on an empty engine and on one that keeps many runs that are over.
func kept(ctx context.Context, s settings) (figures []figure, err error) {
	def, err := chain(1)
	if err != nil {
		return nil, err
	}
	l, err := local(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	cost := func() (cpu float64, err error) {
		before, err := serverStats(ctx, l.Engine())
		if err != nil {
			return 0, err
		}
		times, err := load(ctx, s, s.clients, func(i int) error { return one(ctx, l.Client(), def, i) })
		if err != nil {
			return 0, err
		}
		after, err := serverStats(ctx, l.Engine())
		return float64(after.since(before).cpu.Microseconds()) / float64(times.TotalCount()), err
	}
	few, err := cost()
	if err != nil {
		return nil, err
	}
	before, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, err
	}
	begun, runs := time.Now(), s.atMost(s.backlog)
	for left := runs; left > 0; left -= manyStarts {
		if _, err := startAll(ctx, l.Client(), def, min(left, manyStarts)); err != nil {
			return nil, err
		}
	}
	if err := one(ctx, l.Client(), def, 0); err != nil { // it waits for all others
		return nil, err
	}
	took := time.Since(begun).Seconds()
	after, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, err
	}
	many, err := cost()
	figures = []figure{{"filled", "1/s", float64(runs) / took}}
	if few > 0 {
		figures = append(figures, figure{"a run at first", "µs", few},
			figure{fmt.Sprintf("a run with %d", runs), "µs", many}, figure{"more", "%", 100 * (many/few - 1)},
			figure{"memory per kept run", "B", float64(after.since(before).memory) / float64(runs)})
	}
	return figures, err
}

// startAll starts runs of a flow, many with one call.
func startAll[T any](
	ctx context.Context, client *runtime.Client, def *flow.Definition[T, T], count int, opts ...runtime.StartOption,
) ([]*runtime.Run[T], error) {
	list := make([]runtime.NewRun[T], count)
	for i := range list {
		list[i].Options = opts
	}
	started, err := runtime.StartMany(ctx, client, def, list)
	if err != nil {
		return nil, err
	}
	runs := make([]*runtime.Run[T], count)
	for i, one := range started {
		if one.Err != nil {
			return nil, fmt.Errorf("start: %w", one.Err)
		}
		runs[i] = one.Run
	}
	return runs, nil
}

// searched is a search that people make, on an engine that keeps many runs.
type searched struct{ name, words string }

// searches find few runs among many, or none, so that a search by anything without an index reads all of them.
var searches = []searched{
	{"last page", ""},
	{"by state and time", "failed today"},
	{"by flow", "flow:bench-rare"},
	{"by tag", "bench.customer:c-7"},
	{"by a value of any tag", "c-7"},
	{"by a word of an error", "declined"},
	{"by a beginning of an id", "run:order-0000005"},
	{"by a beginning of a random id", "run:0f1"},
	{"by an id that no run has", "run:none"},
	{"by a part of an id", "order-0000005"},
}

// searchRounds is how often each search is made.
const searchRounds = 20

// search measures searches on an engine that keeps many runs, half of them with ids that programs gave.
func search(ctx context.Context, s settings) (figures []figure, err error) {
	l, err := local(ctx, s, declined)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	runs := s.atMost(s.backlog)
	if err := fillForSearch(ctx, l.Client(), runs); err != nil {
		return nil, err
	}
	longest, err := slowestCall(ctx, l.Engine(), func() error {
		for _, of := range searches {
			more, err := of.measure(ctx, l)
			if err != nil {
				return fmt.Errorf("search %q: %w", of.words, err)
			}
			figures = append(figures, more...)
		}
		return nil
	})
	if longest > 0 {
		figures = append(figures, milliseconds("slowest call", longest))
	}
	return figures, err
}

// measure makes a search several times.
func (of searched) measure(ctx context.Context, l *runtime.Local) ([]figure, error) {
	before, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, err
	}
	times := newHistogram()
	for range searchRounds {
		begun := time.Now()
		if err := firstPage(ctx, l.Client(), of.words); err != nil {
			return nil, err
		}
		if err := times.RecordValue(time.Since(begun).Microseconds()); err != nil {
			return nil, err
		}
	}
	after, err := serverStats(ctx, l.Engine())
	if err != nil {
		return nil, err
	}
	all := quantiles(times)
	figures := []figure{all[0], all[len(all)-1]}
	if cpu := after.since(before).cpu; cpu > 0 {
		figures = append(figures, milliseconds("server CPU", cpu/searchRounds))
	}
	for i := range figures {
		figures[i].name = of.name + ", " + figures[i].name
	}
	return figures, nil
}

// slowestCall is slowest for engines of a server; one in this process has no log of calls.
func slowestCall(ctx context.Context, e *runtime.Engine, do func() error) (time.Duration, error) {
	if e.Embedded() != nil {
		return 0, do()
	}
	return slowest(ctx, e, do)
}

// firstPage reads pages until there are 20 runs, as people see them, or all of fewer.
func firstPage(ctx context.Context, client *runtime.Client, words string) error {
	const wanted = 20
	for cursor, found := "", 0; ; {
		page, err := client.ListRuns(ctx, runtime.RunQuery{Search: words}, cursor, wanted)
		if err != nil {
			return err
		}
		found, cursor = found+len(page.Items), page.Next
		if found >= wanted || cursor == "" {
			return nil
		}
	}
}

// declined fails for odd inputs.
var declined = activity.New("bench.declined", func(_ context.Context, n int) (int, error) {
	if n%2 == 1 {
		return 0, activity.NonRetryable(errors.New("card declined"))
	}
	return n, nil
})

// fillForSearch makes runs that are over: of two flows, one of which has one run in 1,000; one run in 1,000 fails, and
// each has one of 1,000 customers as a tag.
func fillForSearch(ctx context.Context, client *runtime.Client, runs int) error {
	build := func(name string) (*flow.Definition[int, int], error) {
		f := flow.New[int, int](name)
		flow.Return(f, flow.Node(f, "only", declined, f.Input()))
		return f.Build()
	}
	usual, err := build("bench-search")
	if err != nil {
		return err
	}
	rare, err := build("bench-rare")
	if err != nil {
		return err
	}
	const oneIn = 1000
	for first := 0; first < runs; first += manyStarts {
		list := make([]runtime.NewRun[int], min(manyStarts, runs-first))
		for i := range list {
			n := first + i
			list[i].Options = append(list[i].Options, runtime.WithTag("bench.customer", fmt.Sprintf("c-%d", n%oneIn)))
			if n%2 == 0 {
				list[i].Options = append(list[i].Options, runtime.WithID(fmt.Sprintf("order-%08d", n)))
			}
			if n%oneIn == oneIn/2 {
				list[i].Input = 1
			}
		}
		def := usual
		if first == 0 && len(list) < runs {
			def = rare
		}
		started, err := runtime.StartMany(ctx, client, def, list)
		if err != nil {
			return err
		}
		for _, one := range started {
			if one.Err != nil {
				return fmt.Errorf("start: %w", one.Err)
			}
		}
		if _, err := started[len(started)-1].Run.Result(ctx); err != nil {
			return err
		}
	}
	return nil
}
