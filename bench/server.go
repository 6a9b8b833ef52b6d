package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// stats are totals of a server since its start.
type stats struct {
	calls  int64 // of library functions
	micros int64 // spent in them
}

// serverStats sums up FCALL and FCALL_RO of INFO commandstats. An engine in this process has none.
func serverStats(ctx context.Context, e *runtime.Engine) (stats, error) {
	if e.Embedded() != nil {
		return stats{}, nil
	}
	client := e.Core().Client()
	text, err := client.Do(ctx, client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		return stats{}, fmt.Errorf("INFO commandstats: %w", err)
	}
	var total stats
	for line := range strings.Lines(text) {
		fields, found := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_fcall")
		if !found {
			continue
		}
		_, fields, _ = strings.Cut(fields, ":")
		for field := range strings.SplitSeq(fields, ",") {
			name, value, _ := strings.Cut(field, "=")
			n, _ := strconv.ParseInt(value, 10, 64)
			switch name {
			case "calls":
				total.calls += n
			case "usec":
				total.micros += n
			}
		}
	}
	return total, nil
}

// ceilingTime is how long the ceiling is measured.
const ceilingTime = 500 * time.Millisecond

// fcallCeiling is how many calls of a function that does nothing this client gets through per second: no figure of the
// engine can be higher on this machine.
func fcallCeiling(ctx context.Context, e *runtime.Engine, goroutines int) (float64, error) {
	var calls atomic.Int64
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	begun := time.Now()
	for range goroutines {
		group.Go(func() {
			for time.Since(begun) < ceilingTime {
				if _, err := e.Core().Version(ctx, enginecore.VersionCall{}); err != nil {
					failed.Store(&err)
					return
				}
				calls.Add(1)
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(calls.Load()) / time.Since(begun).Seconds(), nil
}
