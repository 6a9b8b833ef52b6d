package enginecore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/redis/rueidis"
)

// outdated is how an engine remembers that it is not served any more.
type outdated struct {
	once   sync.Once
	closed chan struct{}
	err    error // set before closed is
}

// Outdated is closed when a call has found that another program replaced the library by one that does not serve this
// program. From then on, all calls of this engine fail with ErrIncompatibleLibrary, without being sent.
func (e *Engine) Outdated() <-chan struct{} { return e.outdated.closed }

// OutdatedErr says why Outdated is closed: it wraps ErrIncompatibleLibrary and names both versions. It is nil before.
func (e *Engine) OutdatedErr() error {
	if err := e.connected(); err != nil {
		return err
	}
	select {
	case <-e.outdated.closed:
		return e.outdated.err
	default:
		return nil
	}
}

// restoreLibrary looks after the library of an engine in use.
func (e *Engine) restoreLibrary(ctx context.Context) error {
	err := e.ensureLibrary(ctx)
	if errors.Is(err, ErrIncompatibleLibrary) {
		e.outdated.once.Do(func() {
			e.logger.LogAttrs(ctx, slog.LevelError, "flowfabric: the server's library was replaced and does not serve this program any more",
				slog.String("event", "library.incompatible"), slog.Any("error", err))
			e.outdated.err = err
			close(e.outdated.closed)
		})
	}
	return err
}

// storedProtocol is the oldest protocol whose programs understand what is stored. The error says that this one is older. The data
// tell by themselves, since a library can get lost, and one in this process is not stored at all.
func (e *Engine) storedProtocol(ctx context.Context) (int, error) {
	key := e.keys.FfxProtocol()
	text, err := e.client.Do(ctx, e.client.B().Get().Key(key).Build()).ToString()
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
	if stored > e.library.protocol {
		return 0, fmt.Errorf("%w: the stored data are for programs of protocol %d and later; this program speaks protocol %d, with build %s: "+
			"run a newer version of it", ErrIncompatibleLibrary, stored, e.library.protocol, e.library.build)
	}
	return stored, nil
}

// storeProtocol keeps programs away that this program's library does not serve, whatever becomes of the library.
func (e *Engine) storeProtocol(ctx context.Context) error {
	stored, err := e.storedProtocol(ctx)
	if err != nil || stored >= e.library.minProtocol {
		return err
	}
	b := e.client.B()
	if err := e.client.Do(ctx, b.Set().Key(e.keys.FfxProtocol()).Value(strconv.Itoa(e.library.minProtocol)).Build()).Error(); err != nil {
		return fmt.Errorf("protocol of the stored data: %w", connectError(err))
	}
	return nil
}
