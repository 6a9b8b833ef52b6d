package embedded

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// TestSubscribe sees that receiving neither loses the first message nor disturbs other commands, before or after.
func TestSubscribe(t *testing.T) {
	for _, resp2 := range []bool{true, false} {
		t.Run(fmt.Sprint("resp2=", resp2), func(t *testing.T) {
			ctx := timeout(t)
			e := open(t, Options{Library: lib("shout", "return redis.call('PUBLISH', KEYS[1], ARGV[1])")})
			c := client(t, e, resp2)
			for round := range 3 {
				rctx, stop := context.WithCancel(ctx)
				ready := make(chan struct{})
				var once sync.Once
				rctx = rueidis.WithOnSubscriptionHook(rctx, func(s rueidis.PubSubSubscription) {
					if strings.HasSuffix(s.Kind, "psubscribe") || s.Kind == "subscribe" {
						once.Do(func() { close(ready) })
					}
				})
				got := make(chan rueidis.PubSubMessage, 16)
				done := make(chan error, 1)
				go func() {
					cmd := c.B().Subscribe().Channel("news").Build()
					if round == 1 {
						cmd = c.B().Psubscribe().Pattern("n*s").Build()
					}
					done <- c.Receive(rctx, cmd, func(m rueidis.PubSubMessage) { got <- m })
				}()
				<-ready
				for i := range 5 {
					n, err := c.Do(ctx, c.B().Fcall().Function("shout").Numkeys(1).Key("news").Arg(strconv.Itoa(i)).Build()).AsInt64()
					require.NoError(t, err)
					require.Positive(t, n) // an earlier round may still be leaving
					require.Equal(t, strconv.Itoa(i), (<-got).Message)
				}
				stop()
				require.ErrorIs(t, <-done, context.Canceled)
				require.NoError(t, c.Do(ctx, c.B().Set().Key("k").Value("v").Build()).Error())
			}
		})
	}
}

// TestSubscribeOrder checks the raw order: the acknowledgement comes before any message.
func TestSubscribeOrder(t *testing.T) {
	e := open(t, Options{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, _, err := e.do([]string{"PUBLISH", "ch", "m"}); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for range 50 {
		c := connect(t, e)
		require.NoError(t, c.send("SUBSCRIBE", "ch", "other"))
		first, err := c.read()
		require.NoError(t, err)
		require.Equal(t, `*["subscribe" "ch" :1]`, first.String())
		require.NoError(t, c.conn.Close())
	}
	close(stop)
	wg.Wait()
}

// TestSlowSubscriber never reads: publishers continue at full speed, the engine closes the slow subscriber's
// connection, and others stay.
func TestSlowSubscriber(t *testing.T) {
	e := open(t, Options{})
	slow, fast, pub := connect(t, e), connect(t, e), connect(t, e)
	slow.must(t, "SUBSCRIBE", "ch")
	fast.must(t, "SUBSCRIBE", "ch")
	message := strings.Repeat("x", 64<<10)
	for i := range 2 * 8 << 20 / len(message) {
		n := pub.must(t, "PUBLISH", "ch", message).text
		if i == 0 {
			require.Equal(t, "2", n)
		}
		v, err := fast.read()
		require.NoError(t, err)
		require.Len(t, v.elems[2].text, len(message))
	}
	require.Equal(t, "1", pub.must(t, "PUBLISH", "ch", "end").text)
	_, err := slow.read()
	require.Error(t, err, "the slow subscriber's connection is closed without a message")
}

// TestBlockingRead waits for a stream outside of the gate, in order with the commands around it.
func TestBlockingRead(t *testing.T) {
	e := open(t, Options{Library: lib("add", "return redis.call('XADD', KEYS[1], '5-1', 'f', 'v')")})
	c, w := connect(t, e), connect(t, e)
	require.NoError(t, c.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$"))
	require.NoError(t, c.send("PING"))
	require.Equal(t, "*null", connect(t, e).must(t, "XREAD", "BLOCK", "5", "STREAMS", "s", "$").String())
	require.Equal(t, `"5-1"`, w.must(t, "FCALL", "add", "1", "s").String())
	v, err := c.read()
	require.NoError(t, err)
	require.Equal(t, `*[*["s" *[*["5-1" *["f" "v"]]]]]`, v.String())
	v, err = c.read()
	require.NoError(t, err)
	require.Equal(t, "+PONG", v.String())

	// Nothing blocks in a transaction, and closing ends a wait.
	c.must(t, "MULTI")
	c.must(t, "XREAD", "BLOCK", "0", "STREAMS", "s", "$")
	require.Equal(t, "*[*null]", c.must(t, "EXEC").String())
	require.NoError(t, c.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$"))
	require.NoError(t, c.conn.Close())

	ctx := timeout(t)
	rc := client(t, e, false)
	got := make(chan error, 1)
	go func() {
		x, err := rc.Do(ctx, rc.B().Xread().Block(0).Streams().Key("t").Id("$").Build()).AsXRead()
		if err == nil && len(x["t"]) != 1 {
			err = fmt.Errorf("%v", x)
		}
		got <- err
	}()
	require.Eventually(t, func() bool {
		e.gate.Lock()
		defer e.gate.Unlock()
		return len(e.blocked["t"]) == 1
	}, 5*time.Minute, time.Millisecond)
	w.must(t, "XADD", "t", "*", "a", "b")
	require.NoError(t, <-got)
}
