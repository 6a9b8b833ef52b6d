package worker

import (
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// progressReports sends the progress that a function reports.
type progressReports struct {
	attempt *attempt
	// last is when progress was last recorded; nil before the first time.
	last atomic.Pointer[time.Time]
	// reporting holds a value while a report is in flight. It is set before last, by first.
	reporting chan struct{}
	first     sync.Once
}

// report records at most one report in progressPause and drops others.
func (p *progressReports) report(percent float64, message string) {
	p.first.Do(func() { p.reporting = make(chan struct{}, 1) })
	now := time.Now()
	last := p.last.Load()
	if last != nil && now.Sub(*last) < progressPause || !p.last.CompareAndSwap(last, &now) {
		return
	}
	// Reports are sent in the background, since the engine may be unavailable. While one is in flight, others
	// are dropped.
	select {
	case p.reporting <- struct{}{}:
		p.attempt.run.background.start(func() {
			defer func() { <-p.reporting }()
			p.record(percent, message)
		})
	default:
	}
}

// finish waits up to progressPause for a progress report in flight, before the end of the attempt is
// reported.
func (p *progressReports) finish() {
	if p.last.Load() == nil {
		return
	}
	timer := time.NewTimer(progressPause)
	defer timer.Stop()
	select {
	case p.reporting <- struct{}{}:
	case <-timer.C:
	}
}

// record sends one progress report. An error is logged at debug level.
func (p *progressReports) record(percent float64, message string) {
	_, err := p.attempt.run.session.Backend.UpdateProgress(p.attempt.ctx, enginerpc.UpdateProgressCall{
		ExecutionID: p.attempt.claimed.ExecutionID, LeaseID: p.attempt.claimed.LeaseID,
		LeaseEpoch:  p.attempt.claimed.LeaseEpoch,
		ProgressPct: strconv.FormatFloat(percent, 'f', -1, 64), ProgressMessage: message,
	})
	if err != nil && p.attempt.ctx.Err() == nil {
		p.attempt.log(slog.LevelDebug, engine.EventProgressLost, "the engine did not record the progress",
			slog.Any("error", err))
	}
}

// progressPause is the shortest time between two recorded reports, so that a loop can report in every
// iteration.
const progressPause = 100 * time.Millisecond
