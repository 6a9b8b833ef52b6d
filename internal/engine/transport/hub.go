package transport

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// Pauses between two tries to subscribe.
const (
	firstListenPause = 10 * time.Millisecond
	maxListenPause   = time.Second
)

// dropAfter is how long a channel without listeners stays subscribed while others have listeners. The changes of
// workers that come and go together share one new connection.
const dropAfter = time.Second

// Hub subscribes to channels for all users of an engine, on a separate connection that exists while there are
// listeners.
//
// The client library passes messages to its subscribers from the goroutine that reads the connection, and waits for
// them. A second subscriber of a channel on the same connection receives messages before its own subscription is
// answered; with enough messages the answer is never read, and everything on that connection hangs. The hub therefore
// subscribes to each channel once, and the goroutine that reads only puts messages into a mailbox, from which another
// goroutine passes them on: a server drops a subscriber that reads more slowly than others publish.
//
// The hub never unsubscribes from a channel. The client library sends a PING after every UNSUBSCRIBE and panics, in
// its own goroutine, when the server refuses it, as one that cannot persist does (MISCONF). When channels are no
// longer wanted, the hub closes the connection, after dropAfter, and subscribes to the others on a new one.
type Hub struct {
	client rueidis.Client
	logger *slog.Logger
	ctx    context.Context
	stop   context.CancelFunc
	runs   sync.WaitGroup
	roles  *links // see pinnedReads
	// unasked is set if a connection with subscriptions takes no other commands (RESP2), so that its role cannot be
	// checked.
	unasked bool

	mu        sync.Mutex
	listeners map[*listener]struct{}
	byChannel map[string]map[*listener]struct{}
	confirmed map[string]bool // channels that the present connection is subscribed to
	running   bool
	changed   chan struct{} // has a value when the channels that are wanted may have changed
}

// listener is one user of the hub. Its functions are called one at a time: they must not block, and must not come back
// to the hub.
type listener struct {
	channels   []string
	missing    map[string]bool // not confirmed on the present connection
	subscribed func()          // messages may have been lost until now
	received   func(channel, message string)
}

func newHub(client rueidis.Client, logger *slog.Logger, roles *links, unasked bool) *Hub {
	ctx, stop := context.WithCancel(context.Background())
	return &Hub{
		client: client, logger: logger, ctx: ctx, stop: stop, listeners: make(map[*listener]struct{}),
		roles: roles, unasked: unasked,
		byChannel: make(map[string]map[*listener]struct{}), confirmed: make(map[string]bool),
		changed: make(chan struct{}, 1),
	}
}

// close ends the hub and with it all calls of Listen.
func (h *Hub) close() {
	h.mu.Lock()
	h.stop()
	h.mu.Unlock()
	h.runs.Wait()
}

// Listen receives the messages of channels until ctx ends or the hub is closed, across any number of broken
// connections. The hub calls subscribed whenever all channels have become subscribed, and after it dropped messages
// because too many were queued: messages may have been lost before that call. subscribed and the callback for messages
// are called one at a time; they must not block and must not call the hub.
func (h *Hub) Listen(
	ctx context.Context, channels []string, subscribed func(), received func(channel, message string),
) {
	l := &listener{channels: channels, subscribed: subscribed, received: received}
	h.join(l)
	select {
	case <-ctx.Done():
	case <-h.ctx.Done():
	}
	h.leave(l)
}

// join adds a listener. If all its channels are subscribed already, it calls subscribed before it returns.
func (h *Hub) join(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return
	}
	h.listeners[l] = struct{}{}
	l.missing = make(map[string]bool)
	for _, channel := range l.channels {
		if !h.confirmed[channel] {
			l.missing[channel] = true
		}
		if h.byChannel[channel] == nil {
			h.byChannel[channel] = make(map[*listener]struct{}, 1)
		}
		h.byChannel[channel][l] = struct{}{}
	}
	if len(l.missing) == 0 {
		l.subscribed()
	}
	if !h.running {
		h.running = true
		h.runs.Go(h.run)
	}
	sleep.Wake(h.changed)
}

func (h *Hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
	for _, channel := range l.channels {
		delete(h.byChannel[channel], l)
		if len(h.byChannel[channel]) == 0 {
			delete(h.byChannel, channel)
		}
	}
	sleep.Wake(h.changed)
}

