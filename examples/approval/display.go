package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// console writes lines, and keeps a question that waits for its answer at the end.
type console struct {
	mu       sync.Mutex
	out      io.Writer
	question string
}

func (c *console) printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.question != "" {
		fmt.Fprintln(c.out)
	}
	fmt.Fprintf(c.out, format+"\n", args...)
	fmt.Fprint(c.out, c.question)
}

// ask prints a question.
func (c *console) ask(question string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.question = question
	fmt.Fprint(c.out, question)
}

// answered records that the question is answered. An answer that a person has typed has ended the line already.
func (c *console) answered(typed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.question = ""
	if !typed {
		fmt.Fprintln(c.out)
	}
}

// display writes a line for everything in a deployment that people want to know.
type display struct {
	console *console
	begun   time.Time
}

func (d *display) event(e fabrictype.Event) {
	if d.begun.IsZero() {
		d.begun = e.At
	}
	if text := words(e); text != "" {
		d.console.printf("%7.1fs  %-13s  %s", e.At.Sub(d.begun).Seconds(), e.Node, text)
	}
}

// words describes an event, "" for one that is not shown.
func words(e fabrictype.Event) string {
	switch e.Kind {
	case fabrictype.EventStarted:
		if e.Attempt > 1 {
			return fmt.Sprintf("runs, attempt %d", e.Attempt)
		}
		return "runs"
	case fabrictype.EventSucceeded:
		if e.Node == approval {
			return "is decided"
		}
		return "finished"
	case fabrictype.EventSuspended:
		return fmt.Sprintf("waits for %d people", approvers)
	case fabrictype.EventSignalled:
		return "somebody answers: " + e.Detail
	case fabrictype.EventEscalated:
		return "ESCALATED: nobody has decided in time; it goes on waiting"
	case fabrictype.EventRetry, fabrictype.EventFailed, fabrictype.EventCancelled, fabrictype.EventExpired:
		return fmt.Sprintf("%s: %s", e.Kind, e.Detail)
	case "lease_expired":
		return "its process is gone"
	case "reclaimed":
		return "is taken over"
	case "released":
		return "is released by its worker"
	}
	return ""
}
