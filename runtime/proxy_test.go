package runtime_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between a client and a server and does what networks do.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns map[net.Conn]bool
	// forwarded decides, after a chunk of requests has been forwarded, what becomes of the reply.
	forwarded func(chunk []byte) fate
	dark      bool
	cuts      int
	tasks     sync.WaitGroup
}

// fate is what happens after a request was forwarded.
type fate int

const (
	goOn  fate = iota
	cut        // the reply is lost and the connection with it
	stall      // no reply comes through any more
)

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, target: target, conns: make(map[net.Conn]bool)}
	p.tasks.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.breakAll()
		p.tasks.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// after sets what happens to requests from now on.
func (p *proxy) after(f func(chunk []byte) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forwarded = f
}

// goDark lets nothing through, as if the cable had been pulled; lightUp ends that.
func (p *proxy) goDark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dark = true
}

func (p *proxy) lightUp() {
	p.mu.Lock()
	p.dark = false
	p.mu.Unlock()
	p.breakAll()
}

func (p *proxy) isDark() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dark
}

// breakAll closes every connection.
func (p *proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// lost counts the replies that were lost.
func (p *proxy) lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.tasks.Go(func() { p.serve(client, server) })
	}
}

// link is one connection through the proxy.
type link struct {
	mu      sync.Mutex
	replies bool // are passed on
}

func (l *link) set(pass bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replies = pass
}

func (l *link) passes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replies
}

func (p *proxy) serve(client, server net.Conn) {
	l := &link{replies: true}
	var both sync.WaitGroup
	both.Go(func() { p.requests(client, server, l) })
	both.Go(func() { p.replies(client, server, l) })
	both.Wait()
	_ = client.Close()
	_ = server.Close()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

func (p *proxy) requests(client, server net.Conn, l *link) {
	// The server must have seen what was forwarded, so its side is closed for writing only.
	defer func() { _ = server.(*net.TCPConn).CloseWrite() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if n > 0 && !p.isDark() {
			p.mu.Lock()
			decide := p.forwarded
			p.mu.Unlock()
			what := goOn
			if decide != nil {
				what = decide(buffer[:n])
			}
			if what != goOn {
				l.set(false) // before the server can answer
			}
			if _, err := server.Write(buffer[:n]); err != nil {
				_ = client.Close()
				return
			}
			if what == cut {
				p.mu.Lock()
				p.cuts++
				p.mu.Unlock()
				_ = client.Close()
				return
			}
			if what == stall {
				// The rest of the request; without a reply the client sends no other.
				_, _ = io.Copy(server, client)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) replies(client, server net.Conn, l *link) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if n > 0 && l.passes() && !p.isDark() {
			if _, err := client.Write(buffer[:n]); err != nil {
				_ = server.Close()
				return
			}
		}
		if err != nil {
			_ = client.Close()
			return
		}
	}
}

// cutCalls cuts, with a probability, connections on which a call of the library was just forwarded.
func cutCalls(probability float64) func([]byte) fate {
	return func(chunk []byte) fate {
		if bytes.Contains(chunk, []byte("FCALL")) && rand.Float64() < probability {
			return cut
		}
		return goOn
	}
}

// stallAfter lets so many calls of a function through, the last one without its reply, and says so.
func stallAfter(function string, calls int, stalled chan<- struct{}) func([]byte) fate {
	var mu sync.Mutex
	seen, over := 0, false
	return func(chunk []byte) fate {
		mu.Lock()
		defer mu.Unlock()
		seen += bytes.Count(chunk, []byte(function))
		if seen >= calls && !over {
			over = true
			close(stalled)
		}
		if over {
			return stall
		}
		return goOn
	}
}
