package transport

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// maxMaxWatches bounds OpenConfig.MaxWatches.
const maxMaxWatches = 100_000

// ErrTooManyWatches is yielded by Watch and Stream when the engine has as many of them as OpenConfig.MaxWatches allows.
var ErrTooManyWatches = errors.New("too many watches")

// CheckMaxWatches returns an error unless n is in the range of OpenConfig.MaxWatches, 1 to maxMaxWatches.
func CheckMaxWatches(n int) error {
	if n < 1 || n > maxMaxWatches {
		return fmt.Errorf("%d: must be 1 to %d", n, maxMaxWatches)
	}
	return nil
}

// Sizes of the connections of watches. Each carries one short command, and an answer of one entry, at a time.
const (
	watchReadBuffer  = 4 << 10
	watchWriteBuffer = 2 << 10
	watchRingScale   = 2
)

// maxFeedReaders bounds the readers of feeds: in a cluster, one for each partition.
const maxFeedReaders = 1 << 16

// Watches holds the connections on which Watch and Stream wait. A separate client with small buffers makes them, when
// the first watch waits.
type Watches struct {
	connections
	Ctx    context.Context // ends with close
	stop   context.CancelFunc
	most   int32
	Held   time.Duration // tailBlock, but in tests
	count  atomic.Int32
	making chan struct{} // has a value while no goroutine makes the client
	shared rueidis.Client
	dialer *dialer
}

func newWatches(made connections, most int) *Watches {
	made.held = true
	option := &made.option
	option.BlockingPoolSize = most + maxFeedReaders
	option.ReadBufferEachConn, option.WriteBufferEachConn = watchReadBuffer, watchWriteBuffer
	option.RingScaleEachConn = watchRingScale
	option.PipelineMultiplex = -1
	w := &Watches{
		connections: made, most: int32(most), Held: tailBlock, making: make(chan struct{}, 1),
	}
	w.making <- struct{}{}
	w.Ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// Begin counts a watch until [Watches.End]. It fails with [ErrTooManyWatches] if there are as many as allowed.
func (w *Watches) Begin() error {
	if w.count.Add(1) > w.most {
		w.count.Add(-1)
		return fmt.Errorf("%w: %d go on at this engine, OpenConfig.MaxWatches allows more", ErrTooManyWatches, w.most)
	}
	return nil
}

// End ends a watch that Begin has counted.
func (w *Watches) End() { w.count.Add(-1) }

// Connection returns a connection for one watch. It may be one that is broken.
func (w *Watches) Connection(ctx context.Context) (rueidis.DedicatedClient, func(), error) {
	select {
	case <-w.making:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.Ctx, cancel)()
	client, err := w.made(open)
	w.making <- struct{}{}
	if err != nil {
		return nil, nil, err
	}
	wire, release := client.Dedicate()
	return wire, release, nil
}

// made returns the client, for one caller at a time.
func (w *Watches) made(ctx context.Context) (rueidis.Client, error) {
	if w.Ctx.Err() != nil {
		return nil, rueidis.ErrClosing
	}
	if w.shared != nil {
		return w.shared, nil
	}
	client, dialer, err := w.connections.client(ctx)
	if err == nil {
		w.shared, w.dialer = client, dialer
	}
	return client, err
}

// Patience is how long the answer to a read may take that the engine holds for the given time.
func (w *Watches) Patience(held time.Duration) time.Duration {
	if w.embedded {
		return held + time.Minute
	}
	return held + w.option.ConnWriteTimeout
}

// close closes all connections. Later requests for one fail.
func (w *Watches) close() {
	w.stop()
	<-w.making
	defer func() { w.making <- struct{}{} }()
	closeClient(w.shared, w.dialer)
}
