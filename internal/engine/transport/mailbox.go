package transport

import (
	"sync"

	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// maxLetters bounds a mailbox. Messages are hints: who has missed some looks everywhere instead.
const maxLetters = 1 << 14

// letter is a message on a channel.
type letter struct{ channel, message string }

// mailbox holds messages, in order, between the goroutine that reads them from a connection, which it never blocks, and
// the one that passes them on. A message that equals the last one of its channel, which is still in the mailbox, is
// left out; all are dropped when there are too many.
type mailbox struct {
	arrived chan struct{} // has a value when there is something to take
	closed  chan struct{}

	mu      sync.Mutex
	letters []letter
	last    map[string]string // by channel, of those in letters
	dropped bool
}

func newMailbox() *mailbox {
	return &mailbox{arrived: make(chan struct{}, 1), closed: make(chan struct{}), last: make(map[string]string)}
}

func (b *mailbox) put(l letter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last, pending := b.last[l.channel]; b.dropped || pending && last == l.message {
		return
	}
	if len(b.letters) == maxLetters {
		b.letters, b.dropped = nil, true
		clear(b.last)
	} else {
		b.letters = append(b.letters, l)
		b.last[l.channel] = l.message
	}
	sleep.Wake(b.arrived)
}

// take waits for letters and reports whether some were dropped before them. open is false once the mailbox is closed.
func (b *mailbox) take() (letters []letter, dropped, open bool) {
	select {
	case <-b.closed:
		return nil, false, false
	case <-b.arrived:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	letters, dropped = b.letters, b.dropped
	b.letters, b.dropped = nil, false
	clear(b.last)
	return letters, dropped, true
}

// close ends take. It is called once.
func (b *mailbox) close() { close(b.closed) }
