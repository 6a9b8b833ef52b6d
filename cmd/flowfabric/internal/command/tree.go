package command

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

// operationsKey is the annotation of a command with the names of the operations that it calls.
const operationsKey = "operations"

// tree returns the commands.
func (a *App) tree() *cobra.Command {
	root := &cobra.Command{
		Use:   "flowfabric",
		Short: "Serves engines of FlowFabric, shows their state, and lets people intervene",
		Long: wrap("Serves engines of FlowFabric, shows their state, and lets people intervene.\n\n" +
			"Commands work on an engine (valkey://host:6379, redis://host:6379, embedded:DIR) or through a " +
			"server of it (https://host:8080), which --url, --profile or FLOWFABRIC_URL names."),
		SilenceErrors: true, SilenceUsage: true,
		Version: connect.Version(),
	}
	a.declareGlobalFlags(root)
	root.AddGroup(&cobra.Group{ID: "serve", Title: "Serve:"}, &cobra.Group{ID: "runs", Title: "Runs:"},
		&cobra.Group{ID: "load", Title: "Flows, schedules and load:"},
		&cobra.Group{ID: "deploy", Title: "Deployment:"})
	root.SetHelpCommandGroupID("deploy")
	root.SetCompletionCommandGroupID("deploy")
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("serve", a.devCommand(), a.serverCommand(), a.keeperCommand(), a.mcpCommand(), a.doctorCommand())
	add("runs", a.startCommand(), a.runCommand(), a.inboxCommand(), a.answerCommand(), a.signalCommand(),
		a.waitCommand(),
		a.timerCommand(), a.valuesCommand(), a.attemptsCommand(), a.bulkCommand(), a.feedCommand())
	add("load", a.flowCommand(), a.scheduleCommand(), a.laneCommand(), a.activityCommand(), a.limitCommand(),
		a.budgetCommand(), a.workerCommand(), a.topCommand())
	add("deploy", a.tokenCommand(), a.sessionCommand(), a.secretCommand(), a.auditCommand(), a.executionCommand(),
		a.aclCommand(),
		a.archiveCommand(), a.backupCommand(), a.moveCommand(), a.infoCommand(), a.profileCommand(), a.manualCommand(),
		a.versionCommand())
	a.refuseUnknown(root)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage("%s: %v", nameOf(c), err) })
	return root
}

func (a *App) declareGlobalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.flags.url, "url", "",
		"the engine or server; FLOWFABRIC_URL by default") // help shows no password
	flags.StringVar(&a.flags.profile, "profile", "", "the profile to use; FLOWFABRIC_PROFILE by default")
	flags.StringVar(&a.flags.prefix, "prefix", "", "the prefix of the engine's keys")
	flags.StringVar(&a.flags.namespace, "namespace", "", "the namespace of runs of the engine")
	flags.StringVar(&a.flags.actor, "actor", "",
		"who acts on the engine, for the audit log; FLOWFABRIC_ACTOR by default")
	flags.StringVar(&a.flags.tokenFile, "token-file", "",
		"the `file` of the token for a server; FLOWFABRIC_TOKEN has one by default")
	flags.StringVarP(&a.flags.output, "output", "o", "", "table, wide, json, jsonl, yaml or name")
	flags.BoolVar(&a.flags.noHeaders, "no-headers", false, "tables have no heads")
	flags.DurationVar(&a.flags.timeout, "timeout", 0, "give up after this time; 0 is never")
	formats := make([]cobra.Completion, 0, len(output.Formats()))
	for _, f := range output.Formats() {
		formats = append(formats, string(f))
	}
	must(root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	must(root.RegisterFlagCompletionFunc("profile", a.completeProfiles))
}

// must panics on mistakes of this program, which every test would find.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// nameOf is the name of a command without the name of the program.
func nameOf(c *cobra.Command) string {
	_, name, found := strings.Cut(c.CommandPath(), " ")
	if !found {
		return c.CommandPath()
	}
	return name
}

// wrap breaks a text into lines for a terminal. An empty line begins a paragraph.
func wrap(text string) string {
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

// spec describes a command.
type spec struct {
	// use is the name with the arguments, such as "show FLOW RUN"; optional ones are last, in brackets.
	use, short, long, example string
	// calls are the operations that it calls.
	calls []httpapi.Entry
	// check refuses flags that make no sense, before anything is opened.
	check func(args []string) error
	// columns are the columns of its table; empty without one.
	columns []string
	// engineOnly marks a command that does not work through a server.
	engineOnly bool
	do         func(*request) error
	// unopened runs instead of do when the engine or the server could not be opened, and returns the error of the
	// command. Without it, the command returns the reason.
	unopened func(*request, error) error
}

// command returns a command that opens a session.
func (a *App) command(s spec) *cobra.Command {
	c := a.standalone(s)
	run := s.do
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.carryOut(c, s, splitRun(s.use, args), run)
	}
	return c
}

