package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// workerPool is a number of workers, each in a separate process.
type workerPool struct {
	members []*member
}

type member struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startPool starts processes that work on a keyspace, and returns when all are at work.
func startPool(ctx context.Context, s settings, count int) (*workerPool, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &workerPool{}
	for range count {
		m := &member{command: exec.CommandContext(ctx, program, "-engine", s.url, "-prefix", s.prefix, "-slots",
			strconv.Itoa(s.concurrency), "-serve")}
		m.command.Stderr = os.Stderr
		if m.in, err = m.command.StdinPipe(); err != nil {
			return nil, errors.Join(err, c.stop())
		}
		out, err := m.command.StdoutPipe()
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		m.out = bufio.NewReader(out)
		if err := m.command.Start(); err != nil {
			return nil, errors.Join(err, c.stop())
		}
		c.members = append(c.members, m)
	}
	if _, err := c.stats(); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// stats reads the counts of each worker.
func (c *workerPool) stats() ([]fabrictype.WorkerStats, error) {
	list := make([]fabrictype.WorkerStats, len(c.members))
	for i, m := range c.members {
		if _, err := io.WriteString(m.in, "\n"); err != nil {
			return nil, err
		}
		line, err := m.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("worker process: %w", err)
		}
		if err := json.Unmarshal(line, &list[i]); err != nil {
			return nil, fmt.Errorf("worker process: %q: %w", line, err)
		}
	}
	return list, nil
}

// stop ends all workers of the pool.
func (c *workerPool) stop() error {
	var faults []error
	for _, m := range c.members {
		faults = append(faults, m.in.Close())
	}
	for _, m := range c.members {
		faults = append(faults, m.command.Wait())
	}
	return errors.Join(faults...)
}

// serve is one worker process: it answers each line with the worker's counts, and ends with its input.
func serve(ctx context.Context, s settings, in io.Reader, out io.Writer) error {
	return withEngine(ctx, s, func(e *runtime.Engine, _ *runtime.Client) error {
		// It measures workers alone, without a keeper.
		worker, err := runtime.NewWorker(e, runtime.WorkerConfig{Concurrency: s.concurrency, NoKeeper: true})
		if err == nil {
			err = worker.Register(activities()...)
		}
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- worker.Run(running) }()
		encoder, lines := json.NewEncoder(out), bufio.NewScanner(in)
		var fault error
		for fault == nil && lines.Scan() {
			fault = encoder.Encode(worker.Stats())
		}
		stop()
		return errors.Join(fault, lines.Err(), <-done)
	})
}

// tally has the counts of a worker pool between two moments.
type tally struct {
	executions, wasted int64
	least, most        int64 // executions of one worker
	cost               stats
}

func tallyOf(before, after []fabrictype.WorkerStats) tally {
	var t tally
	for i := range after {
		executions := after[i].Executions - before[i].Executions
		t.executions += executions
		t.wasted += after[i].EmptyClaims - before[i].EmptyClaims
		if i == 0 || executions < t.least {
			t.least = executions
		}
		t.most = max(t.most, executions)
	}
	return t
}

// wastedPerUseful is the number of claims without a result for each execution.
func (t tally) wastedPerUseful() float64 { return float64(t.wasted) / float64(max(t.executions, 1)) }

const (
	// settled is how long the workers of a pool need to discover each other.
	settled = 3 * time.Second
	// contended is how long a pool is loaded at least, so that each worker is woken a few times.
	contended = 6 * time.Second
)

// contention runs chains of nodes by more and more workers in separate processes.
func contention(ctx context.Context, s settings) ([]figure, error) {
	if s.url == "" {
		return nil, errors.New("other processes cannot reach an engine in this one")
	}
	var figures []figure
	var best, worst float64
	for _, count := range s.pools {
		rate, t, err := contend(ctx, s, count)
		if err != nil {
			return nil, err
		}
		best = max(best, rate)
		if worst == 0 || rate < worst {
			worst = rate
		}
		name := func(what string) string { return fmt.Sprintf("%d workers: %s", count, what) }
		executions := float64(max(t.executions, 1))
		figures = append(figures, figure{name("flows"), "1/s", rate},
			figure{name("wasted claims per execution"), "", t.wastedPerUseful()},
			figure{name("calls per execution"), "", float64(t.cost.calls) / executions},
			figure{name("commands per execution"), "", float64(t.cost.commands) / executions},
			figure{name("server CPU per execution"), "µs", float64(t.cost.cpu.Microseconds()) / executions})
		if count > 1 {
			fair := float64(t.executions) / float64(count)
			figures = append(figures, figure{name("least share"), "of fair", float64(t.least) / fair},
				figure{name("largest share"), "of fair", float64(t.most) / fair})
		}
	}
	return append(figures, figure{"worst of best", "%", 100 * worst / best}), nil
}

func contend(ctx context.Context, s settings, count int) (rate float64, t tally, err error) {
	def, err := chain(10)
	if err != nil {
		return 0, t, err
	}
	s.prefix, s.time = newPrefix(), max(s.time, contended)
	err = withEngine(ctx, s, func(e *runtime.Engine, client *runtime.Client) error {
		return atWork(ctx, s, e, 0, func([]*runtime.Worker) (err error) {
			c, err := startPool(ctx, s, count)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.stop()) }()
			meet := s
			meet.flows, meet.time = 0, settled
			if _, err := load(ctx, meet, 4, func(i int) error { return one(ctx, client, def, i) }); err != nil {
				return err
			}
			before, err := c.stats()
			if err != nil {
				return err
			}
			costs, err := serverStats(ctx, e)
			if err != nil {
				return err
			}
			begun := time.Now()
			times, err := load(ctx, s, s.clients, func(i int) error { return one(ctx, client, def, i) })
			if err != nil {
				return err
			}
			rate = float64(times.TotalCount()) / time.Since(begun).Seconds()
			after, err := c.stats()
			if err != nil {
				return err
			}
			t = tallyOf(before, after)
			spent, err := serverStats(ctx, e)
			t.cost = spent.since(costs)
			return err
		})
	})
	return rate, t, err
}

// wakeStorm lets 50 idle workers, in separate processes, have ten tasks per second.
func wakeStorm(ctx context.Context, s settings) (figures []figure, err error) {
	const workers, pause = 50, 100 * time.Millisecond
	if s.url == "" {
		return nil, errors.New("other processes cannot reach an engine in this one")
	}
	def, err := chain(1)
	if err != nil {
		return nil, err
	}
	err = withEngine(ctx, s, func(e *runtime.Engine, client *runtime.Client) error {
		return atWork(ctx, s, e, 0, func([]*runtime.Worker) (err error) {
			c, err := startPool(ctx, s, workers)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.stop()) }()
			if err := wait(ctx, settled); err != nil {
				return err
			}
			before, err := c.stats()
			if err != nil {
				return err
			}
			paced := s
			paced.time = max(s.time, 5*time.Second)
			times, err := load(ctx, paced, 1, func(i int) error { return one(ctx, client, def, i) }, pause)
			if err != nil {
				return err
			}
			after, err := c.stats()
			figures = append([]figure{{"wasted claims per execution", "", tallyOf(before, after).wastedPerUseful()}},
				quantiles(times)...)
			return err
		})
	})
	return figures, err
}
