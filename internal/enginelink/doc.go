// Package enginelink lets packages of this module decide how an engine of package runtime is connected, which programs
// cannot.
package enginelink

import (
	"context"
	"net"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
)

// Link is how an engine is connected.
type Link struct {
	// Shared is the embedded engine to use in place of one of its own. Closing the runtime.Engine leaves it open.
	// Defaults to nil: the engine that the URL names.
	Shared *embedded.Engine
	// Wrap is called with each connection that has been made and returns the one to use. It may be called by several
	// goroutines. An error counts as one of the connection, which Wrap has closed. Defaults to nil: connections are
	// used as they are.
	Wrap func(net.Conn) (net.Conn, error)
	// Quiet says that no message is ever lost while a connection lasts, so that workers and keepers look for nothing
	// that they are not told of. Defaults to false: they sweep, seldom.
	Quiet bool
}

// Attach sets the link of a *runtime.OpenConfig, which must not change afterwards. Package runtime sets it when it is
// initialized, so that its OpenConfig has no field with a type that users cannot name.
var Attach func(config any, link *Link)

// EnsureSecret gives a partition of a *runtime.Engine a secret that signs the tokens of waitpoints, unless it has one:
// the secret of the config, or a random one. It asks the engine once for each partition. Package runtime sets it when
// it is initialized.
var EnsureSecret func(ctx context.Context, engine any, p enginecore.Partition) error

// NamespaceOf returns the prefix and the namespace of a *runtime.Client. Package runtime sets it when it is
// initialized. The errors are those of a client that cannot be used: runtime.ErrInvalid and enginecore.ErrClosed.
var NamespaceOf func(client any) (prefix, namespace string, err error)
