package enginetest

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// LostMessages drops published messages before the users of an engine receive them, as a server does that closes a
// connection whose client is slow, or a cluster whose links fail. Everything else arrives. The zero value drops none.
// It is safe for concurrent use.
type LostMessages struct {
	mu      sync.Mutex
	loses   func(channel, text string) bool
	dropped map[string]int // by channel, without the prefix
	// subscribed are the connections that have subscribed to channels.
	subscribed map[*lossyConn]bool
}

// Config returns the config of an engine whose messages are dropped.
func (l *LostMessages) Config() runtime.OpenConfig {
	wrap := func(conn net.Conn) (net.Conn, error) {
		return &lossyConn{Conn: conn, frames: bufio.NewReader(conn), lost: l}, nil
	}
	return runtime.OpenConfig{Internal: enginelink.HandleOf(&enginelink.Link{Wrap: wrap})}
}

// Lose decides from now on about each message; nil drops none. The channel comes without the prefix of the engine.
func (l *LostMessages) Lose(loses func(channel, text string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loses = loses
}

// LoseChannels drops from now on all messages of the channels whose names have one of the prefixes.
func (l *LostMessages) LoseChannels(prefixes ...string) {
	l.Lose(func(channel, _ string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(channel, p) {
				return true
			}
		}
		return false
	})
}

// Dropped returns how many messages of channels with a prefix were dropped so far.
func (l *LostMessages) Dropped(prefix string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := 0
	for channel, n := range l.dropped {
		if strings.HasPrefix(channel, prefix) {
			sum += n
		}
	}
	return sum
}

// BreakSubscriptions closes the connections on which messages arrive, so that users subscribe again. Calls on others go
// on.
func (l *LostMessages) BreakSubscriptions() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.subscribed {
		_ = c.Conn.Close()
	}
	clear(l.subscribed)
}

// note records that a connection has subscribed.
func (l *LostMessages) note(c *lossyConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribed == nil {
		l.subscribed = make(map[*lossyConn]bool)
	}
	l.subscribed[c] = true
}

// drops decides about one message.
func (l *LostMessages) drops(channel, text string) bool {
	_, name, _ := strings.Cut(channel, ":")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loses == nil || !l.loses(name, text) {
		return false
	}
	if l.dropped == nil {
		l.dropped = make(map[string]int)
	}
	l.dropped[name]++
	return true
}

// lossyConn is a connection of LostMessages. It reads whole replies of the protocol (RESP3), to find the messages.
type lossyConn struct {
	net.Conn
	frames *bufio.Reader
	left   []byte // of the present reply
	lost   *LostMessages
}

// Read implements net.Conn.
func (c *lossyConn) Read(p []byte) (int, error) {
	for len(c.left) == 0 {
		var raw []byte
		words, err := c.readReply(&raw)
		if err != nil {
			return 0, err
		}
		isPush := raw[0] == '>' && len(words) > 1
		if isPush && words[0] == "subscribe" {
			c.lost.note(c)
		}
		isMessage := isPush && words[0] == "message" && len(words) == 3
		if !isMessage || !c.lost.drops(words[1], words[2]) {
			c.left = raw
		}
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

// readReply appends the bytes of one reply to raw, and returns its texts, also the texts of its elements.
func (c *lossyConn) readReply(raw *[]byte) (words []string, err error) {
	line, err := c.frames.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	*raw = append(*raw, line...)
	n, _ := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	elements := 0
	switch line[0] {
	case '$', '=', '!':
		if n < 0 {
			return nil, nil
		}
		text := make([]byte, n+len("\r\n"))
		if _, err := io.ReadFull(c.frames, text); err != nil {
			return nil, err
		}
		*raw = append(*raw, text...)
		return []string{string(text[:n])}, nil
	case '*', '~', '>':
		elements = n
	case '%':
		elements = 2 * n
	case '|': // attributes, which precede a reply
		elements = 2*n + 1
	}
	for range elements {
		more, err := c.readReply(raw)
		if err != nil {
			return nil, err
		}
		words = append(words, more...)
	}
	return words, nil
}
