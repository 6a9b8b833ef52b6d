package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// framesPerBatch is the number of frames that are sent in one go.
	FramesPerBatch = 64
	// maxUnsent is how many bytes of frames may wait before Emit waits as well.
	maxUnsent = 1 << 20
	// frameOverhead is what a frame counts for besides its payload.
	frameOverhead = 64
)

// emitter sends the frames of one task in order, in batches: what is emitted while a batch is under way makes the next.
type emitter struct {
	task *Task

	mu      sync.Mutex
	unsent  []numberedFrame
	bytes   int
	count   int64
	fault   error         // why nothing can be sent any more
	sending bool          // a goroutine is at it
	moved   chan struct{} // closed when a batch has gone out
}

type numberedFrame struct {
	activitycontext.Frame
	number engine.FrameNumber
}

func (f *numberedFrame) size() int { return len(f.Payload) + frameOverhead }

func newEmitter(t *Task) *emitter { return &emitter{task: t, moved: make(chan struct{})} }

// output is what sends the frames of the task.
func (t *Task) output() *emitter {
	if e := t.frames.Load(); e != nil {
		return e
	}
	t.frames.CompareAndSwap(nil, newEmitter(t))
	return t.frames.Load()
}

// finishFrames waits until all frames have gone out, which must be before the attempt ends.
func (t *Task) finishFrames() {
	e := t.frames.Load()
	if e == nil {
		return
	}
	ctx, cancel := t.reporting()
	defer cancel()
	e.finish(ctx)
}

// emit takes a frame. It waits only while too much has not gone out.
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
	e.count++
	f := numberedFrame{frame, engine.FrameNumber{Epoch: e.task.claimed.LeaseEpoch, Count: e.count}}
	e.unsent = append(e.unsent, f)
	e.bytes += f.size()
	if !e.sending {
		e.sending = true
		e.task.run.background.start(e.send)
	}
	return nil
}

// wait returns when a batch has gone out. The lock is held before and after.
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

// finish waits until everything has gone out, or cannot.
func (e *emitter) finish(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.fault == nil && len(e.unsent) > 0 {
		if e.wait(ctx) != nil {
			return
		}
	}
}

// send sends until nothing is left.
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

// sendBatch sends frames until one fails and returns how many have gone out. The error is final.
func (e *emitter) sendBatch(batch []numberedFrame) (int, error) {
	t := e.task
	ctx, cancel := t.reporting()
	defer cancel()
	pipeline := t.run.core.Pipeline()
	results := make([]*enginerpc.Result[enginerpc.AppendFrameReply], len(batch))
	for i, f := range batch {
		results[i] = enginerpc.Add(pipeline, enginerpc.AppendFrameCall{
			ExecutionID: t.claimed.ExecutionID, AttemptIndex: t.claimed.AttemptIndex, LeaseID: t.claimed.LeaseID,
			LeaseEpoch: t.claimed.LeaseEpoch, AttemptID: t.claimed.AttemptID, FrameType: f.Kind, Payload: f.Payload,
			Encoding: f.Encoding, CorrelationID: f.number.String(), Source: "worker",
		})
	}
	_ = pipeline.Run(ctx) // each result has its own error
	for i, result := range results {
		_, err := result.Get()
		switch {
		case err == nil:
			continue
		case engine.IsUnavailable(err) && ctx.Err() == nil:
			// What may have arrived all the same is told by its number.
			t.run.Leases.markUncertain()
			engine.Pause(ctx, reportPause)
			return i, nil
		case errors.Is(err, enginecore.ErrStreamClosed), errors.Is(err, enginecore.ErrStaleOwnerCannotAppend):
			err = fmt.Errorf("%w: the stream takes no more frames", engine.ErrLeaseLost)
		}
		t.log(slog.LevelWarn, engine.EventFramesLost, "frames were not stored", slog.Int("frames", len(batch)-i), slog.Any("error", err))
		return i, err
	}
	return len(batch), nil
}
