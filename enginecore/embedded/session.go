package embedded

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/pubsub"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/replyqueue"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// session is the server's end of one connection. feed accepts bytes and runs the commands in them on the caller's
// goroutine; replies holds their replies. Only a command that waits for data gets a separate goroutine.
type session struct {
	e  *Engine
	id int64

	// feedMu admits one feeder. It guards the fields down to the blank line; the gate is taken inside it.
	feedMu  sync.Mutex
	in      []byte // bytes after the last complete request
	spans   []resp.Span
	name    string
	resp    int
	multi   bool
	queued  [][]string
	badTx   bool                // a queued command was refused: EXEC discards
	waiting *command.StreamRead // the command that runs waits for streams
	parked  bool                // a goroutine waits on behalf of this session; feed only collects

	// Guarded by the gate.
	subs [pubsub.NumKinds][]string // names that the session has subscribed to

	replies *replyqueue.Queue
	wakes   chan struct{} // holds a token when a stream that the session waits for grew
}

func (e *Engine) newSession() (*session, error) {
	s := &session{e: e, id: e.nextID.Add(1), resp: 2, replies: replyqueue.New(e.log), wakes: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	e.sessions[s] = struct{}{}
	return s, nil
}

// close ends the session from any goroutine; it must not be called with the gate held.
func (s *session) close() {
	s.replies.Kill()
	s.e.gate.Lock()
	s.e.broker.Drop(s)
	s.e.gate.Unlock()
	s.e.mu.Lock()
	delete(s.e.sessions, s)
	s.e.mu.Unlock()
}

// stir wakes a session that waits for a stream.
func (s *session) stir() {
	select {
	case s.wakes <- struct{}{}:
	default:
	}
}

// feed takes bytes from the client and runs the requests that they complete. It keeps no reference to p. It reports
// false when the session is over.
func (s *session) feed(p []byte) bool {
	s.feedMu.Lock()
	defer s.feedMu.Unlock()
	if s.replies.Dead() {
		return false
	}
	if s.parked {
		s.in = append(s.in, p...)
		return true
	}
	if len(s.in) > 0 {
		s.in = append(s.in, p...)
		p = s.in
	}
	s.consume(p)
	return true
}

// consume runs the complete requests in buf and keeps the rest.
func (s *session) consume(buf []byte) {
	for len(buf) > 0 && !s.replies.Ending() {
		words, n, spans, err := resp.ParseRequest(buf, s.spans)
		s.spans = spans
		if err == resp.ErrIncomplete {
			break
		}
		if err != nil {
			reply := resp.Err(err.Error())
			s.emit(&reply, 0)
			s.replies.End()
			break
		}
		buf = buf[n:]
		if len(words) == 0 {
			continue
		}
		s.execute(words)
		if s.waiting != nil {
			s.park()
			break
		}
	}
	if len(buf) == 0 {
		if cap(s.in) > 1<<20 {
			s.in = nil
		}
		s.in = s.in[:0]
		return
	}
	s.in = append(s.in[:0], buf...) // regions may overlap, which copying forward allows
}

// execute runs one request and emits its reply.
func (s *session) execute(words []string) {
	e := s.e
	cmd := e.command(words[0])
	if bad, ok := s.admit(cmd, words); !ok {
		if s.multi {
			s.badTx = true
		}
		s.reply(&bad)
		return
	}
	if s.multi && cmd.Flags&command.NoMulti == 0 {
		s.queued = append(s.queued, words)
		s.reply(&resp.Queued)
		return
	}
	e.gate.Lock()
	defer e.gate.Unlock()
	if e.shut {
		reply := resp.Err("engine is closed")
		s.emit(&reply, 0)
		return
	}
	c := &call{Call: command.Call{Store: &e.store, Args: words, CanWait: true}, e: e, sess: s}
	reply := e.unit(c, cmd)
	if s.waiting = c.Waits; s.waiting != nil {
		for _, key := range s.waiting.Keys {
			e.block(key, s)
		}
		return
	}
	if reply.Kind != kindNone {
		s.emit(&reply, e.position())
	}
}

// kindNone is the reply of a command that has already emitted its output.
const kindNone resp.Kind = 255

// admit checks a request before it runs or is queued.
func (s *session) admit(cmd *boundCommand, words []string) (resp.Reply, bool) {
	if cmd == nil {
		var b strings.Builder
		for _, w := range words[1:] {
			if b.Len() > 128 {
				break
			}
			fmt.Fprintf(&b, "'%.128s' ", w)
		}
		return resp.Err(fmt.Sprintf("unknown command '%.128s', with args beginning with: %s", words[0],
			b.String())), false
	}
	if !cmd.ArityOK(len(words)) {
		return cmd.WrongArity(), false
	}
	if s.resp == 2 && s.subscribed() && cmd.Flags&command.PubSub == 0 {
		return resp.Err("Can't execute '" + cmd.Name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"), false
	}
	return resp.Reply{}, true
}

// subscribed may be called by the feeder without the gate: only the feeder changes the lists.
func (s *session) subscribed() bool {
	return len(s.subs[pubsub.Channel])+len(s.subs[pubsub.Pattern])+len(s.subs[pubsub.Shard]) > 0
}

// reply emits a reply that depends on nothing.
func (s *session) reply(r *resp.Reply) { s.emit(r, 0) }

// emit queues a reply that may leave once the log is durable up to pos.
func (s *session) emit(r *resp.Reply, pos int64) { s.replies.Add(r, s.resp, pos) }

// Push implements pubsub.Subscriber.
func (s *session) Push(r *resp.Reply, pos int64) bool { return s.replies.Push(r, s.resp, pos) }

// block registers a session for a stream; unblock undoes it. The gate is held.
func (e *Engine) block(key string, s *session) {
	if e.blocked[key] == nil {
		e.blocked[key] = map[*session]struct{}{}
	}
	e.blocked[key][s] = struct{}{}
}

func (e *Engine) unblock(x *command.StreamRead, s *session) {
	for _, key := range x.Keys {
		delete(e.blocked[key], s)
		if len(e.blocked[key]) == 0 {
			delete(e.blocked, key)
		}
	}
}

// park hands the session to a goroutine that waits for the streams of s.waiting, replies, and continues with the input
// received in the meantime.
func (s *session) park() {
	e := s.e
	x := s.waiting
	s.waiting = nil
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		e.gate.Lock()
		e.unblock(x, s)
		e.gate.Unlock()
		return
	}
	e.work.Add(1)
	e.mu.Unlock()
	s.parked = true
	go func() {
		defer e.work.Done()
		s.waitFor(x)
	}()
}

func (s *session) waitFor(x *command.StreamRead) {
	e := s.e
	var timeout <-chan time.Time
	if x.BlockMs > 0 {
		t := time.NewTimer(time.Duration(x.BlockMs) * time.Millisecond)
		defer t.Stop()
		timeout = t.C
	}
	reply, found := resp.Reply{Kind: resp.KindNilArray}, false
	for !found {
		over := false
		select {
		case <-s.wakes:
		case <-timeout:
			over = true
		case <-s.replies.Gone():
			over = true
		case <-e.done:
			over = true
		}
		e.gate.Lock()
		e.begin()
		if e.refused == nil {
			reply, found = x.Read(&e.store)
		} else if over {
			reply = refusal(e.refused)
		}
		if found || over {
			e.unblock(x, s)
			s.emit(&reply, e.position())
			found = true
		}
		e.gate.Unlock()
	}
	s.feedMu.Lock()
	defer s.feedMu.Unlock()
	select {
	case <-s.wakes: // left over from a stream that grew twice
	default:
	}
	s.parked = false
	rest := s.in
	s.in = nil
	if !s.replies.Dead() {
		s.consume(rest)
	}
}
