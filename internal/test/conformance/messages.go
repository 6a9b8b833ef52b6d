package conformance

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// barrierChannel carries the replayer's own marks. A mark published after a
// call arrives after all messages of the call.
const barrierChannel = "conformance:barrier"

// messageWait bounds the wait for a mark; it runs out only when the
// subscription is broken.
const messageWait = 10 * time.Second

// listener collects the messages of every channel.
type listener struct {
	store  *store
	marks  int
	prefix string
	queue  chan Message
	failed chan error
	stop   context.CancelFunc
}

// listen subscribes to all channels and returns when the subscription works.
func listen(ctx context.Context, client rueidis.Client) (*listener, error) {
	ctx, stop := context.WithCancel(ctx)
	l := &listener{
		store:  &store{client: client},
		prefix: strconv.FormatInt(time.Now().UnixNano(), 36) + "-",
		queue:  make(chan Message, 1<<12),
		failed: make(chan error, 1),
		stop:   stop,
	}
	go func() {
		l.failed <- client.Receive(ctx, client.B().Psubscribe().Pattern("*").Build(), func(m rueidis.PubSubMessage) {
			select {
			case l.queue <- Message{Channel: m.Channel, Text: m.Message}:
			case <-ctx.Done():
			}
		})
	}()
	deadline := time.Now().Add(messageWait)
	for {
		_, err := l.take(ctx, 50*time.Millisecond)
		if err == nil {
			return l, nil
		}
		if time.Now().After(deadline) {
			stop()
			return nil, fmt.Errorf("subscribing: %w", err)
		}
	}
}

func (l *listener) close() { l.stop() }

// take returns the messages published since the last call.
func (l *listener) take(ctx context.Context, wait time.Duration) ([]Message, error) {
	l.marks++
	mark := l.prefix + strconv.Itoa(l.marks)
	if err := l.store.do(ctx, "PUBLISH", barrierChannel, mark).Error(); err != nil {
		return nil, err
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	var messages []Message
	for {
		select {
		case m := <-l.queue:
			if m.Channel != barrierChannel {
				messages = append(messages, m)
			} else if m.Text == mark {
				return messages, nil
			}
		case err := <-l.failed:
			l.failed <- err
			return nil, fmt.Errorf("the subscription ended: %w", err)
		case <-timeout.C:
			return nil, fmt.Errorf("no mark within %v", wait)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fitsMessages compares published messages, in order. Messages that are JSON
// objects are compared as such.
func (p *player) fitsMessages(want, got []Message) bool {
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i].Channel != got[i].Channel || !p.fitsMessage(want[i].Text, got[i].Text) {
			return false
		}
	}
	return true
}

func (p *player) fitsMessage(want, got string) bool {
	if strings.HasPrefix(strings.TrimSpace(want), "{") {
		if w, ok := parseContainer(want); ok {
			g, ok := parseContainer(got)
			return ok && equalJSON(w, g, func(want, got string) bool { return p.fitsText(want, got, nil) })
		}
	}
	return p.fitsText(want, got, nil)
}
