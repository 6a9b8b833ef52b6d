package serve

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/scaffold"
)

// written is the output of flowfabric new.
type written struct {
	Directory string `json:"directory"`
	Module    string `json:"module"`
}

// New returns the command that writes a project.
func New(a *shell.App) *cobra.Command {
	config := scaffold.Config{Version: connect.Version()}
	c := a.Standalone(shell.Spec{
		Use: "new DIRECTORY", Short: "Write a Go module with a flow, its test, a worker and a client",
		Long: "Writes a Go module with a flow of two activities, its test, a worker, a client and a compose file with Valkey, " +
			"and prints the commands that run it. A build of flowfabric that is not a release lets the module use the sources " +
			"that it was built from, or the directory of --replace.",
		Example: "  flowfabric new shop\n  flowfabric new ./services/shop --module example.com/shop",
		Do: func(r *shell.Request) error {
			config.Dir = r.Args[0]
			module, err := scaffold.Write(r, config)
			if err != nil {
				return err
			}
			return r.Out.Value(written{config.Dir, module}, config.Dir, fmt.Sprintf("Wrote module %s. Next:\n\n"+
				"  cd %s\n"+
				"  flowfabric dev --watch ./cmd/worker   # console, engine, and your worker, which restarts when you save a file\n"+
				"  go run ./cmd/client Ada               # in another terminal", module, config.Dir))
		},
	})
	c.Flags().StringVar(&config.Module, "module", "", "the `path` of the module; the name of the directory by default")
	c.Flags().StringVar(&config.Checkout, "replace", "",
		"the `directory` with the sources of FlowFabric that the module uses instead of a release")
	return c
}
