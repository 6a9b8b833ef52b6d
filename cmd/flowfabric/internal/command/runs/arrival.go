package runs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// arrivalFlags set how a run may start by its key.
type arrivalFlags struct {
	key, whenTaken, throttle    string
	atOnce, maxInputs           int
	uniqueFor, debounce, atMost time.Duration
	reject, collect             bool
}

func declareArrival(flags *pflag.FlagSet) *arrivalFlags {
	a := new(arrivalFlags)
	flags.StringVar(&a.key, "key", "", "the key of the run: one run of the flow with it is open at a time")
	flags.IntVar(&a.atOnce, "at-once", 0, "how many runs of the key may be open")
	flags.StringVar(&a.whenTaken, "when-taken", "",
		"the policy for a run when all places of its key are taken: reject, queue, join or cancel")
	cliflag.DeclareDuration(flags, &a.uniqueFor, "unique-for", 0, "for this time, the first run of the key is returned")
	flags.StringVar(&a.throttle, "throttle", "",
		"how many runs, with the key if there is one, start within a time, or several: 10/1m,100/1h; more start later")
	flags.BoolVar(&a.reject, "reject", false, "with --throttle, refuse further runs")
	cliflag.DeclareDuration(flags, &a.debounce, "debounce", 0,
		"start one run for all calls with the key, this time after the last one")
	cliflag.DeclareDuration(flags, &a.atMost, "at-most", 0, "with --debounce, start at the latest this time after the first call")
	flags.BoolVar(&a.collect, "collect", false, "with --debounce, the input is the list of all inputs")
	flags.IntVar(&a.maxInputs, "max-inputs", 0, "with --collect, most inputs of a run")
	return a
}

// check returns an error for flags that are invalid by themselves.
func (a *arrivalFlags) check() error {
	var faults []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	_, err := a.windows()
	faults = append(faults, err)
	fault(a.throttle != "" && a.debounce != 0, "--throttle and --debounce: set either of them")
	ofKey := a.atOnce != 0 || a.whenTaken != "" || a.uniqueFor != 0
	fault(ofKey && (a.throttle != "" || a.debounce != 0),
		"--at-once, --when-taken, --unique-for: they do not go with --throttle and --debounce")
	fault((ofKey || a.debounce != 0) && a.key == "",
		"--key: it is needed with --at-once, --when-taken, --unique-for and --debounce")
	fault(a.reject && a.throttle == "", "--reject: it needs --throttle")
	fault((a.atMost != 0 || a.collect) && a.debounce == 0, "--at-most, --collect: they need --debounce")
	fault(a.maxInputs != 0 && !a.collect, "--max-inputs: it needs --collect")
	return errors.Join(faults...)
}

// windows returns the windows of --throttle: one at least, or none without the flag.
func (a *arrivalFlags) windows() (list []api.StartWindow, err error) {
	if a.throttle == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(a.throttle, ",") {
		number, span, _ := strings.Cut(part, "/")
		var w api.StartWindow
		w.Starts, err = strconv.Atoi(number)
		if err == nil {
			w.Per.Duration, err = time.ParseDuration(span)
		}
		if err != nil {
			return nil, fmt.Errorf("--throttle %q: must be a number of runs and a time, as in 10/1h", part)
		}
		list = append(list, w)
	}
	return list, nil
}

// fill sets the fields of a run from the flags.
func (a *arrivalFlags) fill(run *api.NewRun) {
	windows, _ := a.windows() // check has seen it
	switch {
	case len(windows) > 0:
		run.Throttle = &api.StartThrottle{
			Key: a.key, Starts: windows[0].Starts, Per: windows[0].Per, Also: windows[1:], Reject: a.reject,
		}
	case a.debounce != 0:
		run.Debounce = &api.StartDebounce{
			Key: a.key, Quiet: fabrictype.Duration{Duration: a.debounce},
			AtMost:  fabrictype.Duration{Duration: a.atMost},
			Collect: a.collect, MaxInputs: a.maxInputs,
		}
	case a.key != "":
		run.Key = &api.StartKey{
			Key: a.key, AtOnce: a.atOnce, WhenTaken: a.whenTaken, UniqueFor: fabrictype.Duration{Duration: a.uniqueFor},
		}
	}
}

// startSignalFlags are a signal to the run, which is started if it does not exist.
type startSignalFlags struct {
	name, node, step string
	payload          *cliflag.JSON
}

func declareStartSignal(flags *pflag.FlagSet) *startSignalFlags {
	s := &startSignalFlags{payload: cliflag.DeclareJSON(flags, "payload", "the payload of --signal")}
	flags.StringVar(&s.name, "signal", "", "deliver this signal to the run of --id, which is started if there is none")
	flags.StringVar(&s.node, "node", "", "the node that waits for --signal")
	flags.StringVar(&s.step, "step", "", "the step of the node that waits for --signal")
	return s
}

func (s *startSignalFlags) check() error {
	if s.name == "" && (s.node != "" || s.step != "") {
		return errors.New("--node, --step: they need --signal")
	}
	if s.name != "" && s.node == "" {
		return errors.New("--node: it is needed with --signal")
	}
	return s.payload.Check("payload")
}

// read returns the signal; nil without one.
func (s *startSignalFlags) read(r *shell.Request) (*api.StartSignal, error) {
	payload, err := s.payload.Read(r, "payload")
	if err != nil || s.name == "" {
		return nil, err
	}
	return &api.StartSignal{
		Node: s.node, Step: s.step, SignalBody: api.SignalBody{Name: s.name, Payload: payload},
	}, nil
}
