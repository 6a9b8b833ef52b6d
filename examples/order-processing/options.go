package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// options has the values of the command line.
type options struct {
	engine       string
	engineOrigin string // where the engine's URL was given, for errors
	explain      bool
	verbose      bool
}

const usageText = `Usage: order-processing [flags]

Carries out the orders of a small shop, whose warehouse and bank are in memory, and prints what has become of them.

`

// parseOptions reads the command line. It returns flag.ErrHelp after it has printed the help.
func parseOptions(args []string, help io.Writer) (options, error) {
	o := options{engineOrigin: "-engine"}
	if url := os.Getenv("FLOWFABRIC_URL"); url != "" {
		o.engine, o.engineOrigin = url, "FLOWFABRIC_URL"
	}
	flags := flag.NewFlagSet("order-processing", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("engine",
		"`URL` of the engine: embedded:, embedded:DIR, redis://…, valkey://…; default $FLOWFABRIC_URL, else in memory",
		func(text string) error { o.engine, o.engineOrigin = text, "-engine"; return nil })
	flags.BoolVar(&o.explain, "explain", false, "print the flow, node by node, and exit")
	flags.BoolVar(&o.verbose, "v", false, "log what happens inside to standard error")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(help, usageText)
		flags.SetOutput(help)
		flags.PrintDefaults()
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("arguments %q: there must be none", flags.Args())
	}
	return o, err
}
