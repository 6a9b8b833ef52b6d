package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
)

const (
	// reportEvery is the time between two reports of a worker, drainReportEvery the time for a worker that drains,
	// since people wait for its last slot. reportTTL is how long a report counts.
	reportEvery      = 2 * dispatch.PresenceEvery
	drainReportEvery = dispatch.PresenceEvery
	reportTTL        = 2*reportEvery + 5*time.Second
	// useEvery is the time after which a worker reports that the number of its used slots has changed. Each of its
	// peers adds usePerPeer, so that all busy workers together report about 100 times a second.
	useEvery   = time.Second
	usePerPeer = 10 * time.Millisecond
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
	used      int64
	draining  atomic.Bool
}

// report sends the state of the worker to the engine. The next report makes up for one that fails; the engine makes no
// decisions by the record.
func (r *Run) report(ctx context.Context, state string) {
	store, err := r.Session.Library("records of workers")
	if err != nil {
		return
	}
	r.reports.mu.Lock()
	defer r.reports.mu.Unlock()
	call := enginerpc.ReportWorkerCall{
		Partition: engine.Directory(), WorkerInstanceID: r.worker.Instance, State: state,
		Used: int64(r.leases.Size()), Started: r.starts.text(), TTL: reportTTL,
	}
	if r.Session.Quiet {
		call.TTL = quietTTL
	}
	if !r.reports.described {
		r.describe(&call)
	}
	reply, err := store.ReportWorker(ctx, call)
	if err == nil && !reply.Known { // the engine has lost the record
		r.describe(&call)
		reply, err = store.ReportWorker(ctx, call)
	}
	if err != nil {
		r.warnOfReport(ctx, err)
		return
	}
	r.worker.liveness.Touch()
	r.reports.described, r.reports.reported, r.reports.used = true, time.Now(), call.Used
	if reply.Drain && state == stateRunning {
		r.Background.Start(func() { r.drainOut(ctx) })
	}
}

// reportPresence reports the worker as running or draining.
func (r *Run) reportPresence(ctx context.Context) {
	if r.queue.IsClosed() {
		r.report(ctx, stateDraining)
		return
	}
	r.report(ctx, stateRunning)
}

// reportDue reports if the last report is old enough, sooner if another number of slots is in use.
func (r *Run) reportDue(ctx context.Context, now time.Time) {
	every := reportEvery
	if r.queue.IsClosed() {
		every = drainReportEvery
	}
	r.reports.mu.Lock()
	age, changed := now.Sub(r.reports.reported), r.reports.used != int64(r.leases.Size())
	r.reports.mu.Unlock()
	due := age > every-useEvery/2
	if changed {
		due = due || age > useEvery/2+time.Duration(r.peers.Size())*usePerPeer
	}
	if due {
		r.reportPresence(ctx)
	}
}

// reportStopped reports that the worker runs no more. Without it, the record ends by itself.
func (r *Run) reportStopped() {
	ctx, cancel := context.WithTimeout(r.Base, stopPatience)
	defer cancel()
	r.report(ctx, stateStopped)
}

func (r *Run) warnOfReport(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, enginecore.ErrClosed) {
		return
	}
	r.Session.Logger.LogAttrs(ctx, slog.LevelWarn,
		"flowfabric: the worker could not report how it does and retries",
		observe.EventAnnounceFailed.Attr(), slog.Any("error", err))
}

// describe adds the worker's lanes, kinds, build and capabilities to a report.
func (r *Run) describe(call *enginerpc.ReportWorkerCall) {
	lanes := r.lanes()
	names := make([]string, len(lanes))
	for i, lane := range lanes {
		names[i] = string(lane)
	}
	call.Lanes, call.Kinds = enginerpc.KindSet(names), r.request.Kinds
	about := r.worker.config.About
	call.BuildID, call.Build = engine.BuildID(about.Build)
	about.Name, about.Slots, about.Since = r.worker.config.ID, r.worker.config.Slots, r.began
	about.Capabilities, about.Types = r.worker.config.Capabilities, r.worker.types()
	call.About, _ = json.Marshal(about) // texts and numbers have a JSON form
}

// maxTypes bounds the activities whose types a worker reports, the first ones by name.
const maxTypes = 512

// types returns the hashes of the types of the worker's activities, by the names under which flows store them.
func (w *Worker) types() map[string]string {
	hashes := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(w.handlers)) {
		if len(hashes) == maxTypes {
			break
		}
		h := w.handlers[name]
		in, out := valueschema.Hash(h.InputType()), valueschema.Hash(h.OutputType())
		if in != "" && out != "" {
			hashes[name] = in + out
		}
	}
	return hashes
}

// drainOut makes the worker take no more work: as when it stops, but running functions continue for as long as they
// need, and Run continues until its context ends.
func (r *Run) drainOut(ctx context.Context) {
	if !r.reports.draining.CompareAndSwap(false, true) {
		return
	}
	r.Session.Logger.LogAttrs(ctx, slog.LevelInfo, "flowfabric: the worker drains: it takes no more work",
		observe.EventDraining.Attr(), slog.String("worker", string(r.worker.Instance)))
	r.queue.Close()
	if r.worker.handover != nil {
		r.worker.handover.Close()
	}
	r.publishLeaving()
	r.stopRing()
	r.report(ctx, stateDraining)
}
