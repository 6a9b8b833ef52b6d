package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	only     []string
	works    []string
	rounds   int
	slots    int
	time     time.Duration
	idleTime time.Duration
	// temporal is the program of Temporal's development server.
	temporal string
	// aof is when the append-only file of Valkey is flushed, empty without one. The kind of work sets it.
	aof string
	// measure is the system that this process measures for another one, or empty.
	measure string
}

func parseFlags(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	only := flags.String("only", "",
		"systems to compare with FlowFabric; empty is all: "+strings.Join(peerNames(), ", "))
	works := flags.String("work", strings.Join(workNames(), ","), "kinds of work")
	flags.IntVar(&s.rounds, "rounds", 3, "how often to measure everything")
	flags.IntVar(&s.slots, "slots", 16, "how many functions each system runs at a time")
	flags.DurationVar(&s.time, "time", 3*time.Second, "how long to load with each kind of work")
	flags.DurationVar(&s.idleTime, "idle-time", 20*time.Second,
		"how long to look at each system without work, in the first round; 0 leaves this out")
	flags.StringVar(&s.temporal, "temporal-server", "",
		"program of Temporal's development server; empty builds ./temporal")
	flags.StringVar(&s.measure, "measure", "", "measure this system once and print JSON, for another process")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.rounds < 1 || s.slots < 1 || s.time <= 0 || s.idleTime < 0 {
		return s, fmt.Errorf(
			"-rounds %d and -slots %d must be at least 1, -time %s more than 0, -idle-time %s at least 0",
			s.rounds, s.slots, s.time, s.idleTime)
	}
	s.works = strings.Split(*works, ",")
	for _, name := range s.works {
		if !slices.Contains(workNames(), name) {
			return s, fmt.Errorf("-work %q: must be of %s", name, strings.Join(workNames(), ", "))
		}
	}
	s.only = peerNames()
	if *only != "" {
		s.only = strings.Split(*only, ",")
	}
	for _, name := range s.only {
		if !slices.Contains(peerNames(), name) {
			return s, fmt.Errorf("-only %q: must be of %s", name, strings.Join(peerNames(), ", "))
		}
	}
	return s, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parseFlags(args)
	if err != nil {
		return err
	}
	if s.measure != "" {
		r, err := measureSystem(ctx, s)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	}
	removeServer, err := prepare(ctx, &s)
	if err != nil {
		return err
	}
	pairs, err := compare(ctx, s)
	if err = errors.Join(err, removeServer()); err != nil {
		return err
	}
	return printTables(out, s, pairs)
}

// pair is a measurement of a peer and the one of FlowFabric right before it.
type pair struct {
	ours, peer result
}

// compare measures in rounds. The order of the peers changes from round to round.
func compare(ctx context.Context, s settings) ([]pair, error) {
	var pairs []pair
	for round := range s.rounds {
		for i := range s.only {
			name := s.only[(i+round)%len(s.only)]
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, s.rounds, name)
			p, err := peerNamed(name)
			if err != nil {
				return nil, err
			}
			both := s
			both.works = slices.DeleteFunc(slices.Clone(s.works), p.lacksWork)
			if len(both.works) == 0 {
				continue
			}
			ours, err := measureApart(ctx, both, flowFabric, round == 0 && i == 0)
			if err != nil {
				return nil, err
			}
			peer, err := measureApart(ctx, both, name, round == 0)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, pair{ours, peer})
		}
	}
	return pairs, nil
}

// measureApart measures in a separate process, so that nothing is left of other measurements.
func measureApart(ctx context.Context, s settings, name string, idle bool) (r result, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	idleTime := time.Duration(0)
	if idle {
		idleTime = s.idleTime
	}
	cmd := exec.CommandContext(ctx, self, "-measure", name, "-work", strings.Join(s.works, ","),
		"-time", s.time.String(), "-slots", strconv.Itoa(s.slots), "-idle-time", idleTime.String(),
		"-temporal-server", s.temporal)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its servers
	output, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	if err := json.Unmarshal(output, &r); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}
