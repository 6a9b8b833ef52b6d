package command

import (
	"fmt"
	"io"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/mcpserver"
)

func (a *App) mcpCommand() *cobra.Command {
	var allow string
	allowed := []string{string(httpapi.Reads), string(httpapi.Changes), string(httpapi.Destroys)}
	c := a.command(spec{
		use: "mcp", short: "Offer operations to a language model, over the standard input and output",
		long: "Serves the Model Context Protocol over the standard input and output: a tool for each " +
			"operation of the HTTP API. Tools only read, unless --allow says otherwise; the rights of the token bound them, too.",
		example: "  flowfabric mcp --url https://flows.example.com --token-file ~/.flows-viewer",
		check: func([]string) error {
			if !slices.Contains(allowed, allow) {
				return fmt.Errorf("--allow %q: must be reads, changes or destroys", allow)
			}
			return nil
		},
		do: func(r *request) error {
			server, err := mcpserver.New(mcpserver.Config{
				Client: r.session.Client, Allow: allow, Version: connect.Version(),
			})
			if err != nil {
				return err
			}
			err = server.Run(r, &mcp.IOTransport{Reader: io.NopCloser(r.Stdin), Writer: noClose{r.cmd.OutOrStdout()}})
			return goneWith(r, err)
		},
	})
	c.Flags().StringVar(&allow, "allow", string(httpapi.Reads), "the strongest effect of tools: reads, changes or destroys")
	must(c.RegisterFlagCompletionFunc("allow", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// noClose is a writer that stays open.
type noClose struct{ io.Writer }

// Close implements io.Closer.
func (noClose) Close() error { return nil }
