package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

const (
	// payloadSize is the number of bytes of each input and each result, unless a kind of work has another.
	payloadSize = 100
	// payloadHead is the number of bytes before the filler.
	payloadHead = len("00000000 00 ")
)

// payload is the input of a function of a run, or the result of the one before: the number of the run, the number of
// the function, and filler.
func payload(run, step, size int) string {
	return fmt.Sprintf("%08d %02d ", run, step) + strings.Repeat("x", size-payloadHead)
}

func parse(text string) (run, step int, err error) {
	if len(text) < payloadHead {
		return 0, 0, fmt.Errorf("an input of %d bytes", len(text))
	}
	if run, err = strconv.Atoi(text[:8]); err != nil {
		return 0, 0, err
	}
	step, err = strconv.Atoi(text[9:11])
	return run, step, err
}

// journal counts how often each function of each run was executed.
type journal struct {
	mu    sync.Mutex
	times []uint16 // by run and function
	ended map[int]chan struct{}
}

func newJournal() *journal { return &journal{ended: make(map[int]chan struct{})} }

// Work is the function that all systems run: it counts its execution, and its result is the input of the next one.
func (j *journal) Work(text string) (string, error) {
	run, step, err := parse(text)
	if err != nil {
		return "", err
	}
	if step >= chainSteps {
		return "", fmt.Errorf("run %d has no function %d", run, step)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	at := run*chainSteps + step
	if at >= len(j.times) {
		j.times = append(j.times, make([]uint16, at+1+len(j.times))...)
	}
	j.times[at]++
	return payload(run, step+1, len(text)), nil
}

// Await returns a function that waits for End of the run of an input. Systems that report no ends use it.
func (j *journal) Await(text string) (wait func(context.Context) error, err error) {
	run, _, err := parse(text)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended[run] = ended
	return func(ctx context.Context) error {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("run %d: %w", run, ctx.Err())
		}
	}, nil
}

// End lets Await return. It has no effect when a function is repeated.
func (j *journal) End(text string) error {
	run, _, err := parse(text)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if ended := j.ended[run]; ended != nil {
		close(ended)
		delete(j.ended, run)
	}
	return nil
}

// Check returns how many functions of runs were executed again, and an error unless all were executed.
func (j *journal) Check(first, runs, steps int) (repeated int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	missing := 0
	for run := first; run < first+runs; run++ {
		for step := range steps {
			switch at := run*chainSteps + step; {
			case at >= len(j.times) || j.times[at] == 0:
				missing++
			default:
				repeated += int(j.times[at]) - 1
			}
		}
	}
	if missing > 0 {
		return repeated, fmt.Errorf("%d of %d functions were never executed", missing, runs*steps)
	}
	return repeated, nil
}
