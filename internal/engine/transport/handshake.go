package transport

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Credentials returns the user and the password of a connection that is being made. An empty user is the default one;
// two empty values mean that nothing is presented.
type Credentials func(ctx context.Context) (user, password string, err error)

// Fixed returns credentials that do not change.
func Fixed(user, password string) Credentials {
	return func(context.Context) (string, string, error) { return user, password, nil }
}

// Logins are the credentials of connections. Each may be nil.
type Logins struct {
	Server Credentials
	// Sentinel defaults to Server, which is used where a sentinel requires a login.
	Sentinel Credentials
	// Changing is set if the credentials can differ with each call, so that they are requested again after a refusal.
	Changing bool
}

// handshakes defines the exchange with a server before a connection is used.
type handshakes struct {
	logins Logins
	// primaries is set if connections to replicas are refused.
	primaries bool
}

// connect returns a connection on which the server has answered. A network or a proxy may take connections that lead
// nowhere. All errors say that nothing was sent for a caller.
func (h handshakes) connect(
	ctx context.Context, address string, by *net.Dialer, secure *tls.Config,
) (*link, error) {
	timeout := cmp.Or(by.Timeout, connectTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := dialServer(ctx, address, by, secure)
	if slow := net.Error(nil); errors.As(err, &slow) && slow.Timeout() {
		err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	if err != nil {
		return nil, asDialError(err)
	}
	leave := context.AfterFunc(ctx, func() { _ = conn.Close() })
	made := &link{Conn: conn, address: address, sentinel: isSentinel(by)}
	err = h.settle(ctx, made)
	if !leave() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("connected, but without an answer within %s", timeout.Round(time.Millisecond))
		}
		return nil, &net.OpError{Op: "dial", Net: conn.RemoteAddr().Network(), Addr: conn.RemoteAddr(), Err: err}
	}
	return made, nil
}

// dialServer connects to host:port or to a socket, whose address is a path. The certificate is checked against the host
// of the address unless the configuration names another one.
func dialServer(ctx context.Context, address string, by *net.Dialer, secure *tls.Config) (net.Conn, error) {
	if IsSocket(address) {
		return by.DialContext(ctx, "unix", address)
	}
	if secure == nil {
		return by.DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{NetDialer: by, Config: secure}).DialContext(ctx, "tcp", address)
}

// IsSocket reports whether an address is the path of a socket instead of host:port.
func IsSocket(address string) bool { return strings.HasPrefix(address, "/") }

// settle performs the exchange with the server before the connection is used.
func (h handshakes) settle(ctx context.Context, l *link) error {
	line, err := ping(l.Conn)
	switch {
	case err != nil:
		return err
	case line[0] != '+' && line[0] != '-':
		l.said = line
		return nil
	case bytes.HasPrefix(line, []byte("-DENIED")), bytes.HasPrefix(line, []byte("-ERR max number of clients")):
		return fmt.Errorf("the server refuses the connection: %s", strings.TrimSpace(string(line[1:])))
	}
	ask := h.logins.Server
	if l.sentinel {
		switch locked := bytes.HasPrefix(line, []byte("-NOAUTH")); {
		case h.logins.Sentinel != nil:
			ask = h.logins.Sentinel
		case !locked:
			ask = nil
		}
	}
	if ask != nil {
		if l.login.user, l.login.password, err = ask(ctx); err != nil {
			return fmt.Errorf("%w: credentials: %w", enginecore.ErrUnauthorized, err)
		}
	}
	if h.logins.Changing && ask != nil || h.primaries && !l.sentinel {
		return h.introduce(l)
	}
	return nil
}

// introduce logs in and checks the role of the server. The client library logs in again, and reports the errors that
// this function ignores.
func (h handshakes) introduce(l *link) error {
	hello := []string{"HELLO"}
	if l.login.user != "" || l.login.password != "" {
		hello = append(hello, "2", "AUTH", cmp.Or(l.login.user, "default"), l.login.password)
	}
	if _, err := l.Conn.Write(command(hello)); err != nil {
		return err
	}
	properties, refusal, err := readProperties(bufio.NewReader(l.Conn))
	switch {
	case err != nil:
		return err
	case refusal != "" && h.logins.Changing && enginerpc.IsUnauthorized(refusal):
		return fmt.Errorf("%w: %s", enginecore.ErrUnauthorized, refusal)
	case h.primaries && !l.sentinel && isReplica(properties["role"]):
		return enginerpc.ErrReplica
	}
	return nil
}

// command is a command as it is sent.
func command(words []string) []byte {
	text := []byte("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, word := range words {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
	}
	return text
}

// pong is the answer to a ping.
const pong = "+PONG\r\n"

// maxHandshake bounds the line that a server answers with.
const maxHandshake = 1024

// ping sends a PING and returns the line with which the server answers.
func ping(conn net.Conn) ([]byte, error) {
	if _, err := conn.Write(command([]string{"PING"})); err != nil {
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
	return line, nil
}
