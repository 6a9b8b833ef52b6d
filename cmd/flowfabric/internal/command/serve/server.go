package serve

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/mcpserver"
	"github.com/flowfabric/flowfabric-go/server"
)

// AdminTokenVariable is the environment variable with the token that has all rights.
const AdminTokenVariable = "FLOWFABRIC_ADMIN_TOKEN"

// serverFlags are the flags of the command that serves an engine, without the flags that it sets in the deployment.
type serverFlags struct{ cert, key, clientCA, logins string }

func Server(a *shell.App) *cobra.Command {
	d := deployment{}
	var f serverFlags
	var c *cobra.Command
	c = a.Standalone(shell.Spec{
		Use: "server", Short: "Serve the console and the HTTP API of an engine",
		Long: "Serves the console and the HTTP API of an engine. The environment variables of other FlowFabric servers " +
			"(FF_HOST, FF_PORT, FF_TLS, FF_CLUSTER, FF_LISTEN_ADDR, FF_FLOW_PARTITIONS, FF_LANES, FF_API_TOKEN, FF_CORS_ORIGINS, " +
			"FF_MAX_CONCURRENT_STREAM_OPS, FF_WAITPOINT_HMAC_SECRET and FF_WAITPOINT_HMAC_GRACE_MS) count where no flag " +
			"says otherwise.",
		Example: "  flowfabric server --url valkey://host:6379 --tokens --keeper --listen :8080",
		Check:   func([]string) error { return checkServer(a, &d, f, c.Flags().Changed("listen")) },
		Do: func(r *shell.Request) error {
			if err := readServerConfig(a, &d, f); err != nil {
				return err
			}
			return d.run(r)
		},
	})
	flags := c.Flags()
	flags.StringVar(&d.listen, "listen", "localhost:8080", "the address of the console and the HTTP API")
	flags.BoolVar(&d.keeper, "keeper", false, "run a keeper, too")
	keeperLanes(flags, &d.lanes)
	flags.BoolVar(&d.config.ReadOnly, "read-only", false, "refuse all changes")
	flags.BoolVar(&d.config.NoConsole, "no-console", false, "leave the pages of the console out")
	flags.BoolVar(&d.config.Tokens, "tokens", false,
		"principals log in with tokens of flowfabric token create; one in "+AdminTokenVariable+" has all rights")
	flags.StringVar(&d.config.BasePath, "base-path", "", "the `path` under which a proxy shows the server, such as /flow")
	allowedHosts(flags, &d.config.AllowedHosts)
	flags.StringSliceVar(&d.config.PushTo, "push-to", nil,
		"the `origins`, such as https://workers.example.com, to which tasks are sent for workers that register there")
	flags.IntVar(&d.replicas, "replicas", 0, "how many replicas must acknowledge the writes of a call before its reply")
	flags.StringVar(&f.logins, "logins", "", "the `file` of logins by OpenID Connect, certificates and a proxy, in JSON")
	flags.StringVar(&f.cert, "tls-cert", "", "the `file` of the certificate; serves HTTPS")
	flags.StringVar(&f.key, "tls-key", "", "the `file` of its key")
	flags.StringVar(&f.clientCA, "client-ca", "",
		"the `file` of the authorities of client certificates; owners are admins unless --logins defines roles")
	return c
}

// keeperLanes adds the flag with lanes that a keeper is to serve.
func keeperLanes(flags *pflag.FlagSet, lanes *[]string) {
	flags.StringSliceVar(lanes, "lanes", nil,
		"the `names` of lanes that only other programs use, for the keeper to serve in addition to known lanes")
}

// allowedHosts adds the flag with the hosts for which a server answers.
func allowedHosts(flags *pflag.FlagSet, hosts *[]string) {
	flags.StringSliceVar(hosts, "allowed-hosts", nil,
		"the `names`, such as flows.example.com, by which clients reach the server, in addition to localhost and "+
			"addresses; with a login all are allowed unless some are given")
}

// checkServer reads the environment, and checks its settings and the flags.
func checkServer(a *shell.App, d *deployment, f serverFlags, listens bool) error {
	environment, err := server.ReadEnvironment(func(name string) (string, bool) {
		value := a.Env(name)
		return value, value != ""
	})
	if err != nil {
		return err
	}
	if d.where, err = engineURL(a); err != nil {
		return err
	}
	switch d.where.URL = cmp.Or(d.where.URL, environment.URL); {
	case d.where.URL == "":
		return errors.New(
			"no engine is named: give --url or --profile, or set FLOWFABRIC_URL; flowfabric dev needs none")
	case (f.cert == "") != (f.key == ""), f.clientCA != "" && f.cert == "":
		return errors.New("--tls-cert and --tls-key belong together, and --client-ca needs both")
	}
	if !listens {
		d.listen = cmp.Or(environment.Address, d.listen)
	}
	if len(d.lanes) == 0 {
		d.lanes = environment.Lanes
	}
	d.config.AdminToken = cmp.Or(a.Env(AdminTokenVariable), environment.AdminToken)
	d.config.Contract, d.partitions, d.secret = environment.Contract, environment.Partitions, environment.Secret
	return nil
}

// readServerConfig reads the files that the flags name.
func readServerConfig(a *shell.App, d *deployment, f serverFlags) (err error) {
	if f.cert != "" {
		if d.config.TLSConfig, err = tlsConfig(f.cert, f.key, f.clientCA); err != nil {
			return err
		}
	}
	if f.logins != "" {
		if err := d.config.ReadLogins(f.logins); err != nil {
			return err
		}
	}
	if f.clientCA != "" && d.config.Certificates == nil {
		d.config.Certificates = []server.Grant{{MatchName: "*", Role: api.Admin}}
	}
	return nil
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
		return nil, shell.Usage("--client-ca %s: has no certificate", clientCA)
	}
	return config, nil
}

func MCP(a *shell.App) *cobra.Command {
	var allow string
	allowed := []string{string(httpapi.Reads), string(httpapi.Changes), string(httpapi.Destroys)}
	c := a.Command(shell.Spec{
		Use: "mcp", Short: "Offer operations to a language model, over the standard input and output",
		Long: "Serves the Model Context Protocol over the standard input and output: a tool for each " +
			"operation of the HTTP API. Tools only read, unless --allow says otherwise; the rights of the token bound them, too.",
		Example: "  flowfabric mcp --url https://flows.example.com --token-file ~/.flows-viewer",
		Check: func([]string) error {
			if !slices.Contains(allowed, allow) {
				return fmt.Errorf("--allow %q: must be reads, changes or destroys", allow)
			}
			return nil
		},
		Do: func(r *shell.Request) error {
			server, err := mcpserver.New(mcpserver.Config{
				Client: r.Session.Client, Allow: allow, Version: connect.Version(),
			})
			if err != nil {
				return err
			}
			err = server.Run(r, &mcp.IOTransport{Reader: io.NopCloser(r.Stdin), Writer: noClose{r.Cmd.OutOrStdout()}})
			return goneWith(r, err)
		},
	})
	c.Flags().StringVar(&allow, "allow", string(httpapi.Reads), "the strongest effect of tools: reads, changes or destroys")
	shell.Must(c.RegisterFlagCompletionFunc("allow", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// noClose is a writer that stays open.
type noClose struct{ io.Writer }

// Close implements io.Closer.
func (noClose) Close() error { return nil }
