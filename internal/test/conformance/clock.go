package conformance

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A clock is the time that an engine's calls see. It advances only when the replay advances it, so that due times do
// not depend on the speed of the machine, and the replay never waits.
type clock interface {
	// now is the time in ms.
	now() int64

	// advance moves the clock on to a time (ms), never back. lapsed are the
	// keys whose expiry has come by then.
	advance(ctx context.Context, to int64, lapsed []string) error
}

// timedClient is a client of an engine whose clock the replay moves.
type timedClient struct {
	rueidis.Client
	clock clock
}

// clockOf is the clock of a client's engine, nil where that has its own.
func clockOf(client rueidis.Client) clock {
	if timed, ok := client.(*timedClient); ok {
		return timed.clock
	}
	return nil
}

// engineClock is the clock of an embedded engine.
type engineClock struct{ ms atomic.Int64 }

func newEngineClock() *engineClock {
	c := &engineClock{}
	c.ms.Store(time.Now().UnixMilli())
	return c
}

func (c *engineClock) time() time.Time { return time.UnixMilli(c.now()) }

func (c *engineClock) now() int64 { return c.ms.Load() }

// advance leaves the lapsed keys to the engine, which knows its time.
func (c *engineClock) advance(_ context.Context, to int64, _ []string) error {
	c.ms.Store(max(c.now(), to))
	return nil
}

// serverClock is the clock of a library on a server. The server itself uses the time of its machine, a day earlier, so
// it expires no key by itself.
type serverClock struct {
	store *store
	ms    int64
}

// ahead is how far the clock of a library runs ahead of its server's: more
// than any replay lasts.
const ahead = 24 * time.Hour

func newServerClock(client rueidis.Client) *serverClock {
	return &serverClock{store: &store{client: client}, ms: time.Now().Add(ahead).UnixMilli()}
}

func (c *serverClock) now() int64 { return c.ms }

func (c *serverClock) advance(ctx context.Context, to int64, lapsed []string) error {
	if to <= c.ms {
		return nil
	}
	c.ms = to
	if len(lapsed) > 0 {
		if err := c.store.do(ctx, append([]string{"DEL"}, lapsed...)...).Error(); err != nil {
			return err
		}
	}
	return c.set(ctx)
}

// set passes the time to the library.
func (c *serverClock) set(ctx context.Context) error {
	return c.store.do(ctx, "FCALL", "conformance_set_clock", "0", strconv.FormatInt(c.ms, 10)).Error()
}

// clockedLibrary returns a library whose calls see the time of a [serverClock]: it replaces the server's time that they
// read, and relative times that they pass to the server.
func clockedLibrary(library string) string {
	head, body, _ := strings.Cut(library, "\n")
	return head + "\n" + clockPrelude + body
}

// clockPrelude shadows the server's interface. The global one is looked up in
// the call: the server puts another one in its place while it loads a library.
const clockPrelude = `
local conformance_clock = 0
redis.register_function('conformance_set_clock', function(_, args)
  conformance_clock = tonumber(args[1])
  return conformance_clock
end)
local function conformance_call(command, ...)
  local args = {...}
  local name = string.upper(command)
  local function at(span) return string.format('%d', conformance_clock + tonumber(span)) end
  if name == 'TIME' then
    local ms = conformance_clock % 1000
    return {string.format('%d', (conformance_clock - ms) / 1000), string.format('%d', ms * 1000)}
  elseif name == 'PEXPIRE' then
    command, args[2] = 'PEXPIREAT', at(args[2])
  elseif name == 'SET' then
    for i = 3, #args - 1 do
      if args[i] == 'PX' then args[i], args[i + 1] = 'PXAT', at(args[i + 1]) end
    end
  elseif name == 'XADD' then
    for i = 2, #args do
      if args[i] == '*' then
        args[i] = at(0) .. '-*'
        break
      end
    end
  end
  return redis.call(command, unpack(args))
end
local function conformance_forward(name)
  return function(...) return redis[name](...) end
end
local redis = {
  call = conformance_call,
  error_reply = conformance_forward('error_reply'),
  pcall = conformance_forward('pcall'),
  register_function = conformance_forward('register_function'),
  sha1hex = conformance_forward('sha1hex'),
  status_reply = conformance_forward('status_reply'),
}
`
