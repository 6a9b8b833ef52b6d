package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/profile"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/httpcall"
)

// App is the program with its inputs, outputs and environment. With zero values of Env, Open and Now, it uses those
// functions of the process.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Env returns a variable of the environment.
	Env func(string) string
	// Open connects to an engine or a server.
	Open func(context.Context, connect.Where) (*connect.Session, error)
	// Now is the present time.
	Now func() time.Time

	flags globalFlags
}

// globalFlags are the flags of all commands.
type globalFlags struct {
	url, prefix, namespace, tokenFile, profile, actor string
	output                                            string
	columns                                           []string
	noHeaders, yes, dryRun                            bool
	timeout                                           time.Duration
}

// Run runs the command that the arguments name and returns the exit code.
func (a App) Run(ctx context.Context, args []string) int {
	if a.Env == nil {
		a.Env = os.Getenv
	}
	if a.Open == nil {
		a.Open = connect.Open
	}
	if a.Now == nil {
		a.Now = time.Now
	}
	root := a.tree()
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	code := exitCode(err)
	fmt.Fprintf(a.Stderr, "flowfabric: %s\n", output.VisibleLines(err.Error()))
	if code == exitUsage {
		fmt.Fprintf(a.Stderr, "Try %s --help.\n", command.CommandPath())
	}
	return code
}

// request is one call of a command.
type request struct {
	*App
	context.Context
	cmd     *cobra.Command
	session *connect.Session
	out     *output.Writer
	args    []string
}

// call calls an operation.
func call[In, Out any](r *request, op httpapi.Call[In, Out], in In) (*Out, error) {
	return httpcall.Call(r, r.session.Client.Internal(), op, in)
}

// stream follows an operation.
func stream[In, Event any](r *request, op httpapi.Stream[In, Event], in In) iter.Seq2[Event, error] {
	return httpcall.Follow(r, r.session.Client.Internal(), op, in)
}

// pages reads a list up to a number of elements, 0 for all. It reports whether there are more.
func pages[In, T any](
	r *request, op httpapi.Call[In, fabrictype.Page[T]], limit int, input func(api.Paging) In,
) (items []T, more bool, err error) {
	const most = 500
	var paging api.Paging
	for {
		paging.Limit = most
		if limit > 0 { // one more shows whether the list was cut
			paging.Limit = min(most, limit-len(items)+1)
		}
		page, err := call(r, op, input(paging))
		if err != nil {
			return nil, false, err
		}
		items = append(items, page.Items...)
		if limit > 0 && len(items) > limit {
			return items[:limit], true, nil
		}
		if paging.Cursor = page.Next; paging.Cursor == "" {
			return items, false, nil
		}
	}
}

// note prints a line for people, separate from the output, in every format.
func (r *request) note(format string, args ...any) {
	fmt.Fprintln(r.Stderr, output.VisibleLines(fmt.Sprintf(format, args...)))
}

// sayMore notes that a list was cut, separate from the output, so that no program takes the line for an element.
func (r *request) sayMore(more bool) {
	if more {
		r.note("There are more: --limit 0 shows all.")
	}
}

// done prints that an operation has succeeded.
func (r *request) done(what, name string, err error) error {
	if err != nil {
		return err
	}
	return r.out.Value(map[string]string{"done": what}, name, what)
}

// where returns the engine or server that the flags, the environment and the profile name.
func (a *App) where() (connect.Where, error) {
	p, err := a.profile()
	if err != nil {
		return connect.Where{}, err
	}
	w := connect.Where{
		URL: cmp.Or(a.flags.url, a.Env("FLOWFABRIC_URL")), Prefix: a.flags.prefix, Namespace: a.flags.namespace,
		Actor: cmp.Or(a.flags.actor, a.Env("FLOWFABRIC_ACTOR")), Token: a.Env("FLOWFABRIC_TOKEN"),
		Logger: slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	tokenFile := a.flags.tokenFile
	if w.URL == "" || a.flags.profile != "" && a.flags.url == "" {
		w.URL = p.URL
	}
	if w.URL == p.URL { // the other settings of the profile belong to its URL
		w.Prefix, w.Namespace = cmp.Or(w.Prefix, p.Prefix), cmp.Or(w.Namespace, p.Namespace)
		w.Actor, tokenFile = cmp.Or(w.Actor, p.Actor), cmp.Or(tokenFile, p.TokenFile)
	}
	if tokenFile != "" && (w.Token == "" || a.flags.tokenFile != "") {
		if w.Token, err = profile.ReadToken(tokenFile, a.Env); err != nil {
			return w, usage("token: %v", err)
		}
	}
	return w, nil
}

func (a *App) profile() (profile.Profile, error) {
	file, err := profile.Read(profile.Path(a.Env))
	if err != nil {
		return profile.Profile{}, err
	}
	return file.Named(cmp.Or(a.flags.profile, a.Env("FLOWFABRIC_PROFILE")))
}

// options are the options of the output.
func (a *App) options() (output.Options, error) {
	format := a.flags.output
	if format == "" {
		p, err := a.profile()
		if err != nil {
			return output.Options{}, err
		}
		format = cmp.Or(p.Output, string(output.Table))
	}
	o := output.Options{Format: output.Format(format), Columns: a.flags.columns, NoHeaders: a.flags.noHeaders}
	if err := o.Check(); err != nil {
		return o, usage("%v", err)
	}
	return o, nil
}

// deadline is the context of a command with the time of --timeout.
func (a *App) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.flags.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, a.flags.timeout,
		fmt.Errorf("%w: --timeout %s has passed", context.DeadlineExceeded, a.flags.timeout))
}

// interactive reports whether a person can answer questions.
func (a *App) interactive() bool { return isTerminal(a.Stdin) && isTerminal(a.Stderr) }

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// destroy performs an operation that cannot be undone, and that the text describes: "purge run x of flow y". With
// --dry-run it only checks that the object exists; without --yes it asks for confirmation, or, where it cannot ask,
// refuses.
func (r *request) destroy(what string, look, do func() error) error {
	if r.flags.dryRun {
		if err := look(); err != nil {
			return err
		}
		return r.out.Value(map[string]string{"would": what}, what, "would "+what)
	}
	if err := r.confirm(what); err != nil {
		return err
	}
	return do()
}

func (r *request) confirm(what string) error {
	if r.flags.yes {
		return nil
	}
	if !r.interactive() {
		ways := "give --yes to do so"
		if r.cmd.Flags().Lookup("dry-run") != nil {
			ways += ", or --dry-run to look"
		}
		return usage("%s: %s", what, ways)
	}
	fmt.Fprintf(r.Stderr, "Really %s? [y/N] ", output.Visible(what))
	answer, err := bufio.NewReader(r.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if text := strings.ToLower(strings.TrimSpace(answer)); !slices.Contains([]string{"y", "yes"}, text) {
		return errNotConfirmed
	}
	return nil
}
