package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// errNotWaiting means that the deployment does not wait for an answer.
var errNotWaiting = errors.New("the deployment does not wait for answers")

// openWait returns the open waitpoint of a deployment.
func openWait(ctx context.Context, client *runtime.Client, version string) (runtime.Waitpoint, error) {
	waits, err := client.Run(flowName, version).Waitpoints(ctx)
	if err != nil {
		return runtime.Waitpoint{}, err
	}
	for _, w := range waits {
		if w.Node == approval {
			return w, nil
		}
	}
	return runtime.Waitpoint{}, fmt.Errorf("%s: %w", version, errNotWaiting)
}

// answer gives the answer of one person. Given again, it changes nothing.
func answer(
	ctx context.Context, client *runtime.Client, version string, d activity.Decision,
) (fabrictype.SignalResult, error) {
	wait, err := openWait(ctx, client, version)
	if err != nil {
		return fabrictype.SignalResult{}, err
	}
	who := strings.ToLower(d.By)
	return client.Signal(ctx, wait.Token,
		runtime.Signal{Name: d.Choice, Source: who, Payload: d, IdempotencyKey: d.Choice + " " + who})
}

// answerCommand is approve and reject.
func answerCommand(ctx context.Context, p program, o options) error {
	return withClient(ctx, p, o, func(client *runtime.Client) error {
		delivery, err := answer(ctx, client, o.version,
			activity.Decision{Choice: o.command.name, By: o.by, Comment: o.comment})
		if err != nil {
			return err
		}
		fmt.Fprintln(p.stdout, outcome(delivery, o.by))
		return nil
	})
}

// outcome describes the outcome of an answer.
func outcome(d fabrictype.SignalResult, who string) string {
	switch d.Outcome {
	case fabrictype.SignalAccepted:
		return fmt.Sprintf("The answer of %s is recorded. Others have to answer, too.", who)
	case fabrictype.SignalResumed:
		return fmt.Sprintf("The answer of %s is recorded, and decides.", who)
	case fabrictype.SignalDuplicate:
		return fmt.Sprintf("%s has answered so before. Nothing has changed.", who)
	}
	return "It is decided already. Nothing has changed."
}

// asker asks people on standard input while a deployment waits for them.
type asker struct {
	client  *runtime.Client
	version string
	lines   <-chan string
	console *console

	cancel context.CancelFunc
	asking sync.WaitGroup
}

// newAsker returns nil if people cannot be asked on this terminal.
func newAsker(client *runtime.Client, stdin *os.File, out *console, o options) *asker {
	if !o.ask.onTerminal(stdin) {
		return nil
	}
	return &asker{client: client, version: o.version, lines: readLines(stdin), console: out}
}

// readLines reads until the end of the input. A read cannot be broken off, so this goroutine ends with the process.
func readLines(in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			lines <- strings.TrimSpace(scanner.Text())
		}
	}()
	return lines
}

// event begins to ask when the waitpoint opens, and stops when it is closed.
func (a *asker) event(ctx context.Context, e fabrictype.Event) {
	switch e.Kind {
	case fabrictype.EventSignalled, fabrictype.EventEscalated:
		return
	}
	a.stop()
	if e.Kind != fabrictype.EventSuspended {
		return
	}
	ctx, a.cancel = context.WithCancel(ctx)
	a.asking.Go(func() { a.ask(ctx) })
}

func (a *asker) stop() {
	if a.cancel != nil {
		a.cancel()
		a.asking.Wait()
		a.cancel = nil
	}
}

// ask asks one person after the other, until ctx ends, the wait is decided or the input ends.
func (a *asker) ask(ctx context.Context) {
	for {
		if _, err := openWait(ctx, a.client, a.version); err != nil {
			return
		}
		d, ok := a.question(ctx)
		if !ok {
			return
		}
		delivery, err := answer(ctx, a.client, a.version, d)
		if err != nil {
			if ctx.Err() == nil {
				a.console.printf("%s", err)
			}
			return
		}
		a.console.printf("%s", outcome(delivery, d.By))
		if delivery.Outcome != fabrictype.SignalAccepted && delivery.Outcome != fabrictype.SignalDuplicate {
			return
		}
	}
}

// question reads one answer.
func (a *asker) question(ctx context.Context) (d activity.Decision, ok bool) {
	if d.By, ok = a.line(ctx, "Your name (empty to leave it to others): "); !ok || d.By == "" {
		return d, false
	}
	for d.Choice == "" {
		word, ok := a.line(ctx, fmt.Sprintf("%s, do you approve or reject %s? ", d.By, a.version))
		if !ok {
			return d, false
		}
		for _, choice := range []string{approve, reject} {
			if word != "" && strings.HasPrefix(choice, strings.ToLower(word)) {
				d.Choice = choice
			}
		}
	}
	d.Comment, ok = a.line(ctx, "Comment (may be empty): ")
	return d, ok
}

// line reads a line, unless ctx or the input ends before.
func (a *asker) line(ctx context.Context, question string) (line string, ok bool) {
	a.console.ask(question)
	select {
	case line, ok = <-a.lines:
	case <-ctx.Done():
	}
	a.console.answered(ok)
	return line, ok
}
