package proxy

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Fate is the action after a chunk of requests was forwarded.
type Fate int

const (
	// Pass forwards and continues.
	Pass Fate = iota
	// Cut loses the reply, and the connection with it.
	Cut
	// Stall discards all further replies on this connection, which stays open.
	Stall
)

// Proxy forwards connections to a server. Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	tasks    sync.WaitGroup

	mu     sync.Mutex
	target string
	conns  map[*net.TCPConn]bool
	links  map[*link]bool
	decide func(chunk []byte) Fate
	way    direction
	delay  time.Duration
	lost   int
}

// direction selects which data is dropped.
type direction int

const (
	open direction = iota
	deafened
	blackhole
)

// Start listens on a free loopback port and forwards to the target, host:port, until the test ends.
func Start(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("proxy: %v", err)
	}
	p := &Proxy{listener: listener, target: target, conns: make(map[*net.TCPConn]bool), links: make(map[*link]bool)}
	p.tasks.Go(p.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		p.Break()
		p.tasks.Wait()
	})
	return p
}

// Addr is where clients connect, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Lead makes new connections go to another server. Present ones keep their server.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Intercept makes a function decide from now on about the replies to each chunk of requests. The server gets the chunk
// in any case. Nil passes everything.
func (p *Proxy) Intercept(decide func(chunk []byte) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = decide
}

// Blackhole discards all data of both sides, as if the cable were pulled, until Restore.
func (p *Proxy) Blackhole() { p.turn(blackhole) }

// Deafen drops only replies, so that the server continues to execute requests, until Restore.
func (p *Proxy) Deafen() { p.turn(deafened) }

// Silence permanently discards all data of both sides on the present connections, which stay open. New connections
// work.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.lose()
	}
}

// Restore ends Blackhole and Deafen. The connections that lived through it have lost bytes, so they are closed.
func (p *Proxy) Restore() {
	p.turn(open)
	p.Break()
}

// Delay holds back every chunk for so long, in both directions; 0 ends that.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Break closes every connection.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Reset ends every connection with an RST, which discards data in flight.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
}

// Lost counts the replies that Cut has lost.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *Proxy) turn(way direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.way = way
}

// swallows reports, after the delay, whether a chunk is dropped.
func (p *Proxy) swallows(from direction) bool {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay) //nolint:forbidigo // how slow the network is
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.way >= from
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		client := conn.(*net.TCPConn)
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		upstream, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		server := upstream.(*net.TCPConn)
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.tasks.Go(func() { p.serve(client, server) })
	}
}

// link is one connection through the proxy.
type link struct {
	client, server *net.TCPConn

	mu   sync.Mutex
	mute bool // replies are not passed on
	lost bool // nor are requests
}

func (l *link) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute, l.lost = true, true
}

func (l *link) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *link) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = true
}

func (l *link) silent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mute
}

func (p *Proxy) serve(client, server *net.TCPConn) {
	l := &link{client: client, server: server}
	p.mu.Lock()
	p.links[l] = true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.requests(l) })
	both.Go(func() { p.replies(l) })
	both.Wait()
	_ = client.Close()
	_ = server.Close()
	p.mu.Lock()
	delete(p.links, l)
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

const chunkSize = 64 << 10

func (p *Proxy) requests(l *link) {
	// The server must receive the forwarded requests, so its side is closed for writing only.
	defer func() { _ = l.server.CloseWrite() }()
	buffer := make([]byte, chunkSize)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 && !p.swallows(blackhole) && !l.isLost() && !p.forward(l, buffer[:n]) {
			return
		}
		if err != nil {
			return
		}
	}
}

// forward passes on a chunk of requests, and reports whether the connection continues.
func (p *Proxy) forward(l *link, chunk []byte) bool {
	p.mu.Lock()
	decide := p.decide
	p.mu.Unlock()
	fate := Pass
	if decide != nil {
		fate = decide(chunk)
	}
	if fate != Pass {
		l.silence() // before the server can answer
	}
	if _, err := l.server.Write(chunk); err != nil {
		_ = l.client.Close()
		return false
	}
	switch fate {
	case Cut:
		p.mu.Lock()
		p.lost++
		p.mu.Unlock()
		_ = l.client.Close()
		return false
	case Stall:
		// The rest of the request; without a reply the client sends no other.
		_, _ = io.Copy(l.server, l.client)
		return false
	}
	return true
}

func (p *Proxy) replies(l *link) {
	buffer := make([]byte, chunkSize)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 && !l.silent() && !p.swallows(deafened) {
			if _, err := l.client.Write(buffer[:n]); err != nil {
				_ = l.server.Close()
				return
			}
		}
		if err != nil {
			_ = l.client.Close()
			return
		}
	}
}
