package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	// riverCooldown is the least time between two fetches of jobs, riverInterval the time after which a worker looks
	// for jobs of which no notification came. River's own benchmark has these values; the defaults are 100 ms and 1 s.
	riverCooldown, riverInterval = 2 * time.Millisecond, 20 * time.Millisecond
	// riverConnections is the size of the pool, for clients and worker together.
	riverConnections = 32
)

// singleJob is a single job, chainJob one that submits the next.
type (
	singleJob struct {
		Text string `json:"text"`
	}
	chainJob struct {
		Text string `json:"text"`
	}
)

func (singleJob) Kind() string { return singleKind }
func (chainJob) Kind() string  { return chainKind }

// riverSystem is River on PostgreSQL.
type riverSystem struct {
	journal *journal
	server  *postgres
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
}

// startRiver starts PostgreSQL, which lets each commit wait for the disk if fsync.
func startRiver(fsync bool) func(context.Context, settings, *journal) (system, error) {
	return func(ctx context.Context, s settings, j *journal) (system, error) {
		server, err := startPostgres(ctx, fsync)
		if err != nil {
			return nil, err
		}
		r := &riverSystem{journal: j, server: server}
		if err := r.open(ctx, s); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		return r, nil
	}
}

func (r *riverSystem) open(ctx context.Context, s settings) error {
	config, err := pgxpool.ParseConfig(r.server.url())
	if err != nil {
		return err
	}
	config.MaxConns = riverConnections
	if r.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	driver := riverpgxv5.New(r.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: errorsOnly()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[singleJob]) error {
		text, err := r.journal.Work(job.Args.Text)
		if err != nil {
			return err
		}
		return r.journal.End(text)
	}))
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[chainJob]) error {
		text, err := r.journal.Work(job.Args.Text)
		if err != nil {
			return err
		}
		_, step, err := parse(text)
		if err != nil {
			return err
		}
		if step == chainSteps {
			return r.journal.End(text)
		}
		return r.insert(ctx, chainJob{Text: text})
	}))
	r.client, err = river.NewClient(driver, &river.Config{
		FetchCooldown: riverCooldown, FetchPollInterval: riverInterval, Logger: errorsOnly(), Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: s.slots}},
	})
	if err != nil {
		return err
	}
	return r.client.Start(context.WithoutCancel(ctx))
}

func (r *riverSystem) insert(ctx context.Context, job river.JobArgs) error {
	_, err := r.client.Insert(ctx, job, nil)
	return err
}

func (r *riverSystem) Single(ctx context.Context, in string) (string, error) {
	return queued(ctx, r.journal, in, 1, func() error { return r.insert(ctx, singleJob{Text: in}) })
}

func (r *riverSystem) Chain(ctx context.Context, in string) (string, error) {
	return queued(ctx, r.journal, in, chainSteps, func() error { return r.insert(ctx, chainJob{Text: in}) })
}

// Drain waits until all jobs are recorded as completed, which River does for several together.
func (r *riverSystem) Drain(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		var open, failed int
		err := r.pool.QueryRow(ctx, `SELECT
			count(*) FILTER (WHERE state IN ('available', 'running', 'pending', 'scheduled')),
			count(*) FILTER (WHERE state IN ('retryable', 'discarded', 'cancelled')) FROM river_job
			WHERE state <> 'completed'`).Scan(&open, &failed)
		if err != nil {
			return false, fmt.Errorf("river: %w", err)
		}
		if failed > 0 {
			return false, fmt.Errorf("river: %d jobs have failed", failed)
		}
		return open == 0, nil
	})
}

func (r *riverSystem) Versions(ctx context.Context) ([]string, error) {
	var number string
	err := r.pool.QueryRow(ctx, "SHOW server_version").Scan(&number)
	return []string{module("github.com/riverqueue/river"), "PostgreSQL " + number}, err
}

func (r *riverSystem) Close() error {
	var err error
	if r.client != nil {
		err = r.client.Stop(context.Background())
	}
	if r.pool != nil {
		r.pool.Close()
	}
	return errors.Join(err, r.server.close())
}
