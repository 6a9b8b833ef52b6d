package transport

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

const (
	// tailBlock is how long the engine holds a read that waits for news. It answers at once when there are some. Until
	// then the connection is silent, also if it is broken.
	tailBlock = 10 * time.Second
	// TailLook is the time after which a watch reads a run again although no message about it has arrived.
	TailLook = 30 * time.Second
	// TailPause is the time between two tries while the engine is unavailable.
	TailPause = 200 * time.Millisecond
)

// Tail waits for new entries of a stream on its own connection, so that blocking reads delay no other calls. Watches
// must be set; the caller calls Close at the end. It is for use by one goroutine.
type Tail struct {
	Watches *Watches
	wire    rueidis.DedicatedClient
	release func()
	role    HeldCheck
}

// Await returns nil when the stream may have entries after the given id. It replaces broken connections until ctx ends,
// and then returns the cause of ctx. It fails at once if the engine refuses the read for want of rights
// (enginecore.ErrUnauthorized).
func (t *Tail) Await(ctx context.Context, key, after string) error {
	for {
		err := t.read(ctx, key, after)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return nil
		}
		t.Close()
		if errors.Is(err, ErrConnecting) {
			continue // nothing was sent, and the next try waits for the connection that is being made
		}
		if IsUnauthorized(err) {
			return enginerpc.ConnectError(err)
		}
		sleep.For(ctx, TailPause)
	}
}

func (t *Tail) read(ctx context.Context, key, after string) error {
	if t.wire == nil {
		var err error
		if t.wire, t.release, err = t.Watches.Connection(ctx); err != nil {
			return err
		}
		t.role = HeldCheck{Last: time.Now()}
	}
	// The client library ignores ctx while a blocking command waits; closing the connection ends the command.
	stop := context.AfterFunc(ctx, t.wire.Close)
	defer stop()
	read := t.wire.B().Xread().Count(1).Block(t.Watches.Held.Milliseconds()).Streams().Key(key).Id(after).Build()
	answered, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.Watches.Patience(t.Watches.Held))
	defer cancel()
	if err := t.role.Before(answered, t.Watches.Roles(), t.wire); err != nil {
		return err
	}
	if err := t.wire.Do(answered, read).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return nil
}

// Close returns the connection. Await may be called again and takes another one.
func (t *Tail) Close() {
	if t.wire != nil {
		t.wire.Close()
		t.release()
		t.wire = nil
	}
}

// FromStart is the id before the first entry of any stream.
const FromStart = "0-0"

// IsUnauthorized reports whether the engine has refused a command for want of rights.
func IsUnauthorized(err error) bool {
	_, refused := rueidis.IsRedisErr(err)
	return refused && errors.Is(enginerpc.ConnectError(err), enginecore.ErrUnauthorized)
}
