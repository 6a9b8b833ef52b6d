package enginerpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// outdated records that the engine no longer serves this program.
type outdated struct {
	once   sync.Once
	closed chan struct{}
	err    error // set before closed is
}

// Outdated is closed when a call has found that another program replaced the library by one that does not serve this
// program. From then on, all calls of this engine fail with ErrIncompatibleLibrary, without being sent.
func (conn *Conn) Outdated() <-chan struct{} { return conn.outdated.closed }

// OutdatedErr returns the reason why Outdated is closed: it wraps ErrIncompatibleLibrary and names both versions. It is
// nil before.
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
		conn.serveNoLonger(ctx,
			"flowfabric: the server's library was replaced by one that does not support this program",
			eventIncompatible, err)
	}
	return err
}

// storedProtocol is the oldest protocol whose programs understand the stored data. The error states that this program
// is older. The protocol is stored with the data, since a library can get lost, and one in this process is not stored
// at all.
func (conn *Conn) storedProtocol(ctx context.Context) (int, error) {
	key := conn.keys.FfxProtocol()
	read := func() (string, error) {
		return conn.client.Do(ctx, conn.client.B().Get().Key(key).Build()).ToString()
	}
	text, err := read()
	if conn.isFormer(text, err) {
		if former := conn.refuseFormerRuns(ctx, text); former != nil {
			// A server that becomes a replica has nothing at first, and all data a moment later: so read again, now
			// that there are runs. The conclusion of this program from them is final.
			if text, err = read(); conn.isFormer(text, err) {
				return 1, former
			}
		}
	}
	if rueidis.IsRedisNil(err) {
		return 1, nil
	} else if err != nil {
		return 0, fmt.Errorf("protocol of the stored data: %w", connectError(err))
	}
	if mark, marked := ParseMark(text); marked {
		return 0, mark.Err()
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

// isFormer reports whether a read of the protocol has returned a former one, whose runs this program does not read.
// Data of protocol 1 do not contain the number of their protocol.
func (conn *Conn) isFormer(text string, err error) bool {
	if rueidis.IsRedisNil(err) {
		return true
	}
	stored, malformed := strconv.Atoi(text)
	return err == nil && malformed == nil && stored < conn.library.minStored
}

// refuseFormerRuns returns an error if there are runs of a former protocol, whose form this program does not read.
// stored is the number of the protocol, or empty for protocol 1.
func (conn *Conn) refuseFormerRuns(ctx context.Context, stored string) error {
	b := conn.client.B()
	config := conn.keys.ConfigPartitions()
	text, err := conn.client.Do(ctx, b.Hget().Key(config).Field(fieldFlowPartitions).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return nil // no data yet
	} else if err != nil {
		return fmt.Errorf("partition counts: %w", connectError(err))
	}
	count, err := strconv.Atoi(text)
	if err != nil {
		return nil // partitions reports that
	}
	reads := make(rueidis.Commands, count)
	for i := range reads {
		p := keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)}
		reads[i] = b.Exists().Key(conn.keys.FfxAllRuns(p)).Build()
	}
	for _, reply := range conn.client.DoMulti(ctx, reads...) {
		exists, err := reply.AsBool()
		switch {
		case err != nil:
			return fmt.Errorf("protocol of the stored data: %w", connectError(err))
		case exists:
			return fmt.Errorf("%w: the runs under the prefix %s were stored by a program of protocol %s, whose form this "+
				"program, of protocol %d with build %s, cannot read: let that program finish and purge them, or use "+
				"another prefix or database",
				enginecore.ErrIncompatibleLibrary, conn.keys.Prefix(), cmp.Or(stored, "1"), conn.library.protocol, conn.library.build)
		}
	}
	return nil
}

// storeProtocol keeps programs away that this program's library does not serve, even if the library is lost or
// replaced.
func (conn *Conn) storeProtocol(ctx context.Context) error {
	stored, err := conn.storedProtocol(ctx)
	if err != nil || stored >= conn.library.minProtocol {
		return err
	}
	b := conn.client.B()
	if err := conn.client.Do(ctx,
		b.Set().Key(conn.keys.FfxProtocol()).Value(strconv.Itoa(conn.library.minProtocol)).Build(),
	).Error(); err != nil {
		return fmt.Errorf("protocol of the stored data: %w", connectError(err))
	}
	return nil
}
