package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	backendredis "github.com/cschleiden/go-workflows/backend/redis"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/registry"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
	"github.com/redis/go-redis/v9"
)

const (
	// workflowPollers fetch tasks one by one, each on a separate connection; the library starts two by default.
	workflowPollers = 16
	// workflowCache is how many workflows a worker keeps in memory. It is more than are open; the default is 128.
	workflowCache = 1024
	// waitAtMost is how long a client waits for one run.
	waitAtMost = time.Minute
)

// goWorkflows is go-workflows on Valkey.
type goWorkflows struct {
	server  *valkey
	backend backend.Backend
	client  *client.Client
	worker  *worker.Worker
	stop    context.CancelFunc
}

func startGoWorkflows(_ context.Context, s settings, j *journal) (system, error) {
	server, err := startValkey(s.aof)
	if err != nil {
		return nil, err
	}
	connection := redis.NewClient(&redis.Options{Addr: server.addr, PoolSize: clients + 4*workflowPollers})
	b, err := backendredis.NewRedisBackend(connection,
		backendredis.WithBackendOptions(backend.WithLogger(errorsOnly())))
	if err != nil {
		return nil, errors.Join(err, connection.Close(), server.close())
	}
	options := worker.DefaultOptions
	options.WorkflowPollers, options.ActivityPollers = workflowPollers, workflowPollers
	options.WorkflowPollingInterval, options.ActivityPollingInterval = 0, 0 // the backend blocks until there is work
	options.WorkflowExecutorCacheSize = workflowCache
	options.MaxParallelActivityTasks = s.slots
	running, stop := context.WithCancel(context.Background())
	g := &goWorkflows{server: server, backend: b, client: client.New(b), worker: worker.New(b, &options), stop: stop}
	work := func(_ context.Context, text string) (string, error) { return j.Work(text) }
	steps := func(n int) func(workflow.Context, string) (string, error) {
		return func(ctx workflow.Context, text string) (string, error) {
			for range n {
				var err error
				done := workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, "work", text)
				text, err = done.Get(ctx)
				if err != nil {
					return "", err
				}
			}
			return text, nil
		}
	}
	err = errors.Join(
		g.worker.RegisterActivity(work, registry.WithName("work")),
		g.worker.RegisterWorkflow(steps(1), registry.WithName(singleKind)),
		g.worker.RegisterWorkflow(steps(chainSteps), registry.WithName(chainKind)),
	)
	if err == nil {
		err = g.worker.Start(running)
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, b.Close(), server.close())
	}
	return g, nil
}

func (g *goWorkflows) Single(ctx context.Context, in string) (string, error) {
	return g.run(ctx, singleKind, in)
}

func (g *goWorkflows) Chain(ctx context.Context, in string) (string, error) {
	return g.run(ctx, chainKind, in)
}

func (g *goWorkflows) run(ctx context.Context, kind, in string) (string, error) {
	run, _, err := parse(in)
	if err != nil {
		return "", err
	}
	options := client.WorkflowInstanceOptions{InstanceID: fmt.Sprint(run)}
	instance, err := g.client.CreateWorkflowInstance(ctx, options, kind, in)
	if err != nil {
		return "", err
	}
	return client.GetWorkflowResult[string](ctx, g.client, instance, waitAtMost)
}

func (g *goWorkflows) Drain(context.Context) error { return nil }

func (g *goWorkflows) Versions(ctx context.Context) ([]string, error) {
	v, err := g.server.version(ctx)
	return []string{module("github.com/cschleiden/go-workflows"), v}, err
}

func (g *goWorkflows) Close() error {
	g.stop()
	return errors.Join(g.worker.WaitForCompletion(), g.backend.Close(), g.server.close())
}
