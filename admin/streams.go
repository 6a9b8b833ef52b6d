package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/runtime"
)

const (
	defaultFrames = 100
	maxFrames     = 10_000
	// maxTails is how many calls of TailStream of one client wait at a time.
	maxTails = 256
	// maxTailWait is the longest time that a call of TailStream waits.
	maxTailWait = 30 * time.Second
)

// Frame is one frame of the output stream of an attempt.
type Frame struct {
	// ID is the position of the frame; its first part is the time in Unix milliseconds.
	ID string
	// Fields are those that the worker wrote, including frame_type, payload and encoding.
	Fields map[string][]byte
}

// Frames is a part of an output stream.
type Frames struct {
	Frames []Frame
	// ClosedAt is when the stream was closed, for ClosedReason; zero while the stream is open, and for an attempt
	// without frames. ClosedReason is attempt_success, attempt_failure or attempt_cancelled; expired after a deadline;
	// lease_expired or reclaimed after the loss of the worker; or suspension_timeout or dependency_impossible.
	ClosedAt     time.Time
	ClosedReason string
}

var (
	frameID    = regexp.MustCompile(`^\d+(-\d+)?$`)
	concreteID = regexp.MustCompile(`^\d+-\d+$`)
)

// ReadStream returns the frames of an attempt between two ids, both inclusive, the oldest first, at most limit (1 to
// 10,000; 0 means 100), in one atomic step. An empty id means the beginning or the end of the stream. To continue, read
// from the last id and omit its frame, or use TailStream. runtime.RunRef.Stream follows a node of a run over its
// attempts.
func (c *Client) ReadStream(
	ctx context.Context, id enginecore.ExecutionID, attempt enginecore.AttemptIndex, from, to string, limit int,
) (Frames, error) {
	count, err := frameLimit(limit)
	if err := errors.Join(c.checkID(id), checkFrameID("from", from, frameID), checkFrameID("to", to, frameID),
		err); err != nil {
		return Frames{}, err
	}
	if from == "" {
		from = "-"
	}
	if to == "" {
		to = "+"
	}
	reply, err := c.core.ReadAttemptStream(ctx, enginerpc.ReadAttemptStreamCall{
		ExecutionID: id, AttemptIndex: attempt, FromID: from, ToID: to, CountLimit: count,
	})
	if err != nil {
		return Frames{}, of(err, "read stream of", "execution", string(id))
	}
	frames := Frames{ClosedAt: reply.ClosedAt, ClosedReason: reply.ClosedReason}
	for _, f := range reply.Frames {
		frame := Frame{f.ID, make(map[string][]byte, len(f.Fields))}
		for _, field := range f.Fields {
			frame.Fields[field.Name] = field.Value
		}
		frames.Frames = append(frames.Frames, frame)
	}
	return frames, nil
}

func checkFrameID(argument, id string, form *regexp.Regexp) error {
	if id != "" && !form.MatchString(id) {
		return fault(argument, "%.40q is no id of a frame", id)
	}
	return nil
}

func frameLimit(limit int) (int64, error) {
	if limit < 0 || limit > maxFrames {
		return 0, fault("limit", "%d is not between 1 and %d", limit, maxFrames)
	}
	return int64(cmp.Or(limit, defaultFrames)), nil
}

// TailStream returns the frames of an attempt after an id (empty means from the first one), as ReadStream does. If
// there are none, it waits for frames up to wait, at most 30 seconds, on a separate connection. It reads the frames
// before the end of the stream, so a closed stream may have a last frame for another call. At most 256 calls of a
// client wait at a time; one more is runtime.ErrTooManyWatches.
func (c *Client) TailStream(
	ctx context.Context, id enginecore.ExecutionID, attempt enginecore.AttemptIndex, after string, wait time.Duration,
	limit int,
) (Frames, error) {
	count, err := frameLimit(limit)
	if err := errors.Join(c.checkID(id), checkFrameID("after", after, concreteID), err); err != nil {
		return Frames{}, err
	}
	if wait < 0 || wait > maxTailWait {
		return Frames{}, fault("wait", "%s is not between 0 and %s", wait, maxTailWait)
	}
	if after == "" {
		after = "0-0"
	}
	frames, err := c.tail(ctx, id, attempt, after, wait, count)
	return frames, of(err, "tail stream of", "execution", string(id))
}

