package enginerpc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
)

// WhileUnready repeats do while its error means that a server is not ready: it loads its data, runs a long script, is a
// replica, or belongs to a cluster that is not whole. It ends when ctx does; without a deadline of ctx also after
// Options.RetryFor, unless a server loads, which ends by itself. Each time that it begins to wait, a line is logged.
func WhileUnready(ctx context.Context, o Options, do func() error) error {
	begun, pause := time.Now(), firstPause
	var before error
	for {
		err := do()
		if err == nil || !isUnready(err) && ctx.Err() == nil {
			return err
		}
		if !isUnready(err) && before != nil {
			return withBefore(endedContext(ctx), before)
		}
		if !isUnready(err) || ctx.Err() != nil {
			return err
		}
		deadline, bounded := ctx.Deadline()
		if !bounded {
			deadline = begun.Add(cmp.Or(o.RetryFor, defaultRetryFor))
		}
		if time.Now().Add(pause).After(deadline) && (bounded || !isLoading(err)) {
			return err
		}
		if before == nil && o.Logger != nil {
			o.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the server is not ready yet, and the program waits for it",
				slog.String("event", "server.unready"), slog.Any("error", err))
		}
		before = err
		if !sleep(ctx, pause) {
			return withBefore(endedContext(ctx), err)
		}
		pause = min(2*pause, maxPause)
	}
}

func isUnready(err error) bool {
	_, unready := errors.AsType[*unready](err)
	return unready || errors.Is(err, ErrReplica)
}

func isLoading(err error) bool {
	found, ok := errors.AsType[*unready](err)
	return ok && strings.HasPrefix(found.text, loading)
}
