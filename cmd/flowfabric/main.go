// Command flowfabric serves engines, shows their runs and state, and lets people operate them.
//
//	flowfabric dev --demo
//	flowfabric run list --flow import --state failed --since 24h
//	flowfabric run show import/2026-11-20
//	flowfabric run rerun import/2026-11-20
//
// It works on an engine, by a URL of runtime.Open, or through a server, by its address: flag --url, a profile, or the
// environment's FLOWFABRIC_URL. Output is a table, or JSON, lines of JSON, YAML or names by -o. The exit codes are
// stable: flowfabric manual and docs/operations/command.md list them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := command.Run(ctx, shell.App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}
