package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/feeds"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/runview"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/worker/output"
)

// framePage is the number of frames read at once: at most 4 MiB, with frames of full size.
const framePage = 64

// Stream yields the frames that the attempts of a node emit until the node has ended or ctx ends, after the frame with
// the cursor after. An error is yielded last.
func (r *Run) Stream(ctx context.Context, node, after string) iter.Seq2[fabrictype.Frame, error] {
	return emitted(r.frames(ctx, node, after, false))
}

// Frames yields the frames of a node that exist already, as Stream does, and waits for no others.
func (r *Run) Frames(ctx context.Context, node, after string) iter.Seq2[fabrictype.Frame, error] {
	return emitted(r.frames(ctx, node, after, true))
}

func (r *Run) frames(ctx context.Context, node, after string, soFar bool) iter.Seq2[fabrictype.Frame, error] {
	return func(yield func(fabrictype.Frame, error) bool) {
		place, name, err := r.AtPath(ctx, node)
		err = r.whyEnded(ctx, err)
		if err == nil {
			at := Run{runview.Reader{Session: r.Session, Run: place}}
			err = at.stream(ctx, name, after, soFar, yield)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(fabrictype.Frame{}, fmt.Errorf("stream of node %s, run %s of flow %s: %w", node, r.Run.ID, r.Run.Flow, err))
		}
	}
}

// stream yields frames until the node has ended, its reader has stopped or an error ends it.
func (r *Run) stream(
	ctx context.Context, node, after string, soFar bool, yield func(fabrictype.Frame, error) bool,
) (err error) {
	watches := r.Session.Watches
	if !soFar {
		if err := watches.Begin(); err != nil {
			return err
		}
		defer watches.End()
	}
	s := frameReader{
		run: r, node: node, soFar: soFar, tail: transport.Tail{Watches: watches},
		events: r.Session.Backend.FollowEvents(r.Run.Partition, r.Run.FlowID),
	}
	defer s.tail.Close()
	defer s.events.Close()
	defer func() { err = r.whyEnded(ctx, err) }()
	if _, err := r.result(ctx); err != nil {
		return err
	}
	if s.execution, err = r.Session.ExecutionID(ctx, r.Run, node); err != nil {
		return err
	}
	if err := s.checkNode(ctx); err != nil {
		return err
	}
	if err := s.seek(after); err != nil {
		return err
	}
	return s.read(ctx, yield)
}

// frameReader follows one node. While it waits for frames it also reads the events of the run, by which it knows when
// an attempt follows and when the node has ended: all frames of an attempt are there before the event that ends it.
type frameReader struct {
	run       *Run
	node      string
	execution enginecore.ExecutionID
	soFar     bool
	tail      transport.Tail
	events    feeds.Follower

	attempt enginecore.AttemptIndex
	entry   string // the last one of the attempt's stream
	seen    seenFrames
	sought  bool   // no frame was read since the reader was put after a cursor
	event   string // the last one of the run's events
	newest  enginecore.AttemptIndex
	over    bool
	looked  time.Time // when the run was last known to exist
}

// checkNode returns an error for a node that the run does not have. A node without a record may still be created, while
// a run is being submitted in pieces: checkNode reads its graph then.
func (s *frameReader) checkNode(ctx context.Context) error {
	session := s.run.Session
	client, key := session.Client, session.Core.Keys().ExecCore(s.execution)
	if there, err := client.Do(ctx, client.B().Exists().Key(key).Build()).AsBool(); err != nil || there {
		return enginerpc.CommandError(ctx, "EXISTS", err)
	}
	d, err := s.run.Describe(ctx, runview.Request{})
	if err == nil && d.Graph != nil && d.Graph.Node(s.node) == nil {
		err = engine.ErrUnknownNode
	}
	return err
}

// seek goes to a cursor: "<attempt>/<entry>".
func (s *frameReader) seek(cursor string) error {
	if cursor == "" {
		return nil
	}
	number, entry, found := strings.Cut(cursor, "/")
	attempt, err := strconv.Atoi(number)
	ms, sequence, dashed := strings.Cut(entry, "-")
	if !found || err != nil || attempt < 1 || !dashed || !isNumber(ms) || !isNumber(sequence) {
		return fmt.Errorf("%w: %q", engine.ErrCursor, cursor)
	}
	s.attempt, s.entry, s.sought = enginecore.AttemptIndex(attempt-1), entry, true
	return nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 64)
	return err == nil
}

func (s *frameReader) read(ctx context.Context, yield func(fabrictype.Frame, error) bool) error {
	for {
		// The events are read first: the frames before an event are in the stream by then.
		if err := s.readEvents(ctx); err != nil {
			return err
		}
		more, err := s.readFrames(ctx, yield)
		switch {
		case err != nil:
			return err
		case more:
		case s.attempt < s.newest:
			s.attempt, s.entry = s.attempt+1, ""
		case s.over || s.soFar:
			return nil
		default:
			if err := s.recheck(ctx); err != nil {
				return err
			}
			if err := s.await(ctx); err != nil {
				return err
			}
		}
	}
}

