package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// outdated is how an engine remembers that it is not served any more.
type outdated struct {
	once   sync.Once
	closed chan struct{}
	err    error // set before closed is
}

// Outdated is closed when a call has found that another program replaced the library by one that does not serve this
// program. From then on, all calls of this engine fail with ErrIncompatibleLibrary, without being sent.
func (conn *Conn) Outdated() <-chan struct{} { return conn.outdated.closed }

// OutdatedErr says why Outdated is closed: it wraps ErrIncompatibleLibrary and names both versions. It is nil before.
func (conn *Conn) OutdatedErr() error {
	if err := conn.connected(); err != nil {
		return err
	}
	select {
	case <-conn.outdated.closed:
		return conn.outdated.err
	default:
		return nil
	}
}

// restoreLibrary looks after the library of an engine in use.
func (conn *Conn) restoreLibrary(ctx context.Context) error {
	err := conn.ensureLibrary(ctx)
	if errors.Is(err, enginecore.ErrIncompatibleLibrary) {
		conn.outdated.once.Do(func() {
			conn.logger.LogAttrs(ctx, slog.LevelError,
				"flowfabric: the server's library was replaced by one that does not support this program",
				slog.String("event", "library.incompatible"), slog.Any("error", err))
			conn.outdated.err = err
			close(conn.outdated.closed)
		})
	}
	return err
}

// storedProtocol is the oldest protocol whose programs understand what is stored. The error says that this one is
// older. The data tell by themselves, since a library can get lost, and one in this process is not stored at all.
func (conn *Conn) storedProtocol(ctx context.Context) (int, error) {
	key := conn.keys.FfxProtocol()
	text, err := conn.client.Do(ctx, conn.client.B().Get().Key(key).Build()).ToString()
	switch {
	case rueidis.IsRedisNil(err):
		return 1, nil
	case err != nil:
		return 0, fmt.Errorf("protocol of the stored data: %w", connectError(err))
	}
	stored, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("protocol of the stored data: %s is %q, not a number", key, text)
	}
	if stored > conn.library.protocol {
		return 0, fmt.Errorf("%w: the stored data are for programs of protocol %d and later; this program speaks protocol %d, with build %s: "+
			"run a newer version of it", enginecore.ErrIncompatibleLibrary, stored, conn.library.protocol, conn.library.build)
	}
	return stored, nil
}

// storeProtocol keeps programs away that this program's library does not serve, whatever becomes of the library.
func (conn *Conn) storeProtocol(ctx context.Context) error {
	stored, err := conn.storedProtocol(ctx)
	if err != nil || stored >= conn.library.minProtocol {
		return err
	}
	b := conn.client.B()
	if err := conn.client.Do(ctx,
		b.Set().Key(conn.keys.FfxProtocol()).Value(strconv.Itoa(conn.library.minProtocol)).Build()).Error(); err != nil {
		return fmt.Errorf("protocol of the stored data: %w", connectError(err))
	}
	return nil
}
