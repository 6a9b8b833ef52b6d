package shell

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// OperationsKey is the annotation of a command with the names of the operations that it calls.
const OperationsKey = "operations"

// Must panics on mistakes of this program, which every test would find.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// NameOf is the name of a command without the name of the program.
func NameOf(c *cobra.Command) string {
	_, name, found := strings.Cut(c.CommandPath(), " ")
	if !found {
		return c.CommandPath()
	}
	return name
}

// Wrap breaks a text into lines for a terminal. An empty line begins a paragraph.
func Wrap(text string) string {
	const width = 79
	paragraphs := strings.Split(text, "\n\n")
	for i, paragraph := range paragraphs {
		var lines []string
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			if line != "" && len(line)+1+len(word) > width {
				lines, line = append(lines, line), ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		paragraphs[i] = strings.Join(append(lines, line), "\n")
	}
	return strings.Join(paragraphs, "\n\n")
}

// unopenedAfter is how long a command with unopened waits for an engine that is not ready.
const unopenedAfter = 15 * time.Second

// Spec describes a command.
type Spec struct {
	// Use is the name with the arguments, such as "show FLOW RUN"; optional ones are last, in brackets.
	Use, Short, Long, Example string
	// Calls are the operations that it calls.
	Calls []httpapi.Entry
	// Check refuses flags that make no sense, before anything is opened.
	Check func(args []string) error
	// Columns are the columns of its table; empty without one.
	Columns []string
	// EngineOnly marks a command that does not work through a server.
	EngineOnly bool
	// Follows marks a command that shows the state until it is stopped, however long a reply takes.
	Follows bool
	Do      func(*Request) error
	// Unopened runs instead of do when the engine or the server could not be opened, and returns the error of the
	// command. Without it, the command returns the reason.
	Unopened func(*Request, error) error
}

// Command returns a command that opens a session.
func (a *App) Command(s Spec) *cobra.Command {
	c := a.Standalone(s)
	run := s.Do
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.carryOut(c, s, splitRun(s.Use, args), run)
	}
	return c
}

// Standalone returns a command without a session: do gets a request that has none.
func (a *App) Standalone(s Spec) *cobra.Command {
	c := &cobra.Command{
		Use: s.Use, Short: s.Short, Long: Wrap(s.Long), Example: s.Example, ValidArgsFunction: a.complete(s.Use),
		DisableFlagsInUseLine: true,
	}
	if len(s.Calls) > 0 {
		names := make([]string, len(s.Calls))
		for i, entry := range s.Calls {
			names[i] = entry.Entry().Name
			if entry.Entry().Effect == httpapi.Destroys && c.Flags().Lookup("yes") == nil {
				c.Flags().BoolVarP(&a.Flags.Yes, "yes", "y", false, "do not ask")
				c.Flags().BoolVar(&a.Flags.DryRun, "dry-run", false, "only print the intended change")
			}
		}
		c.Annotations = map[string]string{OperationsKey: strings.Join(names, " ")}
	}
	if len(s.Columns) > 0 {
		c.Flags().StringSliceVar(&a.Flags.columns, "columns", nil,
			"the columns of the table, with commas, of: "+strings.Join(s.Columns, ", "))
		Must(c.RegisterFlagCompletionFunc("columns",
			cobra.FixedCompletions(s.Columns, cobra.ShellCompDirectiveNoFileComp)))
	}
	c.Args = func(c *cobra.Command, args []string) error {
		args = splitRun(s.Use, args)
		if err := NotNegative("timeout", a.Flags.timeout); err != nil {
			return Usage("%s: %w", NameOf(c), err)
		}
		if err := checkArguments(s.Use, args); err != nil {
			return Usage("%s: %w", NameOf(c), err)
		}
		if err := output.CheckColumns(a.Flags.columns, s.Columns); err != nil {
			return Usage("%s: %w", NameOf(c), err)
		}
		if s.Check == nil {
			return nil
		}
		if err := s.Check(args); err != nil {
			return Usage("%s: %w", NameOf(c), err)
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		o, err := a.options()
		if err != nil {
			return err
		}
		ctx, cancel := a.deadline(c.Context())
		defer cancel()
		return s.Do(&Request{App: a, Context: ctx, Cmd: c, Out: output.New(c.OutOrStdout(), o), Args: args})
	}
	return c
}

// carryOut opens a session and runs the command.
func (a *App) carryOut(c *cobra.Command, s Spec, args []string, do func(*Request) error) error {
	o, err := a.options()
	if err != nil {
		return err
	}
	where, err := a.where(c.Context(), s)
	if err != nil {
		return err
	}
	if err := where.Check(); err != nil {
		return err
	}
	if s.EngineOnly && where.IsServer() {
		return Usage("%s: needs an engine, got the server %s", NameOf(c), where.URL)
	}
	ctx, cancel := a.deadline(c.Context())
	defer cancel()
	r := &Request{
		App: a, Context: ctx, Cmd: c, Out: output.New(c.OutOrStdout(), o), Args: args, patience: a.patience(c, s),
	}
	open, stop := ctx, func() {}
	if s.Unopened != nil { // it reports why the engine is not ready, so it waits for a short time only
		open, stop = context.WithTimeout(ctx, unopenedAfter)
	}
	r.Session, err = a.Open(open, where)
	stop()
	switch {
	case err != nil && s.Unopened != nil:
		return s.Unopened(r, err)
	case err != nil:
		return err
	}
	defer r.Session.Close()
	return do(r)
}

// where returns the engine or server of a command.
func (a *App) where(ctx context.Context, s Spec) (connect.Where, error) {
	if s.EngineOnly {
		return a.Where()
	}
	return a.Reach(ctx)
}

// patience is how long a command waits for a reply to a read; 0 is for ever, as for a command that changes something,
// that follows, or that has --timeout.
func (a *App) patience(c *cobra.Command, s Spec) time.Duration {
	for _, entry := range s.Calls {
		if op := entry.Entry(); op.Effect != httpapi.Reads || op.Streams {
			return 0
		}
	}
	wait := c.Flags().Lookup("wait")
	if s.Follows || c.Flags().Changed("timeout") || wait != nil && wait.Changed {
		return 0
	}
	return a.Patience
}

// Group returns a command that has others.
func (a *App) Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.AddCommand(commands...)
	a.RefuseUnknown(c)
	return c
}

