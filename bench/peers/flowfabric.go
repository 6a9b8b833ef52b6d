package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// errorsOnly is the logger of all systems that take one.
func errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// fabric is FlowFabric on Valkey.
type fabric struct {
	server        *valkey
	local         *runtime.Local
	single, chain *flow.Definition[string, string]
}

func startFlowFabric(ctx context.Context, s settings, j *journal) (system, error) {
	work := activity.New("work", func(_ context.Context, text string) (string, error) { return j.Work(text) })
	single, err := chainOf("single", work, 1)
	if err != nil {
		return nil, err
	}
	chain, err := chainOf("chain", work, chainSteps)
	if err != nil {
		return nil, err
	}
	server, err := startValkey(s.aof)
	if err != nil {
		return nil, err
	}
	l, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		URL: server.url(), Activities: []activity.Handler{work}, Worker: runtime.WorkerConfig{Concurrency: s.slots},
		Open: runtime.OpenConfig{Logger: errorsOnly()},
	})
	if err != nil {
		return nil, errors.Join(err, server.close())
	}
	return &fabric{server: server, local: l, single: single, chain: chain}, nil
}

func chainOf(
	name string, work *activity.Activity[string, string], steps int,
) (*flow.Definition[string, string], error) {
	f := flow.New[string, string](name)
	ref := f.Input()
	for i := range steps {
		ref = flow.Node(f, fmt.Sprintf("n%d", i), work, ref)
	}
	flow.Return(f, ref)
	return f.Build()
}

func (f *fabric) Single(ctx context.Context, in string) (string, error) {
	return f.run(ctx, f.single, in)
}

func (f *fabric) Chain(ctx context.Context, in string) (string, error) {
	return f.run(ctx, f.chain, in)
}

func (f *fabric) run(ctx context.Context, def *flow.Definition[string, string], in string) (string, error) {
	run, err := runtime.Start(ctx, f.local.Client(), def, in)
	if err != nil {
		return "", err
	}
	return run.Result(ctx)
}

func (f *fabric) Drain(context.Context) error { return nil }

func (f *fabric) Versions(ctx context.Context) ([]string, error) {
	v, err := f.server.version(ctx)
	return []string{"FlowFabric of this tree", v}, err
}

func (f *fabric) Close() error { return errors.Join(f.local.Close(), f.server.close()) }
