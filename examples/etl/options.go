package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// options has the values of the command line.
type options struct {
	engine       string
	engineOrigin string // where the engine's URL was given, for errors
	dir          string // absolute; empty for a folder that is removed at the end
	run          string // empty for an id made of the folder
	explain      bool
	verbose      bool
}

const usageText = `Usage: etl [flags]

Makes a folder of files with measurements and loads them into a warehouse, which is a folder, too.

`

// parseOptions reads the command line. It returns every fault at once; flag.ErrHelp after it has printed the help.
func parseOptions(args []string, help io.Writer) (options, error) {
	o := options{engine: os.Getenv("FLOWFABRIC_URL"), engineOrigin: "FLOWFABRIC_URL"}
	flags := flag.NewFlagSet("etl", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("engine",
		"`URL` of the engine: embedded:, embedded:DIR, redis://…, valkey://…; default $FLOWFABRIC_URL, else in memory",
		func(text string) error {
			o.engine, o.engineOrigin = text, "-engine"
			return nil
		})
	flags.StringVar(&o.dir, "dir", "", "`folder` that keeps the files and the warehouse; "+
		"default, with an engine in memory, a folder that is removed at the end")
	flags.StringVar(&o.run, "run", "",
		"`id` of the run; default made of the folder, so that a second start continues the first")
	flags.BoolVar(&o.explain, "explain", false, "print the flows, node by node, and exit")
	flags.BoolVar(&o.verbose, "v", false, "log what happens inside to standard error")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(help, usageText)
			flags.SetOutput(help)
			flags.PrintDefaults()
		}
		return o, err
	}
	var faults []error
	if flags.NArg() > 0 {
		faults = append(faults, fmt.Errorf("arguments %q: there must be none", flags.Args()))
	}
	if len(o.run) > 256 {
		faults = append(faults, fmt.Errorf("-run: has %d bytes, must have at most 256", len(o.run)))
	}
	if o.dir == "" && !o.inMemory() {
		faults = append(faults, fmt.Errorf("-dir: must name a folder: the data has to last as long as the engine of %s",
			o.engineOrigin))
	}
	if o.dir != "" {
		var err error
		if o.dir, err = filepath.Abs(o.dir); err != nil {
			faults = append(faults, fmt.Errorf("-dir: %w", err))
		}
	}
	return o, errors.Join(faults...)
}

// runID names the run of a folder, so that the same command means the same run.
func runID(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%.100s-%s", filepath.Base(dir), hex.EncodeToString(sum[:4]))
}

// inMemory reports whether the engine forgets everything when this process ends.
func (o *options) inMemory() bool {
	dir, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(o.engine, "embedded"), ":"), "?")
	return (o.engine == "" || strings.HasPrefix(o.engine, "embedded")) && strings.Trim(dir, "/") == ""
}
