package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// keyVariable is the variable of the environment that has the key of the model.
const keyVariable = "MODEL_API_KEY"

const sampleQuestion = "What do 3 days in the large hall cost a member? Write it to a note."

// options has the values of the command line.
type options struct {
	question string
	engine   string
	run      string
	modelURL string
	model    string
	key      string
	budget   int64
	notes    string
	ask      bool
	verbose  bool
}

const usageText = `Usage: agent [flags] [question]

Answers a question about the texts in examples/agent/corpus.

`

// parseOptions reads the command line. It returns every fault at once; flag.ErrHelp after it has printed the help.
func parseOptions(args []string, help io.Writer) (options, error) {
	o := options{key: os.Getenv(keyVariable)}
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.engine, "engine", os.Getenv("FLOWFABRIC_URL"),
		"`URL` of the engine: embedded:, embedded:DIR, redis://…, valkey://…; default $FLOWFABRIC_URL, else in memory")
	flags.StringVar(&o.run, "run", "", "`id` of the run; the same id and question continue a run; default a new one")
	flags.StringVar(&o.modelURL, "model-url", "",
		"`URL` in front of /chat/completions, such as https://models.example/v1; its key is $"+keyVariable+
			"; default the model of this program")
	flags.StringVar(&o.model, "model", "local", "`name` of the model")
	flags.Int64Var(&o.budget, "budget", 20_000, "hard limit of the run, in `tokens`")
	flags.StringVar(&o.notes, "notes", "", "`directory` for notes; default a new one for temporary files")
	flags.BoolVar(&o.ask, "ask", false, "ask for approvals on standard input; default the program approves")
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
	if o.question = strings.Join(flags.Args(), " "); o.question == "" {
		o.question = sampleQuestion
	}
	if len(o.run) > 256 {
		faults = append(faults, fmt.Errorf("-run: has %d bytes, must have at most 256", len(o.run)))
	}
	if o.budget < 1 {
		faults = append(faults, fmt.Errorf("-budget %d: must be 1 or more", o.budget))
	}
	if u, err := url.Parse(o.modelURL); o.modelURL != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		faults = append(faults, fmt.Errorf("-model-url %q: must be a URL of http or https", o.modelURL))
	}
	o.modelURL = strings.TrimSuffix(o.modelURL, "/")
	return o, errors.Join(faults...)
}
