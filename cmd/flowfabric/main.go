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