// standalone returns a command without a session: do gets a request that has none.
func (a *App) standalone(s spec) *cobra.Command {
	c := &cobra.Command{
		Use: s.use, Short: s.short, Long: wrap(s.long), Example: s.example, ValidArgsFunction: a.complete(s.use),
		DisableFlagsInUseLine: true,
	}
	if len(s.calls) > 0 {
		names := make([]string, len(s.calls))
		for i, entry := range s.calls {
			names[i] = entry.Entry().Name
			if entry.Entry().Effect == httpapi.Destroys && c.Flags().Lookup("yes") == nil {
				c.Flags().BoolVarP(&a.flags.yes, "yes", "y", false, "do not ask")
				c.Flags().BoolVar(&a.flags.dryRun, "dry-run", false, "only print the intended change")
			}
		}
		c.Annotations = map[string]string{operationsKey: strings.Join(names, " ")}
	}
	if len(s.columns) > 0 {
		c.Flags().StringSliceVar(&a.flags.columns, "columns", nil,
			"the columns of the table, with commas, of: "+strings.Join(s.columns, ", "))
		must(c.RegisterFlagCompletionFunc("columns",
			cobra.FixedCompletions(s.columns, cobra.ShellCompDirectiveNoFileComp)))
	}
	c.Args = func(c *cobra.Command, args []string) error {
		args = splitRun(s.use, args)
		if err := notNegative("timeout", a.flags.timeout); err != nil {
			return usage("%s: %w", nameOf(c), err)
		}
		if err := checkArguments(s.use, args); err != nil {
			return usage("%s: %w", nameOf(c), err)
		}
		if err := output.CheckColumns(a.flags.columns, s.columns); err != nil {
			return usage("%s: %w", nameOf(c), err)
		}
		if s.check == nil {
			return nil
		}
		if err := s.check(args); err != nil {
			return usage("%s: %w", nameOf(c), err)
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
		return s.do(&request{App: a, Context: ctx, cmd: c, out: output.New(c.OutOrStdout(), o), args: args})
	}
	return c
}

// carryOut opens a session and runs the command.
func (a *App) carryOut(c *cobra.Command, s spec, args []string, do func(*request) error) error {
	o, err := a.options()
	if err != nil {
		return err
	}
	where, err := a.where()
	if err != nil {
		return err
	}
	if err := where.Check(); err != nil {
		return err
	}
	if s.engineOnly && where.IsServer() {
		return usage("%s: needs an engine, got the server %s", nameOf(c), where.URL)
	}
	ctx, cancel := a.deadline(c.Context())
	defer cancel()
	r := &request{App: a, Context: ctx, cmd: c, out: output.New(c.OutOrStdout(), o), args: args}
	open, stop := ctx, func() {}
	if s.unopened != nil { // it reports why the engine is not ready, so it waits for a short time only
		open, stop = context.WithTimeout(ctx, unopenedAfter)
	}
	r.session, err = a.Open(open, where)
	stop()
	switch {
	case err != nil && s.unopened != nil:
		return s.unopened(r, err)
	case err != nil:
		return err
	}
	defer r.session.Close()
	return do(r)
}

// group returns a command that has others.
func (a *App) group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.AddCommand(commands...)
	a.refuseUnknown(c)
	return c
}

// refuseUnknown makes a group print its help and refuse unknown commands, with suggestions.
func (a *App) refuseUnknown(c *cobra.Command) {
	c.SuggestionsMinimumDistance = 2
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			_ = c.Help() // to the terminal
			return usage("%s: which command?", c.CommandPath())
		}
		text := fmt.Sprintf("%s has no command %q", c.CommandPath(), args[0])
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			text += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return usageError{fmt.Errorf("%s", text)}
	}
}

// argumentNames returns the names of the arguments of a command.
func argumentNames(use string) []string { return strings.Fields(use)[1:] }

// splitRun splits FLOW/RUN into two arguments where a command takes a flow and a run. Names of flows have no slash.
func splitRun(use string, args []string) []string {
	names := argumentNames(use)
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
	names := argumentNames(use)
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
