package shell

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/profile"
)

// App is the program with its inputs, outputs and environment. With zero values of Env, Open and Now, it uses those
// functions of the process. Local and Patience default to LocalServer and 30 seconds.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Env returns a variable of the environment.
	Env func(string) string
	// Open connects to an engine or a server.
	Open func(context.Context, connect.Where) (*connect.Session, error)
	// Now is the present time.
	Now func() time.Time
	// Local is the address of the server that commands use when nothing names another one.
	Local string
	// Patience is how long a command that reads waits for a reply without --timeout.
	Patience time.Duration

	Flags globalFlags
}

// LocalServer is the address at which flowfabric dev and flowfabric server listen by default.
const LocalServer = "http://localhost:8080"

// defaultPatience is how long a read may take without --timeout.
const defaultPatience = 30 * time.Second

// globalFlags are the flags of all commands.
type globalFlags struct {
	URL, Prefix, Namespace, TokenFile, profile, Actor string
	Output                                            string
	columns                                           []string
	noHeaders, Yes, DryRun                            bool
	color                                             string
	timeout                                           time.Duration
}

// SetDefaults sets functions of the process where the program has none.
func (a *App) SetDefaults() {
	if a.Env == nil {
		a.Env = os.Getenv
	}
	if a.Open == nil {
		a.Open = connect.Open
	}
	if a.Now == nil {
		a.Now = time.Now
	}
	a.Local = cmp.Or(a.Local, LocalServer)
	a.Patience = cmp.Or(a.Patience, defaultPatience)
}

// Reach is Where, or else the local server, if one answers.
func (a *App) Reach(ctx context.Context) (connect.Where, error) {
	w, err := a.Where()
	if err != nil || w.URL != "" {
		return w, err
	}
	const ways = "give --url or --profile, set FLOWFABRIC_URL, or run flowfabric dev"
	if w.Token != "" { // which is a secret between the user and a server that has a name
		return w, fmt.Errorf("%w: no server is named for the token: %s", connect.ErrInvalid, ways)
	}
	if err := connect.Answers(ctx, a.Local); err != nil {
		return w, fmt.Errorf("%w: no engine or server is named, and no server answers at %s (%v): %s", connect.ErrInvalid,
			a.Local, err, ways)
	}
	w.URL = a.Local
	return w, nil
}

// Where returns the engine or server that the flags, the environment and the profile name.
func (a *App) Where() (connect.Where, error) {
	p, err := a.profile()
	if err != nil {
		return connect.Where{}, err
	}
	w := connect.Where{
		URL: cmp.Or(a.Flags.URL, a.Env("FLOWFABRIC_URL")), Prefix: a.Flags.Prefix, Namespace: a.Flags.Namespace,
		Actor: cmp.Or(a.Flags.Actor, a.Env("FLOWFABRIC_ACTOR")), Token: a.Env("FLOWFABRIC_TOKEN"),
		Logger: slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	tokenFile := a.Flags.TokenFile
	if w.URL == "" || a.Flags.profile != "" && a.Flags.URL == "" {
		w.URL = p.URL
	}
	if w.URL == p.URL { // the other settings of the profile belong to its URL
		w.Prefix, w.Namespace = cmp.Or(w.Prefix, p.Prefix), cmp.Or(w.Namespace, p.Namespace)
		w.Actor, tokenFile = cmp.Or(w.Actor, p.Actor), cmp.Or(tokenFile, p.TokenFile)
	}
	if tokenFile != "" && (w.Token == "" || a.Flags.TokenFile != "") {
		if w.Token, err = profile.ReadToken(tokenFile, a.Env); err != nil {
			return w, Usage("token: %v", err)
		}
	}
	return w, nil
}

func (a *App) profile() (profile.Profile, error) {
	file, err := profile.Read(profile.Path(a.Env))
	if err != nil {
		return profile.Profile{}, err
	}
	return file.Named(cmp.Or(a.Flags.profile, a.Env("FLOWFABRIC_PROFILE")))
}

// options are the options of the output.
func (a *App) options() (output.Options, error) {
	format := a.Flags.Output
	if format == "" {
		p, err := a.profile()
		if err != nil {
			return output.Options{}, err
		}
		format = cmp.Or(p.Output, string(output.Table))
	}
	o := output.Options{Format: output.Format(format), Columns: a.Flags.columns, NoHeaders: a.Flags.noHeaders}
	if err := o.Check(); err != nil {
		return o, Usage("%v", err)
	}
	switch a.Flags.color {
	case "always":
		o.Color = true
	case "auto":
		o.Color = isTerminal(a.Stdout) && a.Env("NO_COLOR") == "" && a.Env("TERM") != "dumb"
	case "never":
	default:
		return o, Usage("--color %q: must be auto, always or never", a.Flags.color)
	}
	return o, nil
}

// deadline is the context of a command with the time of --timeout.
func (a *App) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.Flags.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, a.Flags.timeout,
		fmt.Errorf("%w: --timeout %s has passed", context.DeadlineExceeded, a.Flags.timeout))
}

// Interactive reports whether a person can answer questions.
func (a *App) Interactive() bool { return isTerminal(a.Stdin) && isTerminal(a.Stderr) }

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (a *App) DeclareGlobalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.Flags.URL, "url", "",
		"the engine or server; FLOWFABRIC_URL by default") // help shows no password
	flags.StringVar(&a.Flags.profile, "profile", "", "the profile to use; FLOWFABRIC_PROFILE by default")
	flags.StringVar(&a.Flags.Prefix, "prefix", "", "the prefix of the engine's keys")
	flags.StringVar(&a.Flags.Namespace, "namespace", "", "the namespace of runs of the engine")
	flags.StringVar(&a.Flags.Actor, "actor", "",
		"who acts on the engine, for the audit log; FLOWFABRIC_ACTOR by default")
	flags.StringVar(&a.Flags.TokenFile, "token-file", "",
		"the `file` of the token for a server; FLOWFABRIC_TOKEN has one by default")
	flags.StringVarP(&a.Flags.Output, "output", "o", "", "table, wide, json, jsonl, yaml or name")
	flags.BoolVar(&a.Flags.noHeaders, "no-headers", false, "tables have no heads")
	flags.StringVar(&a.Flags.color, "color", "auto",
		"states have colours: auto (on a terminal, without NO_COLOR), always or never")
	flags.DurationVar(&a.Flags.timeout, "timeout", 0,
		"give up after this time; 0 is never. Without it, a command that only reads waits 30s for each reply")
	formats := make([]cobra.Completion, 0, len(output.Formats()))
	for _, f := range output.Formats() {
		formats = append(formats, string(f))
	}
	Must(root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	Must(root.RegisterFlagCompletionFunc("profile", a.CompleteProfiles))
	Must(root.RegisterFlagCompletionFunc("color",
		cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp)))
}
