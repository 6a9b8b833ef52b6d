package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/contract"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/demo"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
	"github.com/flowfabric/flowfabric-go/server/prometheus"
)

// engineURL returns where the engine is that a command serves.
func (a *App) engineURL() (connect.Where, error) {
	where, err := a.where()
	if err != nil {
		return where, err
	}
	if where.IsServer() {
		return where, usage("needs an engine, got the server %s", where.URL)
	}
	return where, nil
}

func (a *App) devCommand() *cobra.Command {
	var listen, data string
	var samples bool
	var hosts []string
	c := a.standalone(spec{
		use:   "dev",
		short: "Serve an engine in this process, with a keeper, the console and the HTTP API",
		long: "Serves an embedded engine with a keeper, the console and the HTTP API, and prints the address. The " +
			"data is in memory, or in the directory of --data. --demo adds sample flows, a run of each and a " +
			"worker for them.",
		example: "  flowfabric dev --demo\n  flowfabric dev --data ./data --listen localhost:8080",
		check: func([]string) error {
			if data != "" && a.flags.url != "" {
				return errors.New("--url and --data exclude each other")
			}
			return nil
		},
		do: func(r *request) error {
			where := connect.Where{URL: a.flags.url, Prefix: a.flags.prefix, Namespace: a.flags.namespace}
			if where.IsServer() {
				return usage("dev: needs an engine, got the server %s", where.URL)
			}
			if data != "" {
				where.URL = "embedded:" + data
			}
			d := deployment{where: where, listen: listen, keeper: true, create: true, demo: samples}
			d.config.AllowedHosts = hosts
			return d.run(r)
		},
	})
	c.Flags().StringVar(&listen, "listen", "localhost:8080", "the address of the console and the HTTP API")
	allowedHosts(c.Flags(), &hosts)
	c.Flags().StringVar(&data, "data", "", "the `directory` of the engine; in memory without one")
	c.Flags().BoolVar(&samples, "demo", false, "publish sample flows, and run a worker for them")
	return c
}

// deployment is an engine with a server, a keeper and the sample flows that run with it.
type deployment struct {
	where          connect.Where
	listen         string
	keeper, create bool
	demo           bool
	config         server.Config
	partitions     int
	secret         runtime.WaitpointSecret
	replicas       int
	lanes          []string // for the keeper
}

// serving is the output of a command that serves.
type serving struct {
	URL    string `json:"url,omitempty"`
	Engine string `json:"engine"`
}

// run serves until the context ends.
func (d *deployment) run(r *request) (err error) {
	exporter, err := prometheus.New()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, exporter.Close(context.WithoutCancel(r))) }()
	engine, err := runtime.Open(r, d.where.URL, runtime.OpenConfig{
		Prefix: d.where.Prefix, Namespace: d.where.Namespace, MustExist: !d.create,
		MeterProvider: exporter.MeterProvider(), Partitions: d.partitions, WaitpointSecret: d.secret,
		Replication: runtime.Replication{Replicas: d.replicas}, Backend: contract.Backend(contract.Config{}),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	d.config.MeterProvider, d.config.Metrics = exporter.MeterProvider(), exporter.Handler()
	d.config.ReportLanes = !d.keeper // keepers do
	d.config.Engine, d.config.Namespace = engine, d.where.Namespace
	d.config.EngineName, d.config.Version = connect.EngineName(d.where.URL), connect.Version()
	srv, err := server.New(d.config)
	if err != nil {
		return err
	}
	defer srv.Close()
	keeper, err := runtime.NewKeeper(engine, runtime.KeeperConfig{Lanes: d.lanes})
	if err != nil {
		return err
	}
	if d.demo {
		if err := demo.Publish(r, engine); err != nil {
			return err
		}
	}
	listener, err := srv.Listen(d.listen)
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(r.Context)
	running.Go(func() error { return srv.Serve(ctx, listener) })
	if d.keeper {
		running.Go(func() error { return goneWith(ctx, keeper.Run(ctx)) })
	}
	if d.demo {
		running.Go(func() error { return goneWith(ctx, demo.Work(ctx, engine)) })
	}
	scheme := "http"
	if d.config.TLSConfig != nil {
		scheme = "https"
	}
	address := scheme + "://" + listener.Addr().String()
	if err := r.out.Value(serving{address, d.config.EngineName}, address, address); err != nil {
		slog.WarnContext(ctx, "the address could not be printed", "error", err)
	}
	return running.Wait()
}

// goneWith turns the end of a context into success.
func goneWith(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (a *App) keeperCommand() *cobra.Command {
	var where connect.Where
	var lanes []string
	c := a.standalone(spec{
		use: "keeper", short: "Run a keeper of an engine: due times, repair, retention",
		check: func([]string) (err error) {
			if where, err = a.engineURL(); err == nil {
				err = where.Check()
			}
			return err
		},
		do: func(r *request) (err error) {
			engine, err := runtime.Open(r, where.URL, runtime.OpenConfig{
				Prefix: where.Prefix, Namespace: where.Namespace, MustExist: true,
				Backend: contract.Backend(contract.Config{}),
			})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, engine.Close()) }()
			keeper, err := runtime.NewKeeper(engine, runtime.KeeperConfig{Lanes: lanes})
			if err != nil {
				return err
			}
			name := connect.EngineName(where.URL)
			if err := r.out.Value(serving{Engine: name}, name,
				fmt.Sprintf("a keeper runs for the engine (%s)", name)); err != nil {
				return err
			}
			return goneWith(r, keeper.Run(r))
		},
	})
	keeperLanes(c.Flags(), &lanes)
	c.AddCommand(a.keeperTasks(), a.keeperRun())
	return c
}
