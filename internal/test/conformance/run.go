package conformance

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/redis/rueidis"
)

// An Opener returns a client of a separate database, and a function that releases both. It is called once for every
// worker of [Run].
type Opener func(ctx context.Context) (rueidis.Client, func(), error)

// Prepare loads a library into the server of a client that an [Opener] gave,
// and returns the functions that the server has. Calls of the library then see
// the time of the replay.
func Prepare(ctx context.Context, client rueidis.Client, library string) (map[string]bool, error) {
	s := &store{client: client}
	clock, clocked := clockOf(client).(*serverClock)
	if clocked {
		library = clockedLibrary(library)
	}
	if err := s.do(ctx, "FUNCTION", "LOAD", "REPLACE", library).Error(); err != nil {
		return nil, fmt.Errorf("loading the library: %w", err)
	}
	if clocked {
		if err := clock.set(ctx); err != nil {
			return nil, err
		}
	}
	return s.functions(ctx)
}

// Run replays traces on several databases at once, with the library loaded
// into each. Results are in the order of the
// traces; report, when not nil, gets each as soon as it is there, one at a
// time.
func Run(ctx context.Context, traces []*Trace, open []Opener, library string, options Options,
	report func(*Result)) ([]*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	order := make([]int, len(traces))
	for i := range order {
		order[i] = i
	}
	// Long ones first, so that no worker ends up alone with one.
	sort.SliceStable(order, func(i, j int) bool {
		return len(traces[order[i]].Steps) > len(traces[order[j]].Steps)
	})
	queue := make(chan int, len(order))
	for _, i := range order {
		queue <- i
	}
	close(queue)

	results := make([]*Result, len(traces))
	var reporting sync.Mutex
	worker := func(open Opener) error {
		client, release, err := open(ctx)
		if err != nil {
			return err
		}
		defer release()
		present, err := Prepare(ctx, client, library)
		if err != nil {
			return err
		}
		mine := options
		if mine.Functions != nil {
			both := map[string]bool{}
			for name := range mine.Functions {
				both[name] = present[name]
			}
			present = both
		}
		mine.Functions = present
		for i := range queue {
			if ctx.Err() != nil {
				return nil
			}
			result, err := Replay(ctx, client, traces[i], mine)
			if err != nil {
				return err
			}
			reporting.Lock()
			results[i] = result
			if report != nil {
				report(result)
			}
			reporting.Unlock()
		}
		return nil
	}
	var workers sync.WaitGroup
	for _, o := range open {
		workers.Go(func() {
			if err := worker(o); err != nil {
				cancel(err)
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for i, r := range results {
		if r == nil {
			return nil, errors.Join(fmt.Errorf("trace %s was not replayed", traces[i].Name), ctx.Err())
		}
	}
	return results, nil
}
