package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/explain"
	"github.com/flowfabric/flowfabric-go/internal/runview"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

const (
	// whyPatience bounds how much later Result returns because it reads why the run waits.
	whyPatience = 2 * time.Second
	// whyAtOnce bounds the calls of Result of a client that read why their runs wait at the same time. Further ones
	// return without the reason.
	whyAtOnce = 8
	// whyDepth bounds how many child runs of child runs are read.
	whyDepth = 4
)

// waits is the node for which a run waits, through child runs.
type waits struct {
	text, reason string
	// moves is set when some node of the run is active.
	moves bool
}

// waitReasons reads for the calls of Result of a client why their runs wait.
type waitReasons struct {
	session *engine.Session
	// reading has a place for each call that reads when its context has ended.
	reading chan struct{}
}

func newWaitReasons(s *engine.Session) *waitReasons {
	return &waitReasons{session: s, reading: make(chan struct{}, whyAtOnce)}
}

// whyWaits returns the node of a run that needs attention most, with the reason for which it waits.
func whyWaits(ctx context.Context, s *engine.Session, run engine.Run) (waits, error) {
	var w waits
	for range whyDepth {
		reader := runview.Reader{Session: s, Run: run}
		d, err := reader.Describe(ctx, runview.Request{Paged: true, Nodes: describe.MaxPage})
		if err != nil {
			return w, err
		}
		worst := explain.Worst(d.Nodes)
		if worst == nil {
			return w, nil
		}
		if w.text != "" {
			w.text += ": "
		}
		w.reason = worst.Waiting.Reason
		for i := range d.Nodes {
			w.moves = w.moves || d.Nodes[i].State == fabrictype.NodeActive
		}
		if w.reason == "" {
			w.text += fmt.Sprintf("node %s runs", worst.Name)
			return w, nil
		}
		w.text += "node " + worst.Name + " " + strings.Replace("waits: "+worst.Waiting.Sentence, "waits: waits ", "waits ", 1)
		if w.reason != waitreason.ChildRun {
			return w, nil
		}
		if run, err = submit.LocateRun(s, worst.Waiting.Key, worst.Waiting.Subject); err != nil {
			return w, err
		}
	}
	return w, nil
}

// withReason adds to the error of a wait whose deadline has passed why the run waits. It reads that within whyPatience.
func (r *waitReasons) withReason(ctx context.Context, run engine.Run, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
		return err
	}
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
	default:
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), whyPatience)
	defer cancel()
	w, unread := whyWaits(ctx, r.session, run)
	if unread != nil || w.text == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, w.text)
}

// noteStuck logs why a run waits for which a call of Result waits, if it does not move until a program or an operator
// acts, and returns the reason. It logs nothing for the reason that it has logged last.
func (r *waitReasons) noteStuck(ctx context.Context, flow, run, logged string) string {
	ctx, cancel := context.WithTimeout(ctx, whyPatience)
	defer cancel()
	at, err := submit.LocateRun(r.session, flow, run)
	if err != nil {
		return logged
	}
	w, err := whyWaits(ctx, r.session, at)
	if err != nil || w.moves || !explain.NeedsOperator(w.reason) || w.text == logged {
		return logged
	}
	r.session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: a run does not continue by itself",
		observe.EventRunStuck.Attr(), slog.String("flow", flow), slog.String("run", run), slog.String("why", w.text))
	return w.text
}
