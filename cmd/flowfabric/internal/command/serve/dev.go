package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/demo"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/rebuild"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// engineAddress is where the engine of flowfabric dev listens by default.
const engineAddress = "127.0.0.1:6380"

// development has the parts of flowfabric dev that a server lacks.
type development struct {
	where  connect.Where
	listen string // of the engine; empty for none
	demo   bool
	watch  string // the package of a program to run; empty for none
}

func Dev(a *shell.App) *cobra.Command {
	var listen, data string
	var hosts []string
	var dev development
	var c *cobra.Command
	c = a.Standalone(shell.Spec{
		Use:   "dev",
		Short: "Serve an engine in this process, with a keeper, the console and the HTTP API",
		Long: "Serves an embedded engine with a keeper, the console and the HTTP API, and prints their addresses. Your workers " +
			"and clients connect to the engine by the printed FLOWFABRIC_URL. The data is in memory, or in the directory of " +
			"--data. --demo adds sample flows with runs, and a worker for them. --watch builds and runs your program with " +
			"FLOWFABRIC_URL set, and again when one of its Go files changes; while it does not build, the program of before " +
			"keeps running.",
		Example: "  flowfabric dev --demo\n  flowfabric dev --watch ./cmd/worker\n  flowfabric dev --data ./data --listen localhost:8081 --engine-listen off",
		Check: func([]string) error {
			if dev.listen == "off" {
				dev.listen = ""
			}
			switch embedded := a.Flags.URL == "" || strings.HasPrefix(a.Flags.URL, "embedded:"); {
			case data != "" && a.Flags.URL != "":
				return errors.New("--url and --data exclude each other")
			case !embedded && c.Flags().Changed("engine-listen") && dev.listen != "":
				return errors.New("--engine-listen is for an embedded engine: others connect to the server of --url")
			case !embedded:
				dev.listen = ""
			case dev.listen == "" && dev.watch != "":
				return errors.New("--watch needs --engine-listen, by which the program reaches the engine")
			}
			return nil
		},
		Do: func(r *shell.Request) error {
			dev.where = connect.Where{URL: a.Flags.URL, Prefix: a.Flags.Prefix, Namespace: a.Flags.Namespace}
			if dev.where.IsServer() {
				return shell.Usage("dev: needs an engine, got the server %s", dev.where.URL)
			}
			if data != "" {
				dev.where.URL = "embedded:" + data
			}
			d := deployment{where: dev.where, listen: listen, keeper: true, create: true, dev: &dev}
			d.config.AllowedHosts = hosts
			return d.run(r)
		},
	})
	flags := c.Flags()
	flags.StringVar(&listen, "listen", "localhost:8080", "the address of the console and the HTTP API")
	flags.StringVar(&dev.listen, "engine-listen", engineAddress,
		"the loopback `address` at which workers and clients reach the engine; off for none")
	allowedHosts(flags, &hosts)
	flags.StringVar(&data, "data", "", "the `directory` of the engine; in memory without one")
	flags.BoolVar(&dev.demo, "demo", false, "add sample flows with runs, and run a worker for them")
	flags.StringVar(&dev.watch, "watch", "", "build and run the program of this `package`, and again when its sources change")
	return c
}

// join runs the parts of the development server together with the others, adds the URL of the engine to the output, and
// returns its text.
func (d *development) join(
	ctx context.Context, running *errgroup.Group, engine *runtime.Engine, r *shell.Request, out *serving,
) (string, error) {
	// The program ends before the engine, to which it reports the ends of its tasks.
	listening, deafen := context.WithCancel(context.WithoutCancel(ctx))
	over, watches := make(chan struct{}), false
	defer func() {
		if !watches {
			close(over)
		}
	}()
	running.Go(func() error {
		<-ctx.Done()
		<-over
		deafen()
		return nil
	})
	if err := d.serveEngine(listening, running, engine, out); err != nil {
		return "", err
	}
	lines := []string{"Console   " + out.URL}
	if out.EngineURL != "" {
		note := "for your workers and clients"
		if d.where.Prefix != "" {
			note += fmt.Sprintf(", which set OpenConfig.Prefix %q", d.where.Prefix)
		}
		lines = append(lines, fmt.Sprintf("Engine    export FLOWFABRIC_URL=%s   # %s", out.EngineURL, note))
	}
	if d.demo {
		sample, err := demo.Open(ctx, engine)
		if err != nil {
			return "", err
		}
		running.Go(func() error { return goneWith(ctx, sample.Run(ctx)) })
		select {
		case <-sample.Ready(): // so that the log of the first runs comes before the text
		case <-ctx.Done():
		}
		command := "flowfabric"
		if out.URL != shell.LocalServer {
			command += " --url " + out.URL
		}
		lines = append(lines, "Try       "+command+" "+demo.Try)
	}
	if d.watch != "" {
		url := out.EngineURL
		if engine.Embedded() == nil {
			url = d.where.URL
		}
		loop := rebuild.Loop{
			Package: d.watch, Env: []string{"FLOWFABRIC_URL=" + url}, Stdout: r.Stdout, Stderr: r.Stderr, Say: r.Note,
		}
		watches = true
		running.Go(func() error {
			defer close(over)
			return loop.Run(ctx)
		})
		lines = append(lines, "Watch     "+d.watch+" is built and run, and again when its sources change")
	}
	return strings.Join(lines, "\n"), nil
}

// serveEngine lets other processes of the machine reach the engine.
func (d *development) serveEngine(
	ctx context.Context, running *errgroup.Group, engine *runtime.Engine, out *serving,
) error {
	embedded := engine.Embedded()
	if embedded == nil {
		out.EngineURL = connect.ShownURL(d.where.URL)
		return nil
	}
	if d.listen == "" {
		return nil
	}
	listener, err := net.Listen("tcp", d.listen)
	if err != nil {
		return notListening("engine-listen", d.listen, err)
	}
	if at, err := netip.ParseAddrPort(listener.Addr().String()); err != nil || !at.Addr().Unmap().IsLoopback() {
		_ = listener.Close()
		return shell.Usage("dev: --engine-listen %s: must be a loopback address, since the engine has no login", d.listen)
	}
	out.EngineURL = "valkey://" + shownAddress(d.listen, listener.Addr())
	if _, query, found := strings.Cut(d.where.URL, "?"); found && strings.Contains(query, "contract=15") {
		out.EngineURL += "?contract=15"
	}
	running.Go(func() error { return goneWith(ctx, embedded.Serve(ctx, listener)) })
	return nil
}
