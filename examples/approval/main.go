package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

var errInterrupted = errors.New("interrupted")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}.run(ctx, os.Args[1:]))
}

// program is the command with its input and outputs.
type program struct {
	stdin          *os.File
	stdout, stderr io.Writer
}

// run runs the command that the arguments name and returns the exit code.
func (p program) run(ctx context.Context, args []string) int {
	o, err := parseOptions(args, p.stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(p.stderr, "approval: %v\nTry approval -help.\n", err)
		return exitUsage
	}
	err = o.command.run(ctx, p, o)
	switch {
	case errors.Is(err, errInterrupted), err != nil && ctx.Err() != nil:
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(p.stderr, "approval: %v\n", err)
		return exitFailure
	}
	return 0
}
