package activity

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

// Frame is an entry of an attempt's output stream.
type Frame struct {
	// Kind is a name by the rule of the package.
	Kind string
	// Payload is stored as it is if it is a []byte, else as JSON; at most 64 KiB.
	Payload any
	// Encoding names the encoding of a payload of type []byte for its readers, such as "utf8": at most 64 bytes without
	// control characters. Defaults to "bytes". It must be empty for other payloads, which are "json".
	Encoding string
	// CorrelationID relates the frame to something else, such as a request: at most 256 bytes of UTF-8 without control
	// characters. Defaults to none.
	CorrelationID string
	// At is the time at which the content came about. Readers get it in addition to the time at which the engine stored
	// the frame. It is stored in whole milliseconds. The zero value is the time of the engine.
	At time.Time
}

func (f *Frame) encode() (activitycontext.Frame, error) {
	return activitycontext.NewFrame(f.Kind, f.Encoding, f.CorrelationID, f.Payload, f.At)
}

// Emit appends a frame to the output stream of the attempt, which runtime's RunRef.Stream reads.
//
// The worker sends frames in batches, in order, and all of them before it reports the attempt's end. Emit waits only
// while more than a megabyte is unsent. An error means that the stream is closed, because the worker has lost the
// execution or ctx has ended, or that the payload is invalid. The engine keeps the last 10,000 frames of an attempt, or
// the number set by KeepFrames. A frame that it refuses, since its executions take smaller ones, is lost alone, with a
// warning in the worker's log; its readers learn that one is missing. Outside a worker Emit does nothing.
func Emit(ctx context.Context, f Frame) error {
	kind := f.Kind
	frame, err := f.encode()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	steps, ok := activitycontext.StepsFrom(ctx)
	if !ok {
		return batchFault(ctx)
	}
	if err := steps.Emit(ctx, frame); err != nil {
		return fmt.Errorf("emit %q: %w", kind, err)
	}
	return nil
}
