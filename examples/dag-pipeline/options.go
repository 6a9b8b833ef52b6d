package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"time"
)

const (
	maxShards  = 256
	maxWorkers = 1024

	// The bounds of WorkerConfig.Lease.
	minLease  = 300 * time.Millisecond
	maxLease  = time.Hour
	leaseRule = "300ms to 1h"
	// defaultLease is the lease of workers without -lease.
	defaultLease = 10 * time.Second
)

// options has the values of the command line.
type options struct {
	tree         string // absolute, without links in it
	engine       string
	engineOrigin string // where the engine's URL was given, for errors
	run          string
	out          string // empty for a new temporary directory
	shards       int
	workers      int
	lease        time.Duration
	explain      bool
	verbose      bool
}

const usageText = `Usage: dag-pipeline [flags] [tree]

Takes a census of the Go code in a source tree, by default the standard library of the Go in use.

`

// parseOptions reads the command line. It returns every fault at once; flag.ErrHelp after it has printed the help.
func parseOptions(args []string, help io.Writer) (options, error) {
	o := options{
		engineOrigin: "-engine", shards: 16, workers: goruntime.GOMAXPROCS(0), lease: defaultLease,
	}
	if url := os.Getenv("FLOWFABRIC_URL"); url != "" {
		o.engine, o.engineOrigin = url, "FLOWFABRIC_URL"
	}
	var faults []error
	flags := flag.NewFlagSet("dag-pipeline", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("engine",
		"`URL` of the engine: embedded:, embedded:DIR, redis://…, valkey://…; default $FLOWFABRIC_URL, else in memory",
		func(text string) error { o.engine, o.engineOrigin = text, "-engine"; return nil })
	flags.StringVar(&o.run, "run", "",
		"`id` of the run; default made of the tree and -shards, so that a second start continues the first")
	flags.Func("out", "`directory` for the report; default a new one for temporary files", func(text string) error {
		if o.out = text; text == "" {
			faults = append(faults, errors.New(`-out "": must name a directory`))
		}
		return nil
	})
	number(flags, &faults, &o.shards, "shards", maxShards, "number of parts to measure in parallel")
	number(flags, &faults, &o.workers, "workers", maxWorkers, "nodes that run at a time in this process")
	flags.Func("lease", fmt.Sprintf("`time` after which the work of a lost process is taken over, %s (default %s)",
		leaseRule, o.lease),
		func(text string) error {
			d, err := time.ParseDuration(text)
			if err != nil || d < minLease || d > maxLease {
				faults = append(faults, fmt.Errorf("-lease %q: must be a duration of %s", text, leaseRule))
			}
			o.lease = d
			return nil
		})
	flags.BoolVar(&o.explain, "explain", false, "print the flow, node by node, and the calls that it becomes, and exit")
	flags.BoolVar(&o.verbose, "v", false, "log what happens inside to standard error")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(help, usageText)
			flags.SetOutput(help)
			flags.PrintDefaults()
			return o, err
		}
		faults = append(faults, err)
	} else if flags.NArg() > 1 {
		faults = append(faults, fmt.Errorf("arguments %q: must be one tree at most, and flags come before it",
			flags.Args()))
	} else if err := o.setTree(flags.Arg(0)); err != nil {
		faults = append(faults, err)
	}
	if len(o.run) > 256 {
		faults = append(faults, fmt.Errorf("-run: has %d bytes, must have at most 256", len(o.run)))
	}
	if o.run == "" {
		o.run = runID(o.tree, o.shards)
	}
	return o, errors.Join(faults...)
}

// number declares a flag for a whole number from 1 to limit.
func number(flags *flag.FlagSet, faults *[]error, target *int, name string, limit int, usage string) {
	flags.Func(name, fmt.Sprintf("%s, 1 to %d (default %d)", usage, limit, *target), func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > limit {
			*faults = append(*faults, fmt.Errorf("-%s %q: must be a whole number from 1 to %d", name, text, limit))
		}
		*target = n
		return nil
	})
}

// setTree finds the tree. Links in its path are resolved, so that one tree has one name.
func (o *options) setTree(path string) error {
	if path == "" {
		var err error
		if path, err = standardLibrary(); err != nil {
			return err
		}
	}
	if err := checkTree(path); err != nil {
		return err
	}
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return fmt.Errorf("tree %q: %w", path, err)
	}
	o.tree = path
	return nil
}

// standardLibrary finds the sources of the Go in use.
func standardLibrary() (string, error) {
	output, err := exec.Command("go", "env", "GOROOT").Output()
	goroot := strings.TrimSpace(string(output))
	if err != nil || goroot == "" {
		goroot = goruntime.GOROOT() //nolint:staticcheck // the go command is not there
	}
	path := filepath.Join(goroot, "src")
	if goroot == "" || checkTree(path) != nil {
		return "", errors.New("the standard library was not found: neither `go env GOROOT` nor the GOROOT of this program " +
			"leads to its sources; give a tree as argument")
	}
	return path, nil
}

// runID names the census of a tree, so that the same command means the same run.
func runID(tree string, shards int) string {
	sum := sha256.Sum256([]byte(tree))
	return fmt.Sprintf("%.100s-%s-%d", filepath.Base(tree), hex.EncodeToString(sum[:4]), shards)
}

// inMemory reports whether the engine forgets everything when this process ends.
func (o *options) inMemory() bool {
	dir, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(o.engine, "embedded"), ":"), "?")
	return (o.engine == "" || strings.HasPrefix(o.engine, "embedded")) && strings.Trim(dir, "/") == ""
}
