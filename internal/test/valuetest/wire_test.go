package valuetest

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// wires watches the commands that an engine's connections send. It is safe for concurrent use.
type wires struct {
	mu      sync.Mutex
	longest int    // argument of a function (bytes)
	of      string // that function
	sets    int    // values that were written
	loses   int    // how many further values are written to other keys, so that they are missing
}

// config returns the config of an engine whose commands are watched.
func (w *wires) config() runtime.OpenConfig {
	wrap := func(conn net.Conn) (net.Conn, error) { return &wire{Conn: conn, of: w}, nil }
	return runtime.OpenConfig{Internal: enginelink.HandleOf(&enginelink.Link{Wrap: wrap})}
}

// lose makes the next values be missing.
func (w *wires) lose(values int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loses = values
}

func (w *wires) counts() (longest int, of string, sets int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.longest, w.of, w.sets
}

// wire gathers the bytes that a connection sends until they are a whole command.
type wire struct {
	net.Conn
	of      *wires
	pending []byte
}

// Write implements net.Conn.
func (c *wire) Write(p []byte) (int, error) {
	c.pending = append(c.pending, p...)
	for {
		words, rest, whole := command(c.pending)
		if !whole {
			return len(p), nil
		}
		raw := c.pending[:len(c.pending)-len(rest)]
		c.of.note(words, raw)
		if _, err := c.Conn.Write(raw); err != nil {
			return 0, err
		}
		c.pending = rest
	}
}

// note counts a command, and renames the key of a value that is to be missing.
func (w *wires) note(words [][]byte, raw []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch strings.ToUpper(string(words[0])) {
	case "FCALL":
		for _, word := range words[2:] {
			if len(word) > w.longest {
				w.longest, w.of = len(word), string(words[1])
			}
		}
	case "SET":
		if !bytes.Contains(words[1], []byte(":sent:")) {
			return
		}
		if w.sets++; w.loses > 0 {
			w.loses--
			copy(raw[bytes.Index(raw, []byte(":sent:")):], ":lost:")
		}
	}
}

// command splits the first command of a text from the rest. whole is false if its end is missing.
func command(text []byte) (words [][]byte, rest []byte, whole bool) {
	count, rest, ok := header(text, '*')
	if !ok {
		return nil, nil, false
	}
	for range count {
		size, after, ok := header(rest, '$')
		if !ok || len(after) < size+2 {
			return nil, nil, false
		}
		words, rest = append(words, after[:size]), after[size+2:]
	}
	return words, rest, true
}

func header(text []byte, kind byte) (n int, rest []byte, ok bool) {
	line, rest, ok := bytes.Cut(text, []byte("\r\n"))
	if !ok || len(line) < 2 || line[0] != kind {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	return n, rest, err == nil
}
