package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"

	"github.com/flowfabric/flowfabric-go/internal/netbound"
)

// Serve answers connections to l, so that redis-cli and other processes reach the engine, until ctx ends, l fails or
// the engine is closed. It closes l and all its connections before it returns. Clients do not log in: listen on a
// loopback address. There are at most 10,000 connections, and at most half of the descriptors of the process; others
// are refused. While the machine lacks resources for another connection, Serve waits. It returns nil after ctx has
// ended, ErrClosed after Close, and otherwise the error of l.
func (e *Engine) Serve(ctx context.Context, listener net.Listener) error {
	// All clients are of this machine, so that one address may have all connections.
	l := netbound.Bound(listener, netbound.Config{PerAddress: math.MaxInt, Refusal: tooManyClients})
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		_ = l.Close()
		return ErrClosed
	}
	e.listeners[l] = struct{}{}
	e.work.Add(1)
	e.mu.Unlock()
	defer e.work.Done()
	defer func() {
		e.mu.Lock()
		delete(e.listeners, l)
		e.mu.Unlock()
	}()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()

	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	for {
		conn, err := l.Accept()
		if err != nil {
			_ = l.Close()
			switch {
			case ctx.Err() != nil:
				return nil
			case e.isClosed():
				return ErrClosed
			case errors.Is(err, net.ErrClosed):
				return fmt.Errorf("embedded: serve: %w", net.ErrClosed)
			}
			return fmt.Errorf("embedded: serve: %w", err)
		}
		if c, ok := conn.(*netbound.Conn); ok {
			c.Serve() // it gives way to no other one: a client of Redis may be idle
		}
		s, err := e.newSession()
		if err != nil {
			_ = conn.Close()
			_ = l.Close()
			return err
		}
		conns.Add(3)
		go func() {
			defer conns.Done()
			s.readFrom(conn)
		}()
		go func() {
			defer conns.Done()
			s.writeTo(conn)
		}()
		go func() {
			defer conns.Done()
			select {
			case <-s.replies.Gone():
			case <-ctx.Done():
			}
			_ = conn.Close() // ends a read or write in progress
		}()
	}
}

// tooManyClients is the reply of Redis to a connection beyond the bound.
const tooManyClients = "-ERR max number of clients reached\r\n"

func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// readFrom feeds the session from a socket until either side ends. Replies that are ready then still go out.
func (s *session) readFrom(conn net.Conn) {
	defer s.replies.End()
	buf := make([]byte, 16<<10)
	for {
		n, err := conn.Read(buf)
		if n > 0 && !s.feed(buf[:n]) || err != nil {
			return
		}
	}
}

// writeTo carries replies to a socket and ends the session when there will be no more.
func (s *session) writeTo(conn net.Conn) {
	defer s.close()
	buf := make([]byte, 16<<10)
	for {
		synced := s.replies.Synced()
		n, over, held := s.replies.Take(buf)
		switch {
		case over:
			return
		case n > 0:
			if _, err := conn.Write(buf[:n]); err != nil {
				return
			}
			continue
		case !held:
			synced = nil
		}
		select {
		case <-s.replies.Ready():
		case <-synced:
		}
	}
}