// await returns when the attempt has frames that were not read, when it is no longer the last one, or when the node has
// ended.
func (s *frameReader) await(ctx context.Context) error {
	waiting, stop := context.WithCancel(ctx)
	framed := make(chan error, 1)
	key := s.run.Session.Core.Keys().StreamFrames(s.execution, s.attempt)
	go func() {
		framed <- s.tail.Await(waiting, key, cmp.Or(s.entry, transport.FromStart))
		stop()
	}()
	for {
		err := s.events.Await(waiting)
		if waiting.Err() != nil && ctx.Err() == nil {
			return <-framed
		}
		if err == nil {
			err = s.readEvents(ctx)
		}
		if err != nil || s.attempt < s.newest || s.over {
			stop()
			<-framed
			s.tail.Close() // it was ended while it waited
			return err
		}
	}
}

// recheck returns an error, now and then, for a run that no longer exists, of which no events would come.
func (s *frameReader) recheck(ctx context.Context) error {
	if time.Since(s.looked) <= transport.TailLook {
		return nil
	}
	_, err := s.run.over(ctx)
	s.looked = time.Now()
	return err
}

// readEvents reads the node's events since the last call.
func (s *frameReader) readEvents(ctx context.Context) error {
	for {
		page, err := s.run.readEvents(ctx, s.event, maxWatchPage)
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			event := engine.ReadEvent(e)
			s.event = e.ID
			if event.Ends() {
				s.over = true
			}
			if event.Node == s.node {
				s.newest = max(s.newest, enginecore.AttemptIndex(event.Attempt-1))
				s.over = event.Kind.EndsNode()
			}
		}
		if len(page.Events) < maxWatchPage && len(page.Gone) == 0 {
			return nil
		}
	}
}

// readFrames yields a page and reports whether there was one.
func (s *frameReader) readFrames(ctx context.Context, yield func(fabrictype.Frame, error) bool) (bool, error) {
	call := enginerpc.ReadAttemptStreamCall{ExecutionID: s.execution, AttemptIndex: s.attempt, CountLimit: framePage}
	if s.entry != "" {
		call.FromID = "(" + s.entry
	}
	reply, err := s.run.Session.Core.ReadAttemptStream(ctx, call)
	if retry.IsUnreached(err) && ctx.Err() == nil {
		sleep.For(ctx, transport.TailPause)
		return true, nil
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return false, err
	}
	var trimmed int
	if s.entry == "" && len(reply.Frames) > 0 {
		if trimmed, err = s.trimmed(ctx); err != nil {
			return false, err
		}
	}
	for _, entry := range reply.Frames {
		s.entry = entry.ID
		frame, number := s.frame(entry)
		// A frame that was sent again because its reply was lost is in the stream twice.
		missing, isNew := s.seen.add(number)
		if !isNew {
			continue
		}
		if !s.sought {
			frame.Dropped = max(missing, trimmed)
		}
		s.sought, trimmed = false, 0
		if !yield(frame, nil) {
			return false, errEnough
		}
	}
	return len(reply.Frames) > 0, nil
}

// trimmed returns how many frames of the attempt the engine has had and keeps no more.
func (s *frameReader) trimmed(ctx context.Context) (int, error) {
	session := s.run.Session
	client, keys := session.Client, session.Core.Keys()
	read := client.DoMulti(ctx,
		client.B().Hget().Key(keys.StreamMeta(s.execution, s.attempt)).Field("frame_count").Build(),
		client.B().Xlen().Key(keys.StreamFrames(s.execution, s.attempt)).Build())
	had, err := read[0].AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return 0, enginerpc.CommandError(ctx, "HGET", err)
	}
	has, err := read[1].AsInt64()
	if err != nil {
		return 0, enginerpc.CommandError(ctx, "XLEN", err)
	}
	return int(max(0, had-has)), nil
}

// frame also returns the number that its worker gave the frame.
func (s *frameReader) frame(entry enginerpc.Frame) (fabrictype.Frame, engine.FrameNumber) {
	f := fabrictype.Frame{
		Cursor: fmt.Sprintf("%d/%s", s.attempt+1, entry.ID), Attempt: int(s.attempt) + 1,
		At: engine.EntryTime(entry.ID),
	}
	number := engine.FrameNumber{}
	var payload []byte
	for _, field := range entry.Fields {
		switch field.Name {
		case "frame_type":
			f.Kind = string(field.Value)
		case "payload":
			payload = field.Value
		case "encoding":
			f.Encoding = string(field.Value)
		case "correlation_id":
			f.CorrelationID = string(field.Value)
		case "ts":
			if ms, err := strconv.ParseInt(string(field.Value), 10, 64); err == nil {
				f.ProducedAt = time.UnixMilli(ms).UTC()
			}
		case "source":
			number = engine.ParseFrameSource(string(field.Value))
		}
	}
	if f.Encoding == activitycontext.JSONEncoding && describe.IsJSON(payload) {
		f.JSON = payload
	} else {
		f.Data = payload
	}
	return f, number
}

// seenFrames are the numbers of the last frames of a lease: at least all that its worker may send again.
type seenFrames struct {
	epoch  enginecore.LeaseEpoch
	last   int64 // the largest one
	counts map[int64]bool
}

// add notes a number. It returns how many numbers are missing in front of it, and whether it is new.
func (s *seenFrames) add(n engine.FrameNumber) (missing int, isNew bool) {
	if n.Epoch == 0 {
		return 0, true
	}
	if s.epoch != n.Epoch {
		*s = seenFrames{epoch: n.Epoch, counts: make(map[int64]bool)}
	}
	if s.counts[n.Count] {
		return 0, false
	}
	s.counts[n.Count] = true
	delete(s.counts, n.Count-4*output.FramesPerBatch)
	missing = int(max(0, n.Count-s.last-1))
	s.last = max(s.last, n.Count)
	return missing, true
}
