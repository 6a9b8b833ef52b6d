package serve

import (
	"fmt"
	"io"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/mcpserver"
)

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
