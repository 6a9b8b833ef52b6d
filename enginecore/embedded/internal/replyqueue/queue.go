// Package replyqueue holds the replies of a connection until the client takes them, and those that depend on the log
// until it is on disk.
package replyqueue

import (
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/aof"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// maxUnread bounds the unread bytes of a subscriber; one that exceeds it is disconnected.
const maxUnread = 8 << 20

// Queue is the output of one connection, in bytes. All methods may be called together.
type Queue struct {
	log *aof.Log // nil when there is none

	mu     sync.Mutex
	out    []byte
	sent   int   // bytes of out already taken
	base   int64 // stream offset of out[0]
	marks  []mark
	dead   bool
	ending bool // no more input is read; the rest of out still goes out
	cut    bool // out is complete: the outcome of the calls after it is unknown, so they get no replies

	ready chan struct{} // holds a token when out or dead changed
	gone  chan struct{} // closed by Kill
}

// mark ties one reply in out to the log position that must be durable before it leaves.
type mark struct {
	begin int64 // stream offset of the reply
	pos   int64
}

// New returns an empty queue of replies that depend on log, which is nil when none does.
func New(log *aof.Log) *Queue {
	return &Queue{log: log, ready: make(chan struct{}, 1), gone: make(chan struct{})}
}

// Ready returns a channel that receives when Take may return something new.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

// Gone returns a channel that is closed when the queue is dead.
func (q *Queue) Gone() <-chan struct{} { return q.gone }

// Synced returns a channel that is closed when output that Take held back may be taken. Get it before Take. It is nil
// without a log.
func (q *Queue) Synced() <-chan struct{} {
	if q.log == nil {
		return nil
	}
	return q.log.Changed()
}

// Kill marks the queue dead: it accepts and yields no more data.
func (q *Queue) Kill() {
	q.mu.Lock()
	q.kill()
	q.mu.Unlock()
	q.signal()
}

// kill is Kill with mu held.
func (q *Queue) kill() {
	if !q.dead {
		q.dead = true
		q.out, q.marks, q.sent = nil, nil, 0
		close(q.gone)
	}
}

// End notes that the connection reads no more input; replies that are queued still reach the client.
func (q *Queue) End() {
	q.mu.Lock()
	q.ending = true
	q.mu.Unlock()
	q.signal()
}

// Dead reports whether the queue is dead.
func (q *Queue) Dead() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dead
}

// Ending reports whether the connection reads no more input.
func (q *Queue) Ending() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ending || q.dead
}

func (q *Queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Add queues a reply, in version protocol of the protocol, that may leave once the log is durable up to pos.
func (q *Queue) Add(r *resp.Reply, protocol int, pos int64) {
	q.mu.Lock()
	if !q.dead && !q.cut {
		begin := len(q.out)
		q.out = resp.AppendReply(q.out, r, protocol)
		q.mark(begin, pos)
	}
	q.mu.Unlock()
	q.signal()
}

// Push is Add for a message that is not the reply to a request. It returns false if the client gets no more messages:
// it is disconnected, or was too slow and is disconnected now.
func (q *Queue) Push(r *resp.Reply, protocol int, pos int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead || q.cut {
		return false
	}
	begin := len(q.out)
	q.out = resp.AppendReply(q.out, r, protocol)
	if len(q.out)-q.sent > maxUnread {
		q.kill()
		q.signal()
		return false
	}
	q.mark(begin, pos)
	q.signal()
	return true
}

// mark records the log position of the bytes appended to out from begin on.
func (q *Queue) mark(begin int, pos int64) {
	if q.log != nil && q.log.HoldsBack(pos) {
		q.marks = append(q.marks, mark{q.base + int64(begin), pos})
	}
}

// Take copies output that may be sent to p. A count of 0 means that none is ready; over reports that none will ever be,
// held that output waits for the log.
func (q *Queue) Take(p []byte) (n int, over, held bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return 0, true, false
	}
	limit := len(q.out)
	if len(q.marks) > 0 {
		limit, held = q.release()
	}
	if len(q.out) == 0 {
		return 0, q.ending, false
	}
	n = copy(p, q.out[q.sent:limit])
	q.sent += n
	if q.sent == len(q.out) {
		q.base += int64(q.sent)
		q.sent = 0
		if cap(q.out) > 1<<20 {
			q.out = nil
		}
		q.out = q.out[:0]
		return n, n == 0 && q.ending, false
	}
	return n, false, held
}

// release drops the marks that the log has reached and returns how much of out may be sent. Output that depends on
// records that the log may have lost is never sent: the connection ends before it, so that a client treats the outcome
// as unknown, and a subscriber expects missing messages.
func (q *Queue) release() (limit int, held bool) {
	durable, unknown := q.log.Progress()
	i := 0
	for i < len(q.marks) && q.marks[i].pos <= durable {
		i++
	}
	if i == len(q.marks) {
		q.marks = q.marks[:0]
		return len(q.out), false
	}
	q.marks = append(q.marks[:0], q.marks[i:]...)
	limit = int(q.marks[0].begin - q.base)
	if unknown {
		q.out, q.marks = q.out[:limit], q.marks[:0]
		q.ending, q.cut = true, true
		return limit, false
	}
	return limit, true
}
