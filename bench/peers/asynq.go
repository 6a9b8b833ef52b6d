package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

const (
	// asynqInterval is how often an idle worker checks for tasks. asynq's default is a second, for which a task could
	// wait in an empty queue.
	asynqInterval = time.Millisecond
	asynqQueue    = "default"

	singleKind, chainKind = "single", "chain"
)

// asynqSystem is asynq on Valkey.
type asynqSystem struct {
	journal   *journal
	server    *valkey
	client    *asynq.Client
	worker    *asynq.Server
	inspector *asynq.Inspector
}

func startAsynq(_ context.Context, s settings, j *journal) (system, error) {
	server, err := startValkey(s.aof)
	if err != nil {
		return nil, err
	}
	connection := asynq.RedisClientOpt{Addr: server.addr, PoolSize: clients}
	a := &asynqSystem{
		journal: j, server: server, client: asynq.NewClient(connection), inspector: asynq.NewInspector(connection),
		worker: asynq.NewServer(connection, asynq.Config{
			Concurrency: s.slots, TaskCheckInterval: asynqInterval, LogLevel: asynq.ErrorLevel,
		}),
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc(singleKind, func(_ context.Context, task *asynq.Task) error {
		text, err := j.Work(string(task.Payload()))
		if err != nil {
			return err
		}
		return j.End(text)
	})
	mux.HandleFunc(chainKind, func(ctx context.Context, task *asynq.Task) error {
		text, err := j.Work(string(task.Payload()))
		if err != nil {
			return err
		}
		_, step, err := parse(text)
		if err != nil {
			return err
		}
		if step == chainSteps {
			return j.End(text)
		}
		return a.enqueue(ctx, chainKind, text)
	})
	if err := a.worker.Start(mux); err != nil {
		return nil, errors.Join(err, server.close())
	}
	return a, nil
}

func (a *asynqSystem) enqueue(ctx context.Context, kind, text string) error {
	_, err := a.client.EnqueueContext(ctx, asynq.NewTask(kind, []byte(text)))
	return err
}

func (a *asynqSystem) Single(ctx context.Context, in string) (string, error) {
	return queued(ctx, a.journal, in, 1, func() error { return a.enqueue(ctx, singleKind, in) })
}

func (a *asynqSystem) Chain(ctx context.Context, in string) (string, error) {
	return queued(ctx, a.journal, in, chainSteps, func() error { return a.enqueue(ctx, chainKind, in) })
}

// queued submits to a queue, waits until the last function has run, and returns its result.
func queued(ctx context.Context, j *journal, in string, steps int, submit func() error) (string, error) {
	wait, err := j.Await(in)
	if err != nil {
		return "", err
	}
	if err := submit(); err != nil {
		return "", err
	}
	run, _, err := parse(in)
	if err != nil {
		return "", err
	}
	return payload(run, steps, len(in)), wait(ctx)
}

// Drain waits until the queue is empty: a task leaves it when its end is recorded.
func (a *asynqSystem) Drain(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		info, err := a.inspector.GetQueueInfo(asynqQueue)
		if err != nil {
			return false, fmt.Errorf("asynq: %w", err)
		}
		if info.FailedTotal > 0 {
			return false, fmt.Errorf("asynq: %d tasks have failed", info.FailedTotal)
		}
		return info.Size == 0, nil
	})
}

// poll calls done every millisecond until it returns true.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if yes, err := done(); yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *asynqSystem) Versions(ctx context.Context) ([]string, error) {
	v, err := a.server.version(ctx)
	return []string{module("github.com/hibiken/asynq"), v}, err
}

func (a *asynqSystem) Close() error {
	a.worker.Shutdown()
	return errors.Join(a.client.Close(), a.inspector.Close(), a.server.close())
}
