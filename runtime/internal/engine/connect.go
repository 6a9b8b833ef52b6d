package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// connect returns a connection on which the server has answered. A network or a proxy may take connections that lead
// nowhere.
func connect(ctx context.Context, address string, by *net.Dialer, secure *tls.Config) (net.Conn, error) {
	timeout := cmp.Or(by.Timeout, connectTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var conn net.Conn
	var err error
	if secure != nil {
		conn, err = (&tls.Dialer{NetDialer: by, Config: secure}).DialContext(ctx, "tcp", address)
	} else {
		conn, err = by.DialContext(ctx, "tcp", address)
	}
	if slow := net.Error(nil); errors.As(err, &slow) && slow.Timeout() {
		err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	if err != nil {
		return nil, err
	}
	leave := context.AfterFunc(ctx, func() { _ = conn.Close() })
	said, err := handshake(conn)
	if !leave() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("connected, but without an answer within %s", timeout.Round(time.Millisecond))
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: conn.RemoteAddr(), Err: err}
	}
	if said != nil {
		return &handshaken{Conn: conn, said: said}, nil
	}
	return conn, nil
}

// pong is the answer to a ping.
const pong = "+PONG\r\n"

// maxHandshake bounds the line that a server answers with.
const maxHandshake = 1024

// handshake sends a PING and waits for an answer. said is what the server has sent unasked before it, nil if nothing.
func handshake(conn net.Conn) (said []byte, err error) {
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\n"); err != nil {
		return nil, err
	}
	line := make([]byte, len(pong), maxHandshake)
	if _, err := io.ReadFull(conn, line); err != nil {
		return nil, err
	}
	for line[len(line)-1] != '\n' && len(line) < maxHandshake {
		line = line[:len(line)+1]
		if _, err := io.ReadFull(conn, line[len(line)-1:]); err != nil {
			return nil, err
		}
	}
	refused := bytes.HasPrefix(line, []byte("-DENIED")) || bytes.HasPrefix(line, []byte("-ERR max number of clients"))
	if !refused && (line[0] == '+' || line[0] == '-') {
		return nil, nil // also an error, of one who has not logged in yet or may not ask, is an answer
	}
	return line, nil
}

// handshaken is a connection on which the server has sent something unasked, which Read returns first.
type handshaken struct {
	net.Conn
	said []byte
}

// Read implements net.Conn.
func (g *handshaken) Read(into []byte) (int, error) {
	if len(g.said) > 0 {
		n := copy(into, g.said)
		g.said = g.said[n:]
		return n, nil
	}
	return g.Conn.Read(into)
}
