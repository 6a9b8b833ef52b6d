package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c config
	flag.IntVar(&c.runs, "n", 10, "runs of each package")
	flag.IntVar(&c.load, "load", 0, "goroutines that keep processors busy meanwhile")
	flag.BoolVar(&c.race, "race", true, "build with the race detector")
	flag.StringVar(&c.dir, "dir", ".cache/shake", "folder of the results")
	flag.StringVar(&c.only, "run", "", "run the tests that match, as go test -run does; results are kept apart")
	flag.DurationVar(&c.timeout, "timeout", 30*time.Minute, "time that one run may take")
	flag.Parse()
	c.packages, c.engines = flag.Args(), os.Getenv("FLOWFABRIC_TEST_ENGINES")
	if err := shake(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "shake:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}