// RefuseUnknown makes a group print its help, and refuse unknown commands, with suggestions.
func (a *App) RefuseUnknown(c *cobra.Command) {
	c.SuggestionsMinimumDistance = 2
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		text := fmt.Sprintf("%s has no command %q", c.CommandPath(), args[0])
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			text += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return usageError{fmt.Errorf("%s", text)}
	}
}

// ArgumentNames returns the names of the arguments of a command.
func ArgumentNames(use string) []string { return strings.Fields(use)[1:] }

// splitRun splits FLOW/RUN into two arguments where a command takes a flow and a run. Names of flows have no slash.
func splitRun(use string, args []string) []string {
	names := ArgumentNames(use)
	if len(names) < 2 || len(args) == 0 || strings.Trim(names[0], "[]") != "FLOW" || strings.Trim(names[1],
		"[]") != "RUN" {
		return args
	}
	flow, run, found := strings.Cut(args[0], "/")
	if !found {
		return args
	}
	return append([]string{flow, run}, args[1:]...)
}

// checkArguments checks arguments against the names in the usage of a command. Optional arguments come all or none
// where they are in one pair of brackets.
func checkArguments(use string, args []string) error {
	names := ArgumentNames(use)
	least, most := 0, len(names)
	optional := false
	for _, name := range names {
		optional = optional || strings.HasPrefix(name, "[")
		if !optional {
			least++
		}
	}
	text := strings.Join(names, " ")
	switch {
	case most == 0 && len(args) > 0:
		return fmt.Errorf("takes no arguments, got %q", args)
	case len(args) < least || len(args) > most:
		return fmt.Errorf("takes %s, got %d arguments: %q", text, len(args), args)
	case strings.Contains(use, "[FLOW RUN]") && len(args) == 1:
		return fmt.Errorf("takes %s, got the flow alone: %q", text, args)
	}
	for i, arg := range args {
		if arg == "" {
			return fmt.Errorf("takes %s, argument %d is empty", text, i+1)
		}
	}
	return nil
}

// NotNegative checks a flag that is a bound.
func NotNegative[N int | time.Duration | float64](name string, n N) error {
	if n < 0 {
		return fmt.Errorf("--%s %v: must not be negative", name, n)
	}
	return nil
}
