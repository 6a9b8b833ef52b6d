package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
	"github.com/flowfabric/flowfabric-go/server/prometheus"
)

// engineURL returns where the engine is that a command serves.
func engineURL(a *shell.App) (connect.Where, error) {
	where, err := a.Where()
	if err != nil {
		return where, err
	}
	if where.IsServer() {
		return where, shell.Usage("needs an engine, got the server %s", where.URL)
	}
	return where, nil
}

// deployment is an engine with a server, a keeper and the sample flows that run with it.
type deployment struct {
	where          connect.Where
	listen         string
	keeper, create bool
	dev            *development // nil for a server
	config         server.Config
	partitions     int
	secret         enginecore.WaitpointSecret
	replicas       int
	lanes          []string // for the keeper
}

// serving is the output of a command that serves.
type serving struct {
	URL    string `json:"url,omitempty"`
	Engine string `json:"engine"`
	// EngineURL is for the workers and clients of flowfabric dev.
	EngineURL string `json:"engine_url,omitempty"`
}

// run serves until the context ends.
func (d *deployment) run(r *shell.Request) (err error) {
	exporter, err := prometheus.New()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, exporter.Close(context.WithoutCancel(r))) }()
	engine, err := runtime.Open(r, d.where.URL, runtime.OpenConfig{
		Prefix: d.where.Prefix, Namespace: d.where.Namespace, MustExist: !d.create,
		MeterProvider: exporter.MeterProvider(), Partitions: d.partitions, WaitpointSecret: d.secret,
		Replication: runtime.Replication{Replicas: d.replicas}, Backend: contract.Backend(contract.Config{}),
		AllowVolatile: d.dev != nil, // a development engine is in memory on purpose
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
	listener, err := srv.Listen(d.listen)
	if err != nil {
		return notListening("listen", d.listen, err)
	}
	until, stop := context.WithCancel(r.Context)
	defer stop()
	running, ctx := errgroup.WithContext(until)
	running.Go(func() error { return srv.Serve(ctx, listener) })
	if d.keeper {
		running.Go(func() error { return goneWith(ctx, keeper.Run(ctx)) })
	}
	scheme := "http"
	if d.config.TLSConfig != nil {
		scheme = "https"
	}
	out := serving{URL: scheme + "://" + shownAddress(d.listen, listener.Addr()), Engine: d.config.EngineName}
	text := out.URL
	if d.dev != nil {
		if text, err = d.dev.join(ctx, running, engine, r, &out); err != nil {
			stop()
			return errors.Join(err, running.Wait())
		}
	}
	if err := r.Out.Value(out, out.URL, text); err != nil {
		slog.WarnContext(ctx, "the address could not be printed", "error", err)
	}
	return running.Wait()
}

// notListening is the error of an address that cannot be listened on, with the flag that names it.
func notListening(flag, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--%s %s: another program has this port, perhaps another flowfabric dev: name another port: %w", flag,
			address, err)
	}
	return fmt.Errorf("--%s %s: %w", flag, address, err)
}

// shownAddress is an address with the port on which a listener is, for people.
func shownAddress(given string, on net.Addr) string {
	host, _, err := net.SplitHostPort(given)
	_, port, portErr := net.SplitHostPort(on.String())
	if err != nil || portErr != nil || host != "localhost" && host != "127.0.0.1" {
		return on.String()
	}
	return net.JoinHostPort("localhost", port)
}

// goneWith turns the end of a context into success.
func goneWith(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func Keeper(a *shell.App) *cobra.Command {
	var where connect.Where
	var lanes []string
	c := a.Standalone(shell.Spec{
		Use: "keeper", Short: "Run a keeper of an engine: due times, repair, retention",
		Check: func([]string) (err error) {
			if where, err = engineURL(a); err == nil {
				err = where.Check()
			}
			return err
		},
		Do: func(r *shell.Request) (err error) {
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
			if err := r.Out.Value(serving{Engine: name}, name,
				fmt.Sprintf("a keeper runs for the engine (%s)", name)); err != nil {
				return err
			}
			return goneWith(r, keeper.Run(r))
		},
	})
	keeperLanes(c.Flags(), &lanes)
	c.AddCommand(keeperTasks(a), keeperRun(a))
	return c
}

var taskView = output.View[api.KeeperTask]{
	Name: func(t api.KeeperTask) string { return t.Name },
	Columns: []output.Column[api.KeeperTask]{
		{Name: "task", Text: func(t api.KeeperTask) string { return t.Name }},
		{Name: "every", Text: func(t api.KeeperTask) string { return t.Every.String() }},
		{Name: "behind", Text: func(t api.KeeperTask) string {
			if t.Lag == nil {
				return ""
			}
			return t.Lag.Behind.Round(time.Millisecond).String()
		}},
		{Name: "summary", Text: func(t api.KeeperTask) string { return t.Summary }},
	},
}

func keeperTasks(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "tasks", Short: "Show the tasks of keepers", Calls: []httpapi.Entry{httpapi.ListKeeperTasks},
		Columns: taskView.ColumnNames(),
		Do: func(r *shell.Request) error {
			tasks, err := shell.Call(r, httpapi.ListKeeperTasks, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.Out, taskView, tasks.Items)
		},
	})
}

func keeperRun(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "run TASK", Short: "Carry out a task of keepers now", Calls: []httpapi.Entry{httpapi.RunKeeperTask},
		Do: func(r *shell.Request) error {
			report, err := shell.Call(r, httpapi.RunKeeperTask, httpapi.KeeperTaskInput{Task: r.Args[0]})
			if err != nil {
				return err
			}
			text := fmt.Sprintf("done %d, partitions %d, remaining %d", report.Done, report.Partitions,
				report.Remaining)
			if len(report.Repaired) > 0 {
				text += ", repaired " + wording.Compact(report.Repaired)
			}
			return r.Out.Value(report, report.Task,
				text)
		},
	})
}
