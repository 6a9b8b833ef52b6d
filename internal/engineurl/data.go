package engineurl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Access is how OpenData opens the directory of an embedded engine. It has no effect on servers.
type Access int

const (
	// ReadCopy reads the data that the directory has at this moment. Another process may have it open.
	ReadCopy Access = iota
	// Change opens the directory of an engine that exists, alone.
	Change
	// Create opens a directory alone, and creates it when it is missing.
	Create
)

// Data is a connection to the data of an engine: without the library, and without checks of the stored data.
type Data struct {
	Client rueidis.Client
	// Name is the URL without its passwords.
	Name string
	// InProcess reports that the data belong to a directory, which no other process uses or changes while Data is open.
	InProcess bool
	// Close ends the connection. Writes to a directory are on disk when it returns nil.
	Close func() error
}

// OpenData connects to the data of the engine that a URL of runtime.Open names. It waits for a server that is not
// ready, as Open does, and takes a replica as well. It returns the errors of runtime.Open: engine.ErrInvalid,
// enginecore.ErrNotReachable, ErrUnavailable, ErrUnauthorized, embedded.ErrLocked, embedded.ErrCorrupt, and
// fs.ErrNotExist for a directory without an engine.
func OpenData(ctx context.Context, url string, access Access) (*Data, error) {
	if ctx == nil {
		return nil, fmt.Errorf("%w: the context is nil", engine.ErrInvalid)
	}
	to, err := Parse(url)
	if err != nil {
		return nil, err
	}
	if to.Embedded {
		return openDirectory(ctx, to, access)
	}
	client, end, err := transport.NewClient(ctx, to.Option, to.Logins(nil, nil))
	if err == nil {
		err = enginerpc.WhileUnready(ctx, enginerpc.Options{}, func() error {
			return enginerpc.ConnectError(client.Do(ctx, client.B().Ping().Build()).Error())
		})
		if err != nil {
			end()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", to, to.Explain(err))
	}
	return &Data{Client: client, Name: to.Text, Close: func() error { end(); return nil }}, nil
}

func openDirectory(ctx context.Context, at Target, access Access) (*Data, error) {
	if at.Dir == "" {
		return nil, fmt.Errorf("%w: %s is an engine in memory, whose data no other process reaches: name a directory",
			errURL, at)
	}
	// Writes are on disk after Close, which syncs them.
	o := embedded.Options{Dir: at.Dir, Fsync: embedded.FsyncEverySecond, Logger: slog.New(slog.DiscardHandler)}
	open := embedded.Open
	switch access {
	case ReadCopy:
		open = embedded.OpenCopy
	case Change:
		if err := CheckExists(at.Dir); err != nil {
			return nil, err
		}
	}
	engine, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", at, at.Explain(err))
	}
	client, err := rueidis.NewClient(engine.ClientOption())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", at, err), engine.Close())
	}
	return &Data{Client: client, Name: at.Text, InProcess: true, Close: func() error {
		client.Close()
		return engine.Close()
	}}, nil
}

// CheckExists refuses a directory without an engine, and none at all.
func CheckExists(dir string) error {
	if dir == "" {
		return fmt.Errorf("an engine in memory is new in each process: %w", fs.ErrNotExist)
	}
	exists, err := embedded.Exists(dir)
	if err == nil && !exists {
		err = fmt.Errorf("the directory %s contains no engine: %w", dir, fs.ErrNotExist)
	}
	return err
}
