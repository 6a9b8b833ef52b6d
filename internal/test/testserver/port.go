package testserver

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports below the range from which systems take the local ports of outgoing connections: one of
// those could otherwise occupy the port of a server that was killed and is to come back.
const (
	firstPort = 12000
	lastPort  = 32000
)

// port is a port number that no other test process on this machine will choose until it is
// released or this process ends.
type port struct {
	number int
	claim  io.Closer
}

func reservePort() (*port, error) {
	for range 1000 {
		p := &port{number: firstPort + rand.IntN(lastPort-firstPort)}
		claim, err := claimPort(p.number)
		if err != nil {
			continue
		}
		p.claim = claim
		l, err := net.Listen("tcp", address(p.number))
		if err != nil {
			p.release()
			continue
		}
		if err := l.Close(); err != nil {
			p.release()
			return nil, err
		}
		return p, nil
	}
	return nil, errors.New("no free port found")
}

func (p *port) release() {
	if p.claim != nil {
		// The claim ends with the process at the latest.
		_ = p.claim.Close()
	}
}

// Port returns a port of this machine for a program that a test starts. No other test gets it until the test has ended.
func Port(tb testing.TB) int {
	tb.Helper()
	p, err := reservePort()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.release)
	return p.number
}
