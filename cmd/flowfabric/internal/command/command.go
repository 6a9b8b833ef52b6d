// Package command has the commands of flowfabric. All of them but those that serve call operations of the HTTP API, so
// that they do the same on an engine and on a server.
package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/deploy"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/load"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/manual"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/runs"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/serve"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/waits"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
)

// tree returns the commands.
func tree(a *shell.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "flowfabric",
		Short: "Serves engines of FlowFabric, shows their state, and lets people intervene",
		Long: shell.Wrap("Serves engines of FlowFabric, shows their state, and lets people intervene.\n\n" +
			"Commands work on an engine (valkey://host:6379, redis://host:6379, embedded:DIR) or through a " +
			"server of it (https://host:8080), which --url, --profile or FLOWFABRIC_URL names."),
		SilenceErrors: true, SilenceUsage: true,
		Version: connect.Version(),
	}
	a.DeclareGlobalFlags(root)
	root.AddGroup(&cobra.Group{ID: "serve", Title: "Serve:"}, &cobra.Group{ID: "runs", Title: "Runs:"},
		&cobra.Group{ID: "load", Title: "Flows, schedules and load:"},
		&cobra.Group{ID: "deploy", Title: "Deployment:"})
	root.SetHelpCommandGroupID("deploy")
	root.SetCompletionCommandGroupID("deploy")
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("serve", serve.New(a), serve.Dev(a), serve.Server(a), serve.Keeper(a), serve.MCP(a), serve.Doctor(a))
	add("runs", runs.Start(a), runs.Run(a), waits.Inbox(a), waits.Answer(a), waits.Signal(a), waits.Wait(a), runs.Timer(a),
		runs.Values(a), runs.Attempts(a), runs.Bulk(a), runs.Feed(a))
	add("load", load.Flow(a), load.Schedule(a), load.Lane(a), load.Activity(a), load.Limit(a), load.Budget(a),
		load.Worker(a), load.Top(a))
	add("deploy", deploy.Token(a), deploy.Session(a), deploy.Secret(a), deploy.Audit(a), deploy.Execution(a),
		deploy.ACL(a), deploy.Archive(a), deploy.Backup(a), deploy.Move(a), deploy.Info(a), deploy.Profile(a),
		manual.Command(a), deploy.Version(a))
	a.RefuseUnknown(root)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return shell.Usage("%s: %v", shell.NameOf(c), err) })
	return root
}

// Tree returns the commands, for generators of pages.
func Tree() *cobra.Command {
	return tree(&shell.App{Env: func(string) string { return "" }})
}

// Run runs the command that the arguments name and returns the exit code.
func Run(ctx context.Context, a shell.App, args []string) int {
	a.SetDefaults()
	root := tree(&a)
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return shell.ExitDone
	}
	code := shell.ExitCode(err)
	fmt.Fprintf(a.Stderr, "flowfabric: %s\n", output.VisibleLines(err.Error()))
	if code == shell.ExitUsage {
		fmt.Fprintf(a.Stderr, "Try %s --help.\n", command.CommandPath())
	}
	return code
}