func (c *Client) tail(
	ctx context.Context, id enginecore.ExecutionID, attempt enginecore.AttemptIndex, after string, wait time.Duration,
	limit int64,
) (Frames, error) {
	frames, err := c.framesAfter(ctx, c.client, id, attempt, after, 0, limit)
	if err != nil {
		err = readError(ctx, err)
	}
	closed, closeErr := c.closed(ctx, id, attempt)
	if err = errors.Join(err, closeErr); err != nil || len(frames) > 0 || wait == 0 || !closed.ClosedAt.IsZero() {
		closed.Frames = frames
		return closed, err
	}
	if c.tails.Add(1) > maxTails {
		c.tails.Add(-1)
		return Frames{}, fmt.Errorf("%w: %d calls of TailStream wait already", runtime.ErrTooManyWatches, maxTails)
	}
	defer c.tails.Add(-1)
	if frames, err = c.awaitFrames(ctx, id, attempt, after, wait, limit); err != nil {
		return Frames{}, err
	}
	closed, err = c.closed(ctx, id, attempt)
	closed.Frames = frames
	return closed, err
}

// awaitFrames waits for frames after one, on a connection to the server that has them. When another one has, or gets
// them, or the connection breaks, it tries again.
func (c *Client) awaitFrames(
	ctx context.Context, id enginecore.ExecutionID, attempt enginecore.AttemptIndex, after string, wait time.Duration,
	limit int64,
) ([]Frame, error) {
	until := time.Now().Add(wait)
	for {
		frames, err := c.awaitFramesOn(ctx, id, attempt, after, time.Until(until), limit)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			return frames, nil
		case !passes(err):
			return nil, readError(ctx, err)
		case time.Until(until) <= readPause:
			return nil, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(readPause):
		}
	}
}

func (c *Client) awaitFramesOn(
	ctx context.Context, id enginecore.ExecutionID, attempt enginecore.AttemptIndex, after string, wait time.Duration,
	limit int64,
) ([]Frame, error) {
	wire, release := c.client.Dedicate()
	// The client library ignores ctx while a blocking command waits; closing the connection ends it.
	stop := context.AfterFunc(ctx, wire.Close)
	defer func() {
		if !stop() {
			wire.Close() // before the next user gets the connection
		}
		release()
	}()
	return c.framesAfter(context.WithoutCancel(ctx), wire, id, attempt, after, max(wait, time.Millisecond), limit)
}

// framesAfter reads frames after one, and waits for them when wait is not 0.
func (c *Client) framesAfter(
	ctx context.Context, on rueidis.CoreClient, id enginecore.ExecutionID, attempt enginecore.AttemptIndex,
	after string, wait time.Duration, limit int64,
) ([]Frame, error) {
	key := c.keys.StreamFrames(id, attempt)
	read := on.B().Xread().Count(limit).Streams().Key(key).Id(after).Build()
	if ms := wait.Milliseconds(); ms > 0 {
		read = on.B().Xread().Count(limit).Block(ms).Streams().Key(key).Id(after).Build()
	}
	streams, err := on.Do(ctx, read).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var frames []Frame
	for _, entry := range streams[key] {
		frame := Frame{entry.ID, make(map[string][]byte, len(entry.FieldValues))}
		for name, value := range entry.FieldValues {
			frame.Fields[name] = []byte(value)
		}
		frames = append(frames, frame)
	}
	return frames, nil
}

// closed reads whether the stream of an attempt has ended.
func (c *Client) closed(
	ctx context.Context, id enginecore.ExecutionID, attempt enginecore.AttemptIndex,
) (Frames, error) {
	fields := []string{"closed_at", "closed_reason"}
	results, err := c.read(ctx, c.hmget(c.keys.StreamMeta(id, attempt), fields))
	if err != nil {
		return Frames{}, err
	}
	r := hashrecord.Read(results[0], fields)
	return Frames{ClosedAt: r.Time("closed_at"), ClosedReason: r["closed_reason"]}, nil
}
