package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// command is one thing that the program can do.
type command struct {
	name, args, help string
	run              func(context.Context, program, options) error
	flags            func(*flag.FlagSet, *options)
}

// commands returns the commands of the program, in the order of the help.
func commands() []command {
	return []command{
		{"run", "VERSION", "build, test and deploy a version, or go on with it", deployCommand, runFlags},
		{"approve", "VERSION", "agree to a deployment that waits", answerCommand, answerFlags},
		{"reject", "VERSION", "refuse a deployment that waits", answerCommand, answerFlags},
		{"status", "[VERSION]", "show what a deployment does; without a version, which there are", statusCommand, nil},
		{"watch", "VERSION", "follow what happens in a deployment until it is over", watchCommand, nil},
		{"serve", "", "serve a page with the links to answer by", serveCommand, serveFlags},
	}
}

// options has the values of the command line.
type options struct {
	command command
	version string
	site    Site // absolute
	// engine is the URL of a server; empty for the engine in the site's directory.
	engine, engineOrigin string
	verbose              bool

	// Of run.
	defect               string
	plain                bool
	escalation           time.Duration
	listen, pagesAddress string
	ask                  askWhen
	// Of approve and reject.
	by, comment string
	// Of serve.
	address string
}

const usageHead = `Usage: approval COMMAND [flags] [VERSION]

Deploys a small web site when two people agree.

`

// parseOptions reads the command line. It returns every fault at once; flag.ErrHelp after it has printed the help.
func parseOptions(args []string, help io.Writer) (options, error) {
	o := options{
		site: defaultSite(), escalation: 15 * time.Minute, listen: "127.0.0.1:0", pagesAddress: "127.0.0.1:0",
		address: "127.0.0.1:8080", by: os.Getenv("USER"),
	}
	if url := os.Getenv("FLOWFABRIC_URL"); url != "" {
		o.engine, o.engineOrigin = url, "FLOWFABRIC_URL"
	}
	if len(args) == 0 {
		return o, errors.New("a command is missing")
	}
	if name := strings.TrimLeft(args[0], "-"); name == "help" || name == "h" {
		fmt.Fprint(help, usageHead)
		for _, c := range commands() {
			fmt.Fprintf(help, "  %-8s %-10s %s\n", c.name, c.args, c.help)
		}
		fmt.Fprint(help, "\nTry approval COMMAND -help.\n")
		return o, flag.ErrHelp
	}
	for _, c := range commands() {
		if c.name == args[0] {
			o.command = c
			return o, o.parse(args[1:], help)
		}
	}
	return o, fmt.Errorf("unknown command %q", args[0])
}

// defaultSite is a directory that all processes of a user find.
func defaultSite() Site {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return Site(filepath.Join(dir, "flowfabric-approval-site"))
}

// parse parses the arguments of a command. Flags may precede and follow the version.
func (o *options) parse(args []string, help io.Writer) error {
	flags := flag.NewFlagSet(o.command.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar((*string)(&o.site), "dir", string(o.site), "`directory` of the site")
	flags.Func("engine",
		"`URL` of a server: redis://…, valkey://…; default $FLOWFABRIC_URL, else the engine in the directory of the site",
		func(text string) error { o.engine, o.engineOrigin = text, "-engine"; return nil })
	flags.BoolVar(&o.verbose, "v", false, "log what happens inside to standard error")
	if o.command.flags != nil {
		o.command.flags(flags, o)
	}
	var words []string
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(help, "Usage: approval %s [flags] %s\n\nIt will %s.\n\n", o.command.name, o.command.args,
				o.command.help)
			flags.SetOutput(help)
			flags.PrintDefaults()
			return err
		} else if err != nil {
			return err
		}
		if args = flags.Args(); len(args) == 0 {
			break
		}
		words, args = append(words, args[0]), args[1:]
	}
	return errors.Join(o.setVersion(words), o.check())
}

// setVersion reads the arguments after the flags.
func (o *options) setVersion(words []string) error {
	switch {
	case len(words) > 1 || len(words) == 1 && o.command.args == "":
		return fmt.Errorf("arguments %q: the form is approval %s [flags] %s", words, o.command.name, o.command.args)
	case len(words) == 1:
		o.version = words[0]
		return checkVersion(o.version)
	case o.command.args == "VERSION":
		return fmt.Errorf("a version is missing: the form is approval %s [flags] VERSION", o.command.name)
	}
	return nil
}

func (o *options) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.site == "" {
		fault(`-dir "": must name a directory`)
	}
	path, err := filepath.Abs(string(o.site))
	if err == nil {
		path, err = resolved(path)
	}
	if err != nil {
		fault("-dir %q: %w", o.site, err)
	}
	o.site = Site(path)
	if o.defect != "" && o.defect != defectTest && o.defect != defectVerify {
		fault("-defect %q: must be %s or %s", o.defect, defectTest, defectVerify)
	}
	if o.escalation < time.Second || o.escalation > 30*24*time.Hour {
		fault("-escalate %s: must be 1s to 720h", o.escalation)
	}
	if strings.HasPrefix(o.engine, "embedded") {
		fault("%s %q: must be a server; the engine in this process is in the directory of the site", o.engineOrigin,
			o.engine)
	}
	for name, address := range map[string]string{"listen": o.listen, "address": o.address} {
		if err := loopback(address); address != "" && err != nil {
			fault("-%s: %w", name, err)
		}
	}
	if o.by = strings.Join(strings.Fields(o.by), " "); o.by == "" &&
		(o.command.name == approve || o.command.name == reject) {
		fault("-by: must say who answers")
	}
	return errors.Join(faults...)
}

// resolved follows links in a path, of which the end need not exist, so that one directory has one name.
func resolved(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, os.ErrNotExist) || path == filepath.Dir(path) {
		return real, err
	}
	parent, err := resolved(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

func runFlags(flags *flag.FlagSet, o *options) {
	flags.StringVar(&o.defect, "defect", "", "break the change on purpose; `kind` is test or verify")
	flags.BoolVar(&o.plain, "plain", false, "use what engines of other projects have as well, "+
		"with ?contract=15 in the URL of the server: "+
		"wait for two answers, take nothing back")
	flags.DurationVar(&o.escalation, "escalate", o.escalation,
		"`time` after which a deployment that nobody has decided about is escalated")
	flags.StringVar(&o.pagesAddress, "site", o.pagesAddress, "`address` where the site is served")
	flags.StringVar(&o.listen, "listen", o.listen,
		"loopback `address` where the engine in the directory is open to other processes; \"\" for none")
	flags.Var(&o.ask, "ask", "ask on standard input for answers; `when` is auto (on a terminal), always or never")
}

func answerFlags(flags *flag.FlagSet, o *options) {
	flags.StringVar(&o.by, "by", o.by, "`name` of the one who answers; default $USER")
	flags.StringVar(&o.comment, "comment", "", "`text` for the others")
}

func serveFlags(flags *flag.FlagSet, o *options) {
	flags.StringVar(&o.address, "address", o.address, "`address` where the page is served")
}

// askWhen selects whether people are asked on standard input; "" is auto.
type askWhen string

func (a *askWhen) String() string { return cmp.Or(string(*a), "auto") }

// Set reads the flag.
func (a *askWhen) Set(text string) error {
	switch text {
	case "auto", "always", "never":
		*a = askWhen(text)
		return nil
	}
	return errors.New("must be auto, always or never")
}

// onTerminal reports whether a person can be asked.
func (a askWhen) onTerminal(stdin *os.File) bool {
	switch a {
	case "always":
		return true
	case "never":
		return false
	}
	info, err := stdin.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
}
