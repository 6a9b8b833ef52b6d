package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// errUsage marks a call that makes no sense.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := program{stdout: os.Stdout, stderr: os.Stderr, url: os.Getenv("FLOWFABRIC_URL"), open: open}
	os.Exit(p.run(ctx, os.Args[1:]))
}

// program is the command with its input, outputs and environment.
type program struct {
	stdout, stderr io.Writer
	url            string // unless -url says otherwise
	open           func(ctx context.Context, where location) (*session, error)
}

// location identifies the engine, the prefix and the namespace.
type location struct{ url, prefix, namespace string }

// session is an engine as commands use it.
type session struct {
	client *runtime.Client
	admin  *admin.Client
	engine *runtime.Engine
	where  location
	close  func()
}

func open(ctx context.Context, where location) (*session, error) {
	if where.url == "" {
		return nil, fmt.Errorf("%w: no engine is named: give -url or set FLOWFABRIC_URL", errUsage)
	}
	engine, err := runtime.Open(ctx, where.url, runtime.OpenConfig{
		Prefix: where.prefix, Namespace: where.namespace, Logger: slog.New(slog.DiscardHandler), MustExist: true,
	})
	if err != nil {
		return nil, err
	}
	client, clientErr := runtime.NewClient(engine)
	operator, adminErr := admin.New(engine)
	if err := errors.Join(clientErr, adminErr); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &session{client, operator, engine, where, func() {
		client.Close()
		_ = engine.Close() // everything has been answered
	}}, nil
}

// run carries out the command that the arguments name and returns the exit code.
func (p program) run(ctx context.Context, args []string) int {
	err := p.dispatch(ctx, args)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage), errors.Is(err, runtime.ErrInvalid), errors.Is(err, admin.ErrInvalid),
		errors.Is(err, server.ErrInvalid):
		fmt.Fprintf(p.stderr, "flowfabric: %s\nTry flowfabric -help.\n", visibleLines(err.Error()))
		return exitUsage
	}
	fmt.Fprintf(p.stderr, "flowfabric: %s\n", visibleLines(err.Error()))
	return exitFailure
}

func (p program) dispatch(ctx context.Context, args []string) error {
	var where location
	flags := flag.NewFlagSet("flowfabric", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&where.url, "url", "", "the engine, as runtime.Open names it; FLOWFABRIC_URL by default")
	flags.StringVar(&where.prefix, "prefix", "", "the prefix of its keys")
	flags.StringVar(&where.namespace, "namespace", "", "the namespace of runs")
	asJSON := flags.Bool("json", false, "one JSON object a line")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			p.help(flags)
			return err
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	where.url = cmp.Or(where.url, p.url) // no default of the flag: help would show its password
	if flags.NArg() == 0 {
		p.help(flags)
		return fmt.Errorf("%w: no command", errUsage)
	}
	for _, c := range standalone(where) {
		if c.name == flags.Arg(0) {
			p.open = noEngine
			return p.carryOut(ctx, where, c, *asJSON, flags.Args()[1:])
		}
	}
	for _, c := range commands() {
		if c.name == flags.Arg(0) {
			return p.carryOut(ctx, where, c, *asJSON, flags.Args()[1:])
		}
	}
	return fmt.Errorf("%w: there is no command %q", errUsage, flags.Arg(0))
}

// standalone has the commands that open an engine themselves, or need none.
func standalone(where location) []command {
	return []command{
		{"dev", "", "serve an engine in this process, with a keeper and the HTTP API", prepareDev(where)},
		{"server", "", "serve the HTTP API of an engine", prepareServer(where)},
		aclCommand(where.prefix),
	}
}

// command is one of the commands. prepare declares its flags and returns its action.
type command struct {
	name, arguments, summary string
	prepare                  func(*flag.FlagSet) action
}

// action runs a command after its flags are parsed.
type action struct {
	// check refuses flags and arguments that make no sense, before the engine is opened.
	check func(args []string) error
	do    func(ctx context.Context, s *session, out *output, args []string) error
}

func (p program) carryOut(ctx context.Context, where location, c command, json bool, args []string) error {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	asJSON := flags.Bool("json", json, "one JSON object a line")
	act := c.prepare(flags)
	rest, err := parseAnywhere(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(p.stdout, "flowfabric %s %s\n  %s\n", c.name, c.arguments, c.summary)
		flags.SetOutput(p.stdout)
		flags.PrintDefaults()
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errUsage, c.name, err)
	}
	if err := act.check(rest); err != nil {
		return err
	}
	out := newOutput(p.stdout, *asJSON)
	s, err := p.open(ctx, where)
	if err != nil {
		return err
	}
	defer s.close()
	if err := act.do(ctx, s, out, rest); err != nil {
		return errors.Join(out.cutShort(), err)
	}
	return out.flush()
}

// parseAnywhere reads flags before, between and behind arguments, and returns those.
func parseAnywhere(flags *flag.FlagSet, args []string) ([]string, error) {
	var rest []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}

// need checks the number of arguments, and then what else is to be checked.
func need(names []string, checks ...func() error) func(args []string) error {
	return func(args []string) error {
		switch {
		case len(args) != len(names) && len(names) == 0:
			return fmt.Errorf("%w: the command takes no arguments, got %q", errUsage, args)
		case len(args) != len(names):
			return fmt.Errorf("%w: want %d arguments (%s), got %d", errUsage, len(names), strings.Join(names, " "),
				len(args))
		}
		for _, check := range checks {
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	}
}

func (p program) help(flags *flag.FlagSet) {
	fmt.Fprintln(p.stdout, "flowfabric [-url URL] [-prefix P] [-namespace N] [-json] COMMAND [flags] [arguments]")
	fmt.Fprintln(p.stdout)
	t := newOutput(p.stdout, false)
	for _, c := range append(commands(), standalone(location{})...) {
		t.row(nil, "  "+c.name+" "+c.arguments, c.summary)
	}
	_ = t.flush() // to the terminal
	fmt.Fprintln(p.stdout, "\nEvery command takes -json and -help, which lists its flags. Flags of flowfabric itself:")
	flags.SetOutput(p.stdout)
	flags.PrintDefaults()
}
