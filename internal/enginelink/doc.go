// Package enginelink lets packages of this module decide how an engine of package runtime is connected, which programs
// cannot.
package enginelink

import (
	"net"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/payload"
)

// Link is how an engine is connected.
type Link struct {
	// Shared is the embedded engine to use in place of a new one. Closing the runtime.Engine leaves it open. Defaults
	// to nil: the engine that the URL names.
	Shared *embedded.Engine
	// Wrap is called with each connection that has been made and returns the one to use. It may be called by several
	// goroutines. An error counts as one of the connection, which Wrap has closed. Defaults to nil: connections are
	// used as they are.
	Wrap func(net.Conn) (net.Conn, error)
	// Quiet means that no message is ever lost while a connection lasts, so that workers and keepers rely on messages
	// alone. Defaults to false: they also sweep, rarely.
	Quiet bool
	// RetryFor bounds how long a call is sent again before it fails. Defaults to the time of package enginerpc.
	RetryFor time.Duration
	// Payloads changes the values of users on their way to the engine and back. Defaults to nil: they stay as they are.
	Payloads *payload.Pipeline
}

// Handle carries a link to a runtime.OpenConfig; programs can do nothing with it. The zero value has none.
type Handle struct{ link *Link }

// HandleOf returns the handle of a link, which must not change afterwards.
func HandleOf(l *Link) Handle { return Handle{l} }

// Of returns the link of a handle, nil for the zero value: the engine is connected by its URL.
func Of(h Handle) *Link { return h.link }
