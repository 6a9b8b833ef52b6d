package embedded

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// session is the server's end of one connection. feed accepts bytes and runs the commands in them on the caller's
// goroutine; take returns replies. Only a command that waits for data gets a goroutine of its own.
type session struct {
	e  *Engine
	id int64

	// feedMu admits one feeder. It guards the fields down to the blank line; the gate is taken inside it.
	feedMu  sync.Mutex
	in      []byte // bytes behind the last complete request
	spans   []resp.Span
	name    string
	resp    int
	multi   bool
	queued  [][]string
	badTx   bool                // a queued command was refused: EXEC discards
	waiting *command.StreamRead // the command that runs waits for streams
	parked  bool                // a goroutine waits on behalf of this session; feed only collects

	// Guarded by the gate.
	channels []string
	patterns []string
	shards   []string

	mu     sync.Mutex
	out    []byte
	sent   int   // bytes of out already taken
	base   int64 // stream offset of out[0]
	marks  []mark
	dead   bool
	ending bool // no more input is read; the rest of out still goes out
	cut    bool // out is complete: what came next could not be told

	ready chan struct{} // holds a token when out or dead changed
	wakes chan struct{} // holds a token when a stream that the session waits for grew
	gone  chan struct{} // closed with the session
}

// mark ties one reply in out to the log position that must be durable before it leaves.
type mark struct {
	begin int64 // stream offset of the reply
	pos   int64
}

// maxUnread bounds the unread bytes of a subscriber; one that exceeds it is disconnected.
const maxUnread = 8 << 20

func (e *Engine) newSession() (*session, error) {
	s := &session{
		e: e, id: e.nextID.Add(1), resp: 2,
		ready: make(chan struct{}, 1), wakes: make(chan struct{}, 1), gone: make(chan struct{}),
	}
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
	s.kill()
	s.e.gate.Lock()
	s.e.subs.drop(s)
	s.e.gate.Unlock()
	s.e.mu.Lock()
	delete(s.e.sessions, s)
	s.e.mu.Unlock()
}

// kill marks the session dead: it accepts and sends no more data.
func (s *session) kill() {
	s.mu.Lock()
	if !s.dead {
		s.dead = true
		s.out, s.marks = nil, nil
		s.sent = 0
		close(s.gone)
	}
	s.mu.Unlock()
	s.signal()
}

func (s *session) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
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
	if s.isDead() {
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
	for len(buf) > 0 && !s.isEnding() {
		words, n, spans, err := resp.ParseRequest(buf, s.spans)
		s.spans = spans
		if err == resp.ErrIncomplete {
			break
		}
		if err != nil {
			reply := resp.Err(err.Error())
			s.emit(&reply, 0)
			s.end()
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

// end stops reading; what is written already still reaches the client.
func (s *session) end() {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.signal()
}

func (s *session) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending || s.dead
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
		return resp.Err(fmt.Sprintf("unknown command '%.128s', with args beginning with: %s", words[0], b.String())), false
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
	return len(s.channels)+len(s.patterns)+len(s.shards) > 0
}

// reply emits a reply that depends on nothing.
func (s *session) reply(r *resp.Reply) { s.emit(r, 0) }

// emit queues a reply that may leave once the log is durable up to pos.
func (s *session) emit(r *resp.Reply, pos int64) {
	s.mu.Lock()
	if !s.dead && !s.cut {
		begin := len(s.out)
		s.out = resp.AppendReply(s.out, r, s.resp)
		s.mark(begin, pos)
	}
	s.mu.Unlock()
	s.signal()
}

// mark records the log position of the bytes appended to out from begin on.
func (s *session) mark(begin int, pos int64) {
	if l := s.e.log; l != nil && l.HoldsBack(pos) {
		s.marks = append(s.marks, mark{s.base + int64(begin), pos})
	}
}

// push queues a published message, already encoded for both protocols. It returns false if the client gets no more
// messages: it is disconnected, or was too slow and is disconnected now.
func (s *session) push(r *resp.Reply, pos int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.cut {
		return false
	}
	begin := len(s.out)
	s.out = resp.AppendReply(s.out, r, s.resp)
	if len(s.out)-s.sent > maxUnread {
		s.dead = true
		s.out, s.marks, s.sent = nil, nil, 0
		close(s.gone)
		s.signal()
		return false
	}
	s.mark(begin, pos)
	s.signal()
	return true
}

func (s *session) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// take copies output that may be sent to p. A count of 0 means that none is ready; over reports that none will ever be,
// held that output waits for the log.
func (s *session) take(p []byte) (n int, over, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return 0, true, false
	}
	limit := len(s.out)
	if len(s.marks) > 0 {
		limit, held = s.release()
	}
	if len(s.out) == 0 {
		return 0, s.ending, false
	}
	n = copy(p, s.out[s.sent:limit])
	s.sent += n
	if s.sent == len(s.out) {
		s.base += int64(s.sent)
		s.sent = 0
		if cap(s.out) > 1<<20 {
			s.out = nil
		}
		s.out = s.out[:0]
		return n, n == 0 && s.ending, false
	}
	return n, false, held
}

// release drops the marks that the log has reached and returns how much of out may be sent. Output that depends on
// records that the log may have lost is never sent: the connection ends before it, so that a client treats the outcome
// as unknown, and a subscriber expects missing messages.
func (s *session) release() (limit int, held bool) {
	durable, unknown := s.e.log.Progress()
	i := 0
	for i < len(s.marks) && s.marks[i].pos <= durable {
		i++
	}
	if i == len(s.marks) {
		s.marks = s.marks[:0]
		return len(s.out), false
	}
	s.marks = append(s.marks[:0], s.marks[i:]...)
	limit = int(s.marks[0].begin - s.base)
	if unknown {
		s.out, s.marks = s.out[:limit], s.marks[:0]
		s.ending, s.cut = true, true
		return limit, false
	}
	return limit, true
}

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
// received meanwhile.
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
		case <-s.gone:
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
	if !s.isDead() {
		s.consume(rest)
	}
}
