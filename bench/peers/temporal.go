package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// temporalModule is the folder of the development server, a separate module because of its many dependencies.
const temporalModule = "temporal"

const temporalQueue = "work"

// kindOfActivity is how functions are executed.
type kindOfActivity int

const (
	// ordinary activities are tasks of the server, started by a workflow.
	ordinary kindOfActivity = iota
	// local activities run in the workflow's own task.
	local
	// standalone activities are tasks of the server without a workflow.
	standalone
)

// buildTemporal builds the development server from its module, unless the flag names one. remove removes it.
func buildTemporal(ctx context.Context, s *settings) (remove func() error, err error) {
	if s.temporal != "" {
		return func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "flowfabric-temporal-")
	if err != nil {
		return nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	s.temporal = filepath.Join(dir, "temporal-server")
	fmt.Fprintln(os.Stderr, "building Temporal's development server, which takes minutes the first time")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", s.temporal, ".")
	cmd.Dir, cmd.Env = temporalModule, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the program of folder %s (run this command in bench/peers): %w\n%s",
			temporalModule, err, out), remove())
	}
	return remove, nil
}

// temporalSystem is Temporal with its development server, which stores everything in memory (SQLite).
type temporalSystem struct {
	kind    kindOfActivity
	process *process
	version string
	client  client.Client
	worker  worker.Worker
}

func startTemporal(kind kindOfActivity) func(context.Context, settings, *journal) (system, error) {
	return func(ctx context.Context, s settings, j *journal) (system, error) {
		t := &temporalSystem{kind: kind}
		if err := t.open(ctx, s, j); err != nil {
			return nil, errors.Join(err, t.Close())
		}
		return t, nil
	}
}

func (t *temporalSystem) open(ctx context.Context, s settings, j *journal) error {
	cmd := exec.Command(s.temporal)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if t.process, err = startProcess(cmd, os.Interrupt); err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return fmt.Errorf("temporal: the server does not say where it listens: %w", err)
	}
	address, version, _ := strings.Cut(strings.TrimSpace(line), " ")
	t.version = version
	t.client, err = client.DialContext(ctx, client.Options{
		HostPort: address, Logger: log.NewStructuredLogger(errorsOnly()),
	})
	if err != nil {
		return fmt.Errorf("temporal: %w", err)
	}
	// The number of open requests for tasks follows the load, as Temporal's documentation recommends; two are the
	// default.
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	t.worker = worker.New(t.client, temporalQueue, worker.Options{
		MaxConcurrentActivityExecutionSize: s.slots, MaxConcurrentLocalActivityExecutionSize: s.slots,
		ActivityTaskPollerBehavior: pollers, WorkflowTaskPollerBehavior: pollers,
	})
	t.register(j)
	return t.worker.Start()
}

func (t *temporalSystem) register(j *journal) {
	work := func(_ context.Context, text string) (string, error) { return j.Work(text) }
	t.worker.RegisterActivityWithOptions(work, activity.RegisterOptions{Name: "work"})
	step := func(ctx workflow.Context, text string) workflow.Future {
		if t.kind == local {
			ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: waitAtMost})
			return workflow.ExecuteLocalActivity(ctx, work, text)
		}
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: waitAtMost})
		return workflow.ExecuteActivity(ctx, "work", text)
	}
	for name, steps := range map[string]int{singleKind: 1, chainKind: chainSteps} {
		t.worker.RegisterWorkflowWithOptions(func(ctx workflow.Context, text string) (string, error) {
			for range steps {
				if err := step(ctx, text).Get(ctx, &text); err != nil {
					return "", err
				}
			}
			return text, nil
		}, workflow.RegisterOptions{Name: name})
	}
}

func (t *temporalSystem) Single(ctx context.Context, in string) (string, error) {
	if t.kind == standalone {
		return t.activity(ctx, in)
	}
	return t.workflow(ctx, singleKind, in)
}

func (t *temporalSystem) Chain(ctx context.Context, in string) (string, error) {
	return t.workflow(ctx, chainKind, in)
}

func (t *temporalSystem) workflow(ctx context.Context, kind, in string) (out string, err error) {
	id, _, err := parse(in)
	if err != nil {
		return "", err
	}
	run, err := t.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: fmt.Sprint(kind, id), TaskQueue: temporalQueue, EnableEagerStart: true,
	}, kind, in)
	if err != nil {
		return "", err
	}
	err = run.Get(ctx, &out)
	return out, err
}

func (t *temporalSystem) activity(ctx context.Context, in string) (out string, err error) {
	id, _, err := parse(in)
	if err != nil {
		return "", err
	}
	handle, err := t.client.ExecuteActivity(ctx, client.StartActivityOptions{
		ID: fmt.Sprint(id), TaskQueue: temporalQueue, StartToCloseTimeout: waitAtMost,
	}, "work", in)
	if err != nil {
		return "", err
	}
	err = handle.Get(ctx, &out)
	return out, err
}

func (t *temporalSystem) Drain(context.Context) error { return nil }

func (t *temporalSystem) Versions(context.Context) ([]string, error) {
	return []string{module("go.temporal.io/sdk"), "Temporal server " + t.version}, nil
}

func (t *temporalSystem) Close() error {
	if t.worker != nil {
		t.worker.Stop()
	}
	if t.client != nil {
		t.client.Close()
	}
	if t.process == nil {
		return nil
	}
	return t.process.stop(10 * time.Second)
}