// run keeps a connection while there are listeners.
func (h *Hub) run() {
	pause := firstListenPause
	for {
		begun := time.Now()
		err := h.connect()
		if h.over() {
			return
		}
		if errors.Is(err, errNoListeners) || errors.Is(err, errChannelLeft) || errors.Is(err, errRoleUnknown) {
			continue // there are listeners again, or still
		}
		if time.Since(begun) > maxListenPause {
			pause = firstListenPause
		}
		level := slog.LevelWarn
		if pause > firstListenPause || errors.Is(err, ErrConnecting) {
			level = slog.LevelDebug // an engine that stays unavailable is logged once
		}
		h.logger.LogAttrs(h.ctx, level, "flowfabric: the session lost its subscriptions and subscribes again",
			observe.EventSubscriptionsLost.Attr(), slog.Any("error", err))
		timer := time.NewTimer(pause)
		select {
		case <-h.ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, maxListenPause)
	}
}

// over reports whether the last listener has left; if so, the next listener starts the hub again.
func (h *Hub) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) > 0 && h.ctx.Err() == nil {
		return false
	}
	h.running = false
	return true
}

// errNoListeners ends a connection that is no longer needed.
var errNoListeners = errors.New("no listeners")

// errChannelLeft ends a connection that is subscribed to a channel without listeners.
var errChannelLeft = errors.New("a channel no longer has listeners")

// errRoleUnknown ends a connection that may lead to a replica: the next one is checked.
var errRoleUnknown = errors.New("the connection may lead to a replica")

// checkRole checks that the connection leads to a primary.
func (h *Hub) checkRole(wire rueidis.DedicatedClient) error {
	if h.unasked {
		return errRoleUnknown
	}
	return h.roles.checkRole(h.ctx, wire)
}

// connect receives the messages of all wanted channels until the connection breaks, a channel is no longer wanted, or
// the last listener leaves.
func (h *Hub) connect() error {
	wire, release := h.client.Dedicate()
	defer release()
	defer wire.Close()
	h.forget()
	defer h.forget()
	box := newMailbox()
	var passing sync.WaitGroup
	passing.Go(func() { h.passOn(box) })
	defer passing.Wait()
	defer box.close()
	broken := wire.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { box.put(letter{m.Channel, m.Message}) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" {
				h.confirm(s.Channel)
			}
		},
	})
	var check <-chan time.Time
	if h.roles != nil { // a timer costs the virtual time of tests, in which years pass
		ticker := time.NewTicker(heldRoleEvery)
		defer ticker.Stop()
		check = ticker.C
	}
	held := make(map[string]bool)
	var drop <-chan time.Time // nil while all that is held is wanted
	for {
		missing, needless, wanted := h.compare(held)
		switch {
		case !wanted:
			return errNoListeners
		case !needless:
			drop = nil
		case drop == nil:
			drop = time.After(dropAfter)
		}
		if len(missing) > 0 {
			if err := wire.Do(h.ctx, wire.B().Subscribe().Channel(missing...).Build()).Error(); err != nil {
				return err
			}
		}
		select {
		case err := <-broken:
			return err
		case <-h.ctx.Done():
			return h.ctx.Err()
		case <-drop:
			return errChannelLeft
		case <-check:
			if err := h.checkRole(wire); err != nil {
				return err
			}
		case <-h.changed:
		}
	}
}

// compare returns the wanted channels that are not in held, and adds them to it. needless reports whether held has
// channels that are not wanted, wanted whether any channel is.
func (h *Hub) compare(held map[string]bool) (missing []string, needless, wanted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for channel := range h.byChannel {
		if !held[channel] {
			missing = append(missing, channel)
			held[channel] = true
		}
	}
	return missing, len(held) > len(h.byChannel), len(h.byChannel) > 0
}

// forget marks all channels as not subscribed.
func (h *Hub) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.confirmed)
	for l := range h.listeners {
		for _, channel := range l.channels {
			l.missing[channel] = true
		}
	}
}

func (h *Hub) confirm(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.confirmed[channel] = true
	for l := range h.byChannel[channel] {
		if !l.missing[channel] {
			continue
		}
		delete(l.missing, channel)
		if len(l.missing) == 0 {
			l.subscribed()
		}
	}
}

// passOn gives letters to the listeners until the box is closed.
func (h *Hub) passOn(box *mailbox) {
	for {
		letters, dropped, open := box.take()
		if !open {
			return
		}
		h.mu.Lock()
		if dropped {
			for l := range h.listeners {
				if len(l.missing) == 0 {
					l.subscribed()
				}
			}
		}
		for _, m := range letters {
			for l := range h.byChannel[m.channel] {
				l.received(m.channel, m.message)
			}
		}
		h.mu.Unlock()
	}
}
