package output

import (
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
)

const (
	// progressPause is the shortest time between two recorded reports, so that a loop can report in every iteration.
	progressPause = 100 * time.Millisecond
	// lastProgressPatience is how long the end of an attempt waits for its last report.
	lastProgressPatience = 2 * time.Second
)

// progress is one report of a function.
type progress struct {
	percent float64
	message string
}

// progressReports sends the progress that a function reports: of the reports within a progressPause the newest, and the
// last one before the attempt ends. Reports are sent in the background, since the engine may be unavailable.
type progressReports struct {
	mu     sync.Mutex
	newest *progress      // that is to be sent; nil if there is none. mu guards it and sender.
	sender *progressSends // nil while nothing is sent
}

// progressSends is a goroutine that sends reports until there are none.
type progressSends struct {
	hurry sync.Once
	// hurried is closed when the attempt ends: the remaining reports are sent without a pause.
	hurried chan struct{}
	// done is closed when nothing is left.
	done chan struct{}
}

// report records progress, at once or at the end of the pause since the last report.
func (p *progressReports) report(a *attempt.Attempt, percent float64, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = &progress{percent, message}
	if p.sender != nil {
		return
	}
	s := &progressSends{hurried: make(chan struct{}), done: make(chan struct{})}
	if a.Run.Background.Start(func() { p.send(a, s) }) {
		p.sender = s
	}
}

// send sends the newest report, and after each pause the one that is the newest then.
func (p *progressReports) send(a *attempt.Attempt, s *progressSends) {
	defer close(s.done)
	var recorded progress
	for {
		p.mu.Lock()
		next := p.newest
		p.newest = nil
		if next == nil {
			p.sender = nil
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if *next != recorded && recordProgress(a, next) {
			recorded = *next
		}
		pause := time.NewTimer(progressPause)
		select {
		case <-pause.C:
		case <-s.hurried:
			pause.Stop()
		}
	}
}

// finish sends the last report before the end of the attempt is reported. It waits up to lastProgressPatience.
func (p *progressReports) finish() {
	p.mu.Lock()
	s := p.sender
	p.mu.Unlock()
	if s == nil {
		return
	}
	s.hurry.Do(func() { close(s.hurried) })
	timer := time.NewTimer(lastProgressPatience)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
	}
}

// recordProgress sends one progress report and reports whether the engine has stored it. An error is logged at debug
// level.
func recordProgress(a *attempt.Attempt, report *progress) bool {
	ctx, cancel := a.Reporting()
	defer cancel()
	_, err := a.Run.Session.Backend.UpdateProgress(ctx, enginerpc.UpdateProgressCall{
		ExecutionID: a.Claimed.ExecutionID, LeaseID: a.Claimed.LeaseID,
		LeaseEpoch:  a.Claimed.LeaseEpoch,
		ProgressPct: strconv.FormatFloat(report.percent, 'f', -1, 64), ProgressMessage: report.message,
	})
	if err != nil && a.Ctx.Err() == nil {
		a.Log(slog.LevelDebug, observe.EventProgressLost, "the engine did not record the progress",
			slog.Any("error", err))
	}
	return err == nil
}
