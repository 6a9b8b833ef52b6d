package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// Logs yields the lines that the attempts of a node logged after the one with the given cursor: of one attempt, or of
// all for 0; those that exist, or with wait all until the node has ended. An error is yielded last.
func (r *Run) Logs(
	ctx context.Context, node string, attempt int, after string, wait bool,
) iter.Seq2[fabrictype.LogLine, error] {
	return func(yield func(fabrictype.LogLine, error) bool) {
		before, skip, err := splitLogCursor(after)
		if err != nil {
			yield(fabrictype.LogLine{}, err)
			return
		}
		dropped := 0
		for frame, err := range r.frames(ctx, node, before, !wait) {
			if err != nil {
				yield(fabrictype.LogLine{}, err)
				return
			}
			if attempt > 0 && frame.Attempt > attempt {
				return
			}
			previous := before
			before = frame.Cursor
			ignored := attempt > 0 && frame.Attempt != attempt
			if dropped += frame.Dropped; ignored {
				dropped = 0
			}
			if frame.Kind != activitycontext.LogKind {
				continue
			}
			first := skip
			if skip = 0; ignored {
				continue
			}
			frame.Dropped, dropped = dropped, 0
			if err := yieldLines(frame, previous, first, yield); err != nil {
				if !errors.Is(err, errEnough) {
					yield(fabrictype.LogLine{}, err)
				}
				return
			}
		}
	}
}

// yieldLines yields the lines of a frame but the first ones. The cursor of a line that is not the last one of its frame
// is the cursor of the frame before, with the number of lines to skip after it.
func yieldLines(
	frame fabrictype.Frame, previous string, skip int, yield func(fabrictype.LogLine, error) bool,
) error {
	var lines []activitycontext.LogLine
	if err := json.Unmarshal(frame.Payload(), &lines); err != nil {
		return fmt.Errorf("log lines of frame %s: %w", frame.Cursor, err)
	}
	for i := skip; i < len(lines); i++ {
		cursor := previous + "/" + strconv.Itoa(i+1)
		if i == len(lines)-1 {
			cursor = frame.Cursor + "/0"
		}
		l := lines[i]
		if !yield(fabrictype.LogLine{
			Cursor: cursor, Attempt: frame.Attempt, At: l.Time, Level: l.Level, Message: l.Message, Attrs: l.Attrs,
			Shortened: l.Shortened, Cut: l.Cut, Dropped: frame.Dropped,
		}, nil) {
			return errEnough
		}
		frame.Dropped = 0
	}
	return nil
}

// splitLogCursor returns the cursor of a frame, and how many lines of the next one with lines to skip.
func splitLogCursor(cursor string) (frame string, skip int, err error) {
	if cursor == "" {
		return "", 0, nil
	}
	at := strings.LastIndexByte(cursor, '/')
	if at < 0 {
		return "", 0, fmt.Errorf("%w: %q", engine.ErrCursor, cursor)
	}
	if skip, err = strconv.Atoi(cursor[at+1:]); err != nil || skip < 0 {
		return "", 0, fmt.Errorf("%w: %q", engine.ErrCursor, cursor)
	}
	return cursor[:at], skip, nil
}

// emitted leaves out the frames that have lines of the log.
func emitted(frames iter.Seq2[fabrictype.Frame, error]) iter.Seq2[fabrictype.Frame, error] {
	return func(yield func(fabrictype.Frame, error) bool) {
		dropped := 0
		for frame, err := range frames {
			dropped += frame.Dropped
			if frame.Kind == activitycontext.LogKind {
				continue
			}
			if frame.Dropped, dropped = dropped, 0; !yield(frame, err) {
				return
			}
		}
	}
}
