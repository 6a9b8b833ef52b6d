package conformance

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// tinyLibrary behaves as tinyTrace was "recorded".
const tinyLibrary = `#!lua name=tiny
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function text(n) return string.format('%d', n) end

redis.register_function('t_open', function(keys, args)
  local at = now()
  local reply = {1, 'OK', args[1], text(at + 500)}
  redis.call('HSET', keys[1], 'id', args[1], 'at', text(at), 'note', 'due ' .. text(at + 500) .. '.',
    'json', '{"b":[1,2],"a":null}', 'old', '', 'rate', '0.33333333333333331')
  redis.call('PEXPIRE', keys[1], 60000)
  redis.call('ZADD', keys[2], at - 1000000000000, args[1])
  redis.call('XADD', keys[3], '*', 'event', 'opened', 'ts', text(at))
  redis.call('SADD', keys[4], args[1], 'other')
  redis.call('SET', keys[5], args[2])
  redis.call('PUBLISH', 'events', '{"outcome":"opened","id":"' .. args[1] .. '"}')
  --open
  return reply
end)

redis.register_function('t_close', function(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then return {0, 'unknown'} end
  local keep, until_ = redis.call('HGET', keys[1], 'at'), redis.call('PEXPIRETIME', keys[1])
  redis.call('HDEL', keys[1], 'old')
  redis.call('HSET', keys[1], 'closed', args[2], 'at', text(now()))
  redis.call('PEXPIRE', keys[1], 60000)
  redis.call('XADD', keys[3], '*', 'event', 'closed', 'ts', text(now()))
  redis.call('ZREM', keys[2], args[1])
  --close
  return {1, 'OK', 30, 'b', 'a'}
end)

redis.register_function('t_peek', function(keys, args)
  local reply = {1, redis.call('HGET', keys[1], 'closed')}
  --peek
  return reply
end)
`

const (
	tinyKeys = `"keys":["ff:{p}:core","ff:{p}:index","ff:{p}:log","ff:{p}:all","ff:{p}:text"]`

	tinyHead = `{"format":"oracle-trace","version":1,"name":"tiny"}
`
	tinyOpen = `{"i":0,"fn":"t_open",` + tinyKeys + `,"args":["id-1","x$${y"],"now_ms":1000,
"reply":[1,"OK","id-1","${t0+500}"],
"publish":[{"channel":"events","message":"{\"id\":\"id-1\",\"outcome\":\"opened\"}"}],
"delta":{
"ff:{p}:core":{"whole":{"type":"hash","expires_at":"${t0+60000}","fields":{"id":"id-1","at":"${t0+0}","note":"due ${t0+500}.","json":"{\"a\":null, \"b\":[1,2]}","old":"","rate":"0.3333333333333333"}}},
"ff:{p}:index":{"whole":{"type":"zset","fields":{"id-1":"${t0-1000000000000}"}}},
"ff:{p}:log":{"whole":{"type":"stream","entries":[{"id":"${id:t0+0}","fields":["event","opened","ts","${t0+0}"]}]}},
"ff:{p}:all":{"whole":{"type":"set","members":["id-1","other"]}},
"ff:{p}:text":{"whole":{"type":"string","string":"x$${y"}}}}
`
	tinyClose = `{"i":1,"fn":"t_close",` + tinyKeys + `,"args":["${r0.2}","${r0.3-100}"],"now_ms":1001,
"reply":[1,"OK",10,"a","b"],"unordered":{"from":3,"width":1},"tolerance_ms":{"2":25},
"delta":{
"ff:{p}:core":{"type":"hash","set":{"closed":"${t0+400}","at":"${t1+0}"},"unset":["old"],"expires_at":"${t1+60000}"},
"ff:{p}:index":{"deleted":true},
"ff:{p}:log":{"type":"stream","append":[{"id":"${id:t1+0}","fields":["event","closed","ts","${t1+0}"]}]}}}
`
	tinyFixture = `{"i":2,"cmd":["HSET","ff:{p}:core","closed","${now+7}"],"now_ms":1002,"reply":0,
"delta":{"ff:{p}:core":{"type":"hash","set":{"closed":"${t2+7}"}}}}
`
	tinyPeek = `{"i":3,"fn":"t_peek",` + tinyKeys + `,"now_ms":1003,"reply":[1,"${t2+7}"]}
`
	tinyTrace = tinyHead + tinyOpen + tinyClose + tinyFixture + tinyPeek
)

// parseTrace reads a trace whose steps may span several lines.
func parseTrace(t *testing.T, text string) *Trace {
	t.Helper()
	trace, err := Load(strings.NewReader(strings.ReplaceAll(strings.ReplaceAll(text, ",\n", ","), "{\n", "{")))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// newServer returns a client of an empty server of its own: a real one unless
// the run is without servers.
func newServer(t *testing.T) rueidis.Client {
	t.Helper()
	open := NewEmbedded()
	if kinds := testserver.Servers(t); len(kinds) > 0 {
		open = NewAddress(testserver.Start(t, testserver.Options{Kind: kinds[0]}).Addr(), false)
	}
	client, release, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return client
}

// bench replays tiny traces on one server.
type bench struct {
	client  rueidis.Client
	library string
}

func newBench(t *testing.T) *bench { return &bench{client: newServer(t)} }

func (b *bench) replay(t *testing.T, library, trace string, options Options) *Result {
	t.Helper()
	if b.library != library {
		if _, err := Prepare(context.Background(), b.client, library); err != nil {
			t.Fatal(err)
		}
		b.library = library
	}
	result, err := Replay(t.Context(), b.client, parseTrace(t, trace), options)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// differences renders the failures of a result, one line per difference.
func differences(r *Result) []string {
	var lines []string
	for _, f := range r.Failures {
		for _, d := range f.Differences {
			line := f.Step.Name() + " " + string(d.Part) + " " + d.Key
			if d.Part == PartField {
				line += "." + d.Field
			}
			for _, side := range []*string{d.Want, d.Got} {
				if side == nil {
					line += " | -"
				} else {
					line += " | " + *side
				}
			}
			lines = append(lines, line)
		}
		for _, problem := range f.Problems {
			lines = append(lines, f.Step.Name()+" "+problem)
		}
	}
	return lines
}
