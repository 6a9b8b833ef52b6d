package enginelink

import (
	"context"

	"github.com/redis/rueidis"
)

// Access is how OpenData opens the directory of an embedded engine. It has no effect on servers.
type Access int

const (
	// ReadCopy reads what the directory has at this moment. Another process may have it open.
	ReadCopy Access = iota
	// Change opens the directory of an engine that exists, alone.
	Change
	// Create opens a directory alone, and creates it when it is missing.
	Create
)

// Data is a connection to the data of an engine: without the library, and without a look at what is stored.
type Data struct {
	Client rueidis.Client
	// Name is the URL without its password.
	Name string
	// InProcess reports that the data are those of a directory, which nobody else uses or changes meanwhile.
	InProcess bool
	// Close ends the connection. What was written to a directory is on disk when it returns nil.
	Close func() error
}

// NamespaceOf returns the prefix and the namespace of a *runtime.Client. Package runtime sets it when it is
// initialized. The errors are those of a client that cannot be used: runtime.ErrInvalid and enginecore.ErrClosed.
var NamespaceOf func(client any) (prefix, namespace string, err error)

// OpenData connects to the data of the engine that a URL of runtime.Open names. Package runtime sets it when it is
// initialized. The errors are those of runtime.Open: ErrInvalid, enginecore.ErrNotReachable, ErrUnauthorized,
// embedded.ErrLocked, embedded.ErrCorrupt, and fs.ErrNotExist for a directory without an engine.
var OpenData func(ctx context.Context, url string, access Access) (*Data, error)
