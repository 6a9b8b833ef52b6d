package activity

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// MaxFrame is the largest payload of a frame, in bytes.
const MaxFrame = 64 << 10

// Emit appends a frame to the output stream of the attempt, which runtime's RunRef.Stream reads. The kind is a name by
// the rule of the package. A payload of type []byte is stored as it is, any other as JSON, at most MaxFrame bytes.
//
// The worker sends frames in batches, in order, and all of them before it reports the attempt's end. Emit waits only
// while more than a megabyte is unsent. An error means that the stream is closed, because the worker has lost the
// execution or ctx has ended, or that the payload is invalid. The engine keeps the last 10,000 frames of an attempt, or
// the number set by KeepFrames. Outside a worker it does nothing.
func Emit(ctx context.Context, kind string, payload any) error {
	if err := activityspec.CheckName(kind); err != nil {
		return fmt.Errorf("emit: %w", err)
	}
	data, encoding := []byte(nil), activitycontext.BytesEncoding
	if raw, ok := payload.([]byte); ok {
		data = append(data, raw...)
	} else {
		var err error
		if data, err = (JSON{}).Encode(payload); err != nil {
			return fmt.Errorf("emit %q: payload of type %T does not encode: %w", kind, payload, err)
		}
		encoding = activitycontext.JSONEncoding
	}
	if len(data) > MaxFrame {
		return fmt.Errorf("emit %q: payload has %d bytes, at most %d are allowed", kind, len(data), MaxFrame)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	steps, ok := activitycontext.StepsFrom(ctx)
	if !ok {
		return nil
	}
	if err := steps.Emit(ctx, activitycontext.Frame{Kind: kind, Payload: data, Encoding: encoding}); err != nil {
		return fmt.Errorf("emit %q: %w", kind, err)
	}
	return nil
}
