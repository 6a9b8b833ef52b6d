package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
	"github.com/flowfabric/flowfabric-go/server/prometheus"
)

// adminTokenVariable is the environment variable with the token that has all rights.
const adminTokenVariable = "FLOWFABRIC_ADMIN_TOKEN"

// programVersion is the version of this program by its build information.
func programVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

// prepareDev serves an embedded engine.
func prepareDev(where location) func(*flag.FlagSet) action {
	return func(flags *flag.FlagSet) action {
		listen := flags.String("listen", "localhost:8080", "the address of the console and the HTTP API")
		data := flags.String("data", "", "the `directory` of the engine; in memory without one")
		demo := flags.Bool("demo", false, "publish sample flows, and run a worker for them")
		check := need(nil, func() error {
			if where.url != "" && *data != "" {
				return fmt.Errorf("%w: give either -url or -data", errUsage)
			}
			return nil
		})
		return action{check, func(ctx context.Context, _ *session, out *output, _ []string) error {
			d := deployment{where: where, url: where.url, listen: *listen, keeper: true, create: true, demo: *demo}
			if *data != "" {
				d.url = "embedded:" + *data
			}
			return d.run(ctx, out)
		}}
	}
}

// prepareServer serves an engine that others work with.
func prepareServer(where location) func(*flag.FlagSet) action {
	return func(flags *flag.FlagSet) action {
		d := deployment{where: where, url: where.url}
		flags.StringVar(&d.listen, "listen", "localhost:8080", "the address of the HTTP API")
		flags.BoolVar(&d.keeper, "keeper", false, "run a keeper, too")
		flags.BoolVar(&d.config.ReadOnly, "read-only", false, "refuse what changes anything")
		flags.BoolVar(
			&d.config.Tokens,
			"tokens",
			false,
			"principals log in with tokens of flowfabric token create; one in "+adminTokenVariable+" has all rights",
		)
		flags.StringVar(&d.config.BasePath, "base-path", "", "the `path` under which a proxy shows the server, such as /flow")
		logins := flags.String("logins", "",
			"the `file` of logins by OpenID Connect, certificates and a proxy, in JSON")
		cert := flags.String("tls-cert", "", "the `file` of the certificate; serves HTTPS")
		key := flags.String("tls-key", "", "the `file` of its key")
		clientCA := flags.String("client-ca", "",
			"the `file` of the authorities of client certificates; owners are admins unless -logins says more")
		check := need(nil, func() error {
			switch {
			case where.url == "":
				return fmt.Errorf("%w: no engine is named: give -url or set FLOWFABRIC_URL; flowfabric dev needs none",
					errUsage)
			case (*cert == "") != (*key == ""), *clientCA != "" && *cert == "":
				return fmt.Errorf("%w: -tls-cert and -tls-key belong together, and -client-ca needs both", errUsage)
			}
			return nil
		})
		return action{check, func(ctx context.Context, _ *session, out *output, _ []string) error {
			d.config.AdminToken = os.Getenv(adminTokenVariable)
			if *cert != "" {
				var err error
				if d.config.TLSConfig, err = tlsConfig(*cert, *key, *clientCA); err != nil {
					return err
				}
			}
			if *logins != "" {
				if err := d.config.ReadLogins(*logins); err != nil {
					return asConfigFault(err)
				}
			}
			if *clientCA != "" && d.config.Certificates == nil {
				d.config.Certificates = []server.Grant{{Match: "*", Role: api.Admin}}
			}
			return d.run(ctx, out)
		}}
	}
}

// asConfigFault marks a file that cannot be used as a fault of the command line.
func asConfigFault(err error) error {
	if errors.Is(err, server.ErrInvalid) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return err
}

func tlsConfig(cert, key, clientCA string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(clientCA)
	if err != nil {
		return nil, err
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: -client-ca %s: has no certificate", errUsage, clientCA)
	}
	return config, nil
}

// deployment is an engine with a server and what runs beside it.
type deployment struct {
	where          location
	url, listen    string
	keeper, create bool
	demo           bool
	config         server.Config
}

// run serves until the context ends.
func (d *deployment) run(ctx context.Context, out *output) (err error) {
	exporter, err := prometheus.New()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, exporter.Close(context.WithoutCancel(ctx))) }()
	engine, err := runtime.Open(ctx, d.url, runtime.OpenConfig{
		Prefix: d.where.prefix, Namespace: d.where.namespace, MustExist: !d.create,
		MeterProvider: exporter.MeterProvider(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	d.config.MeterProvider, d.config.Metrics = exporter.MeterProvider(), exporter.Handler()
	d.config.ReportLanes = !d.keeper // keepers do
	d.config.Engine, d.config.Namespace = engine, d.where.namespace
	d.config.EngineName, d.config.Version = engineName(d.url), programVersion()
	srv, err := server.New(d.config)
	if err != nil {
		return err
	}
	defer srv.Close()
	listener, err := srv.Listen(d.listen)
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return srv.Serve(ctx, listener) })
	if d.keeper {
		keeper, err := runtime.NewKeeper(engine, runtime.KeeperConfig{})
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		running.Go(func() error { return ended(ctx, keeper.Run(ctx)) })
	}
	if d.demo {
		running.Go(func() error { return ended(ctx, runDemo(ctx, engine)) })
	}
	scheme := "http"
	if d.config.TLSConfig != nil {
		scheme = "https"
	}
	address := scheme + "://" + listener.Addr().String()
	out.row(map[string]string{"url": address, "engine": d.config.EngineName}, address)
	if err := out.flush(); err != nil {
		slog.WarnContext(ctx, "the address could not be printed", "error", err)
	}
	return running.Wait()
}

// ended turns the end of a context into success.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// engineName is how a server names its engine: without address and password.
func engineName(address string) string {
	if address == "" {
		return "in memory"
	}
	if scheme, _, found := strings.Cut(address, ":"); found {
		return scheme
	}
	if u, err := url.Parse(address); err == nil {
		return cmp.Or(u.Scheme, "unknown")
	}
	return "unknown"
}
