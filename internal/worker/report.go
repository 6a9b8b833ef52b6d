package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

const (
	// reportEvery is the time between two reports of a worker, drainReportEvery that of one that drains, for whose last
	// slot people wait. reportTTL is how long a report counts.
	reportEvery      = 2 * dispatch.PresenceEvery
	drainReportEvery = dispatch.PresenceEvery
	reportTTL        = 2*reportEvery + 5*time.Second
	// quietTTL is how long the report of a worker counts that reports only once, on a virtual clock.
	quietTTL = 200 * 365 * 24 * time.Hour
)

// States of the record of a worker.
const (
	stateRunning  = "running"
	stateDraining = "draining"
	stateStopped  = "stopped"
)

// reporter keeps the record of a worker run. The zero value has reported nothing.
type reporter struct {
	mu        sync.Mutex // held during a report
	described bool       // the engine has had the whole record
	reported  time.Time
	draining  atomic.Bool
}

// report tells the engine how the worker does. A report that fails is made up for by the next one; the record decides
// nothing.
func (s *Run) report(ctx context.Context, state string) {
	store, err := engine.Capability[engine.WorkerRecords](s.session.Backend)
	if err != nil {
		return
	}
	s.reports.mu.Lock()
	defer s.reports.mu.Unlock()
	call := enginerpc.ReportWorkerCall{
		Partition: engine.Directory(), WorkerInstanceID: s.worker.Instance, State: state,
		Used: int64(s.leases.size()), Started: s.starts.text(), TTL: reportTTL,
	}
	if s.session.Quiet {
		call.TTL = quietTTL
	}
	if !s.reports.described {
		s.describe(&call)
	}
	reply, err := store.ReportWorker(ctx, call)
	if err == nil && !reply.Known { // the engine has lost the record
		s.describe(&call)
		reply, err = store.ReportWorker(ctx, call)
	}
	if err != nil {
		s.warnOfReport(ctx, err)
		return
	}
	s.worker.liveness.Touch()
	s.reports.described, s.reports.reported = true, time.Now()
	if reply.Drain && state == stateRunning {
		s.background.start(func() { s.drainOut(ctx) })
	}
}

// reportPresence reports what the worker does.
func (s *Run) reportPresence(ctx context.Context) {
	if s.queue.IsClosed() {
		s.report(ctx, stateDraining)
		return
	}
	s.report(ctx, stateRunning)
}

// reportDue reports if the last report is old enough.
func (s *Run) reportDue(ctx context.Context, now time.Time) {
	every := reportEvery
	if s.queue.IsClosed() {
		every = drainReportEvery
	}
	s.reports.mu.Lock()
	due := now.Sub(s.reports.reported) > every-dispatch.PresenceEvery/2
	s.reports.mu.Unlock()
	if due {
		s.reportPresence(ctx)
	}
}

// reportStopped reports that the worker runs no more. Without it, the record ends by itself.
func (s *Run) reportStopped() {
	ctx, cancel := context.WithTimeout(s.base, stopPatience)
	defer cancel()
	s.report(ctx, stateStopped)
}

func (s *Run) warnOfReport(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, enginecore.ErrClosed) {
		return
	}
	s.session.Logger.LogAttrs(ctx, slog.LevelWarn,
		"flowfabric: the worker could not report how it does and retries",
		engine.EventAnnounceFailed.Attr(), slog.Any("error", err))
}

// describe adds to a report what the worker serves and offers.
func (s *Run) describe(call *enginerpc.ReportWorkerCall) {
	lanes := s.lanes()
	names := make([]string, len(lanes))
	for i, lane := range lanes {
		names[i] = string(lane)
	}
	call.Lanes, call.Kinds = enginerpc.KindSet(names), s.request.Kinds
	about := s.worker.config.About
	call.BuildID, call.Build = engine.BuildID(about.Build)
	about.Name, about.Slots, about.Since = s.worker.config.ID, s.worker.config.Slots, s.began
	about.Capabilities = s.worker.config.Capabilities
	call.About, _ = json.Marshal(about) // texts and numbers have a JSON form
}

// drainOut makes the worker take no more work: as when it stops, but running functions go on for as long as they need,
// and Run goes on until its context ends.
func (s *Run) drainOut(ctx context.Context) {
	if !s.reports.draining.CompareAndSwap(false, true) {
		return
	}
	s.session.Logger.LogAttrs(ctx, slog.LevelInfo, "flowfabric: the worker drains: it takes no more work",
		engine.EventDraining.Attr(), slog.String("worker", string(s.worker.Instance)))
	s.queue.Close()
	if s.worker.handover != nil {
		s.worker.handover.close()
	}
	s.publishLeaving()
	s.stopRing()
	s.report(ctx, stateDraining)
}
