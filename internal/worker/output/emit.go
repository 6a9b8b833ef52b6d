package output

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

const (
	// FramesPerBatch bounds the frames that are sent in one pipeline.
	FramesPerBatch = 64
	// maxUnsent is the number of bytes of unsent frames from which Emit blocks.
	maxUnsent = 1 << 20
	// frameOverhead is the number of bytes that a frame counts for in addition to its payload.
	frameOverhead = 64
)

// emitter sends the frames of one attempt in order, in batches. Frames that are emitted while a batch is in
// flight form the next one.
type emitter struct {
	attempt *attempt.Attempt

	mu      sync.Mutex
	unsent  []numberedFrame
	bytes   int
	count   int64
	fault   error         // final error after which no frame is sent
	sending bool          // a goroutine runs send
	moved   chan struct{} // closed and replaced after each batch
}

// numberedFrame is a frame with its number in the execution, by which readers recognise one that was sent
// twice.
type numberedFrame struct {
	activitycontext.Frame
	number engine.FrameNumber
	// refused is called when the engine refuses the frame; it may be nil.
	refused func()
}

// size returns the bytes that the frame counts for.
func (f *numberedFrame) size() int { return len(f.Payload) + len(f.CorrelationID) + frameOverhead }

func newEmitter(a *attempt.Attempt) *emitter { return &emitter{attempt: a, moved: make(chan struct{})} }

// frameOutput makes the emitter of a task when the function emits its first frame. The zero value is ready.
type frameOutput struct{ made atomic.Pointer[emitter] }

// emitter returns the emitter of the attempt.
func (o *frameOutput) emitter(a *attempt.Attempt) *emitter {
	if e := o.made.Load(); e != nil {
		return e
	}
	o.made.CompareAndSwap(nil, newEmitter(a))
	return o.made.Load()
}

// finish waits until all frames are sent or cannot be sent. It is called before the end of the attempt is reported,
// after which the engine refuses frames.
func (o *frameOutput) finish() {
	if e := o.made.Load(); e != nil {
		e.finish()
	}
}

// emit queues a frame. It blocks while maxUnsent bytes or more are unsent, and returns the error by which
// sending ended.
func (e *emitter) emit(ctx context.Context, frame activitycontext.Frame) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.fault == nil && e.bytes >= maxUnsent {
		if err := e.wait(ctx); err != nil {
			return err
		}
	}
	if e.fault != nil {
		return e.fault
	}
	e.queue(frame, nil)
	return nil
}

// offer queues a frame if there is room for it, and reports whether there was. It does not block. refused is called, in
// another goroutine, if the engine refuses the frame later.
func (e *emitter) offer(frame activitycontext.Frame, refused func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fault != nil || e.bytes >= maxUnsent {
		return false
	}
	e.queue(frame, refused)
	return true
}

// queue appends a frame to the unsent ones, and starts the sender.
func (e *emitter) queue(frame activitycontext.Frame, refused func()) {
	e.count++
	f := numberedFrame{frame, engine.FrameNumber{Epoch: e.attempt.Claimed.LeaseEpoch, Count: e.count}, refused}
	e.unsent = append(e.unsent, f)
	e.bytes += f.size()
	if !e.sending {
		e.sending = true
		e.attempt.Run.Background.Start(e.send)
	}
}

// wait releases the lock until a batch has been sent or ctx is done. The lock is held before and after.
func (e *emitter) wait(ctx context.Context) error {
	moved := e.moved
	e.mu.Unlock()
	defer e.mu.Lock()
	select {
	case <-moved:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finish waits until all frames are sent or sending has failed, for as long as renewals extend the lease. If the lease
// ends before, the attempt has lost it: no result may be recorded without the frames.
func (e *emitter) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.fault == nil && len(e.unsent) > 0 {
		ctx, cancel := e.attempt.Reporting()
		_ = e.wait(ctx) // the lease may have been renewed in the meantime
		cancel()
		if len(e.unsent) > 0 && e.attempt.LeaseEnded() {
			e.attempt.Cancel(engine.ErrLeaseLost)
			return
		}
	}
}

// send sends batches until no frame is left or sending fails.
func (e *emitter) send() {
	for {
		e.mu.Lock()
		batch := e.unsent[:min(FramesPerBatch, len(e.unsent))]
		if len(batch) == 0 || e.fault != nil {
			e.sending = false
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		sent, err := e.sendBatch(batch)
		e.mu.Lock()
		for i := range sent {
			e.bytes -= batch[i].size()
		}
		if e.unsent = e.unsent[sent:]; len(e.unsent) == 0 {
			e.unsent = nil
		}
		e.fault = err
		close(e.moved)
		e.moved = make(chan struct{})
		e.mu.Unlock()
	}
}

// sendBatch sends frames in order and returns how many are finished: stored, or refused by the engine for their
// content, which does not affect other frames. An error is final; while the engine is unavailable, sendBatch returns
// no error and the caller sends the rest again.
func (e *emitter) sendBatch(batch []numberedFrame) (int, error) {
	a := e.attempt
	ctx, cancel := a.Reporting()
	defer cancel()
	pipeline := a.Run.Core.Pipeline()
	results := make([]*enginerpc.Result[enginerpc.AppendFrameReply], len(batch))
	for i, f := range batch {
		call := enginerpc.AppendFrameCall{
			ExecutionID: a.Claimed.ExecutionID, AttemptIndex: a.Claimed.AttemptIndex, LeaseID: a.Claimed.LeaseID,
			LeaseEpoch: a.Claimed.LeaseEpoch, AttemptID: a.Claimed.AttemptID, FrameType: f.Kind, Payload: f.Payload,
			Encoding: f.Encoding, CorrelationID: f.CorrelationID, Source: f.number.Source(),
		}
		if !f.At.IsZero() {
			call.Ts = strconv.FormatInt(f.At.UnixMilli(), 10)
		}
		results[i] = enginerpc.Add(pipeline, call)
	}
	_ = pipeline.Run(ctx) // each result has its own error
	for i, result := range results {
		_, err := result.Get()
		switch {
		case err == nil:
			continue
		case retry.IsUnavailable(err) && !a.LeaseEnded():
			// The frame may have been stored. Readers recognise the repetition by its number. ctx may have ended:
			// the lease has been renewed since the batch was sent.
			a.Run.Doubt.Mark()
			sleep.For(a.Run.Base, lease.ReportPause)
			return i, nil
		case errors.Is(err, errorcode.StreamClosed), errors.Is(err, errorcode.StaleOwnerCannotAppend):
			err = fmt.Errorf("%w: the stream takes no more frames", engine.ErrLeaseLost)
		case errors.Is(err, errorcode.RetentionLimitExceeded), errors.Is(err, errorcode.InvalidInput):
			f := &batch[i]
			a.Log(slog.LevelWarn, observe.EventFramesLost, "the engine refused a frame", slog.Int("frames", 1),
				slog.String("kind", f.Kind), slog.Int("bytes", len(f.Payload)), slog.Any("error", err))
			if f.refused != nil {
				f.refused()
			}
			continue
		}
		a.Log(slog.LevelWarn, observe.EventFramesLost, "the engine did not store frames",
			slog.Int("frames", len(batch)-i),
			slog.Any("error", err))
		return i, err
	}
	return len(batch), nil
}
