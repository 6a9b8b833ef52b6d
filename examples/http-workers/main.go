package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

const address = "localhost:8080"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// run serves the flow until the context ends.
func run(ctx context.Context) (err error) {
	engine, err := runtime.Open(ctx, os.Getenv("FLOWFABRIC_URL"), runtime.OpenConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if err := publishFlow(ctx, engine); err != nil {
		return err
	}
	keeper, err := runtime.NewKeeper(engine, runtime.KeeperConfig{})
	if err != nil {
		return err
	}
	s, err := server.New(server.Config{Engine: engine})
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Printf("serving http://%s; start a worker:\n  FLOWFABRIC_SERVER=http://%[1]s python3 worker.py\n", address)
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return keeper.Run(ctx) })
	running.Go(func() error { return s.Run(ctx, address) })
	return running.Wait()
}

// publishFlow lets clients start the flow by its name.
func publishFlow(ctx context.Context, engine *runtime.Engine) error {
	definition, err := report()
	if err != nil {
		return err
	}
	client, err := runtime.NewClient(engine)
	if err != nil {
		return err
	}
	return client.Publish(ctx, runtime.Publication{Flow: definition})
}
