package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// engineURL is the note with the address of the engine in the directory of a site.
const engineURL = "engine.url"

// patienceForEngine is how long a process waits for another one that has just taken the engine, or is about to leave
// it.
const patienceForEngine = 3 * time.Second

// openEngine opens the engine named by the options: a server, or the embedded engine in the site's directory. The first
// process runs the embedded engine; later processes reach it at the address that the first has stored.
func openEngine(ctx context.Context, o options, stderr io.Writer) (*runtime.Engine, error) {
	level := slog.LevelError
	if o.verbose {
		level = slog.LevelDebug
	}
	config := runtime.OpenConfig{
		Logger:  slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
		Backend: contract.Backend(contract.Config{}),
	}
	if o.engine != "" {
		engine, err := runtime.Open(ctx, o.engine, config)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.engineOrigin, err)
		}
		return engine, nil
	}
	if err := os.MkdirAll(string(o.site), 0o755); err != nil {
		return nil, fmt.Errorf("-dir: %w", err)
	}
	begun := time.Now()
	for {
		engine, err := runtime.Open(ctx, "embedded:"+o.site.path("engine"), config)
		if !errors.Is(err, embedded.ErrLocked) {
			return engine, err
		}
		if url, noteErr := o.site.noted(engineURL); noteErr == nil && url != "" {
			if engine, err = runtime.Open(ctx, url, config); err == nil {
				return engine, nil
			}
		}
		if time.Since(begun) > patienceForEngine {
			return nil, fmt.Errorf("another process has the engine of %s and lets nobody in: %w", o.site, err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// withEngine opens the engine and a client of it for the time of use.
func withEngine(ctx context.Context, p program, o options, use func(*runtime.Engine, *runtime.Client) error) error {
	engine, err := openEngine(ctx, o, p.stderr)
	if err != nil {
		return err
	}
	client, err := runtime.NewClient(engine)
	if err == nil {
		err = use(engine, client)
		client.Close()
	}
	return errors.Join(err, engine.Close())
}

// withClient is withEngine for functions that need the client only.
func withClient(ctx context.Context, p program, o options, use func(*runtime.Client) error) error {
	return withEngine(ctx, p, o, func(_ *runtime.Engine, client *runtime.Client) error { return use(client) })
}

// share lets other processes reach the engine, if it is in this one, until ctx ends. It has no authentication, so it
// listens on this machine only.
func share(ctx context.Context, engine *runtime.Engine, o options) error {
	if engine.Embedded() == nil || o.listen == "" {
		return nil
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	if err := o.site.note(engineURL, "redis://"+listener.Addr().String()); err != nil {
		return errors.Join(err, listener.Close())
	}
	err = engine.Embedded().Serve(ctx, listener)
	return errors.Join(err, o.site.note(engineURL, ""))
}

// loopback returns an error for an address that other machines could reach.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q is not an address of this machine only, such as 127.0.0.1:0", address)
	}
	return nil
}
