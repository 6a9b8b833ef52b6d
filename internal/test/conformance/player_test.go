package conformance

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// patched is the tiny library with a line put in at a mark.
func patched(t *testing.T, mark, line string) string {
	t.Helper()
	if !strings.Contains(tinyLibrary, mark) {
		t.Fatalf("no mark %q", mark)
	}
	return strings.Replace(tinyLibrary, mark, line, 1)
}

func TestReplayAccepts(t *testing.T) {
	b := newBench(t)
	r := b.replay(t, tinyLibrary, tinyTrace, Options{})
	if got := differences(r); len(got) > 0 {
		t.Errorf("differences: %q", got)
	}
	if r.Called["t_open"] != 1 || r.Called["t_close"] != 1 || r.Commands != 1 || len(r.Bridged) != 0 {
		t.Errorf("called %v, bridged %v, %d commands", r.Called, r.Bridged, r.Commands)
	}
}

func TestReplayCatches(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		mark, line string
		want       []string // expressions for the differences, in order
	}{
		"reply element":  {"--open", `reply[3] = 'id-2'`, []string{`t_open reply  .*id-1.* \| .*id-2`}},
		"reply type":     {"--open", `reply[1] = '1'`, []string{`t_open reply`}},
		"reply time":     {"--open", `reply[4] = text(at + 9000)`, []string{`t_open reply`}},
		"reply fraction": {"--open", `reply[4] = reply[4] .. '.5'`, []string{`t_open reply`}},
		"reply length":   {"--open", `reply[5] = 'x'`, []string{`t_open reply`}},
		"reply nil":      {"--open", `reply = false`, []string{`t_open reply  .* \| null`}},
		"reply error":    {"--open", `reply = redis.error_reply('WRONG thing')`, []string{`t_open reply  .* \| {"error":"WRONG"}`}},
		"script error":   {"--open", `error('no')`, []string{`t_open reply  .* \| {"error":"SCRIPT"}`}},
		"tolerance":      {"--close", `do return {1, 'OK', 36, 'b', 'a'} end`, []string{`t_close reply`}},
		"unordered":      {"--close", `do return {1, 'OK', 30, 'b', 'c'} end`, []string{`t_close reply`}},

		"message text":    {"--open", `redis.call('PUBLISH', 'events', 'x')`, []string{`t_open publish`}},
		"message channel": {"--peek", `redis.call('PUBLISH', 'events', 'x')`, []string{`t_peek publish  \| null \| .*events`}},

		"field value": {"--open", `redis.call('HSET', keys[1], 'id', 'z')`, []string{`t_open field ff:{p}:core.id \| id-1 \| z`}},
		"field time":  {"--open", `redis.call('HSET', keys[1], 'at', '12')`, []string{`t_open field ff:{p}:core.at \| \${t0\+0} \| 12`}},
		"field inside a text": {"--open", `redis.call('HSET', keys[1], 'note', 'due ' .. text(at + 500))`,
			[]string{`t_open field ff:{p}:core.note`}},
		"field as JSON": {"--open", `redis.call('HSET', keys[1], 'json', '{"b":[2,1],"a":null}')`, []string{`t_open field ff:{p}:core.json`}},
		"extra field":   {"--open", `redis.call('HSET', keys[1], 'new', '1')`, []string{`t_open field ff:{p}:core.new \| - \| 1`}},
		"missing field": {"--open", `redis.call('HDEL', keys[1], 'old')`, []string{`t_open field ff:{p}:core.old \|  \| -`}},
		"number":        {"--open", `redis.call('HSET', keys[1], 'rate', '0.3334')`, []string{`t_open field ff:{p}:core.rate`}},
		"kept field":    {"--close", `redis.call('HSET', keys[1], 'old', '')`, []string{`t_close field ff:{p}:core.old \| - \| $`}},

		"time not renewed":   {"--close", `redis.call('HSET', keys[1], 'at', keep)`, []string{`t_close field ff:{p}:core.at \| \${t1\+0} \| \d+`}},
		"expiry not renewed": {"--close", `redis.call('PEXPIREAT', keys[1], until_)`, []string{`t_close expiry ff:{p}:core \| \${t1\+60000} \| \d+`}},

		"score":          {"--open", `redis.call('ZADD', keys[2], at, args[1])`, []string{`t_open field ff:{p}:index.id-1`}},
		"missing key":    {"--open", `redis.call('DEL', keys[2])`, []string{`t_open type ff:{p}:index \| zset \| -`}},
		"extra key":      {"--peek", `redis.call('SET', 'far', 'away')`, []string{`t_peek type far \| - \| string`, `t_peek value far \| - \| away`}},
		"other type":     {"--open", `redis.call('DEL', keys[2]) redis.call('SADD', keys[2], 'x')`, []string{`t_open type ff:{p}:index \| zset \| set`}},
		"undeclared key": {"--peek", `redis.call('SREM', 'ff:{p}:all', 'other')`, []string{`t_peek field ff:{p}:all.other \|  \| -`}},
		"set member":     {"--open", `redis.call('SADD', keys[4], 'third')`, []string{`t_open field ff:{p}:all.third \| - \| $`}},
		"string":         {"--open", `redis.call('SET', keys[5], 'z')`, []string{`t_open value ff:{p}:text \| x\$\${y \| z`}},
		"extra entry":    {"--close", `redis.call('XADD', keys[3], '*', 'a', 'b')`, []string{`t_close entry ff:{p}:log \| - \| \["a","b"\]`}},
		"missing entry":  {"--close", `redis.call('XTRIM', keys[3], 'MAXLEN', 1)`, []string{`t_close entry ff:{p}:log \| \["event","opened.* \| -`}},
		"no expiry":      {"--open", `redis.call('PERSIST', keys[1])`, []string{`t_open expiry ff:{p}:core \| \${t0\+60000} \| -`}},
		"other expiry":   {"--open", `redis.call('PEXPIRE', keys[1], 90000)`, []string{`t_open expiry ff:{p}:core`}},
		"extra expiry":   {"--open", `redis.call('PEXPIRE', keys[2], 90000)`, []string{`t_open expiry ff:{p}:index \| - \| \d+`}},
	} {
		t.Run(name, func(t *testing.T) {
			// KeepGoing also shows that later steps work on the restored contents.
			r := b.replay(t, patched(t, c.mark, c.line), tinyTrace, Options{KeepGoing: true})
			got := differences(r)
			if len(got) != len(c.want) {
				t.Fatalf("differences: %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !regexp.MustCompile(strings.ReplaceAll(want, "{p}", `\{p\}`)).MatchString(got[i]) {
					t.Errorf("difference %q does not fit %q", got[i], want)
				}
			}
		})
	}
}

func TestReplayStopsAtTheFirstFailure(t *testing.T) {
	library := strings.Replace(patched(t, "--open", `reply[1] = 2`), "--close", `redis.call('DEL', keys[1])`, 1)
	b := newBench(t)
	if r := b.replay(t, library, tinyTrace, Options{}); len(r.Failures) != 1 || r.Failures[0].Step.Index != 0 {
		t.Errorf("stopped: %q", differences(r))
	}
	if r := b.replay(t, library, tinyTrace, Options{KeepGoing: true}); len(r.Failures) != 2 {
		t.Errorf("continued: %q", differences(r))
	}
}

func TestReplayBridgesMissingFunctions(t *testing.T) {
	b := newBench(t)
	missing := strings.Replace(tinyLibrary, "'t_open'", "'t_other'", 1)
	r := b.replay(t, missing, tinyTrace, Options{})
	if got := differences(r); len(got) > 0 || r.Bridged["t_open"] != 1 || r.Called["t_close"] != 1 {
		t.Errorf("differences %q, bridged %v, called %v", got, r.Bridged, r.Called)
	}
	// Steps after a bridged one are still judged.
	broken := strings.Replace(missing, "--close", `redis.call('HSET', keys[1], 'id', 'z')`, 1)
	if r := b.replay(t, broken, tinyTrace, Options{}); len(r.Failures) != 1 {
		t.Errorf("differences %q", differences(r))
	}
	r = b.replay(t, tinyLibrary, tinyTrace, Options{Functions: map[string]bool{"t_peek": true}})
	if got := differences(r); len(got) > 0 || r.Bridged["t_open"] != 1 || r.Bridged["t_close"] != 1 || r.Called["t_peek"] != 1 {
		t.Errorf("differences %q, bridged %v, called %v", got, r.Bridged, r.Called)
	}
}

// tokenTrace is a trace that mints a token and uses it.
const tokenTrace = tinyHead + `{"i":0,"cmd":["HSET","ff:sec:{p}:hmac","secret:k1","0a0b"],"now_ms":1,"reply":1,"delta":{"ff:sec:{p}:hmac":{"whole":{"type":"hash","fields":{"secret:k1":"0a0b"}}}}}
{"i":1,"fn":"t_mint","keys":["ff:wp:{p}:w1"],"now_ms":1,"reply":[1,"w1","${token:k1}"],"delta":{
"ff:wp:{p}:w1":{"whole":{"type":"hash","fields":{"waitpoint_id":"w1","waitpoint_key":"key","created_at":"${t1+0}","waitpoint_token":"${token:k1}"}}},
"ff:{p}:copy":{"whole":{"type":"hash","fields":{"token":"${token:k1}"}}}}}
{"i":2,"fn":"t_use","keys":["ff:wp:{p}:w1"],"args":["${r1.2}"],"now_ms":1,"reply":[1,"same"]}
`

// tokenLibrary is a library whose functions reply with the given token and reply.
func tokenLibrary(token, reply string) string {
	return `#!lua name=tokens
local bit = nil
local function xor(a, b)
  local r, p = 0, 1
  for _ = 1, 8 do
    local x, y = a % 2, b % 2
    if x ~= y then r = r + p end
    a, b, p = (a - x) / 2, (b - y) / 2, p * 2
  end
  return r
end
local function hmac(key, message)
  local inner, outer = {}, {}
  for i = 1, 64 do
    local byte = string.byte(key, i) or 0
    inner[i] = string.char(xor(byte, 0x36))
    outer[i] = string.char(xor(byte, 0x5c))
  end
  local digest = redis.sha1hex(table.concat(inner) .. message)
  digest = string.gsub(digest, '..', function(h) return string.char(tonumber(h, 16)) end)
  return redis.sha1hex(table.concat(outer) .. digest)
end
redis.register_function('t_mint', function(keys)
  local t = redis.call('TIME')
  local at = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000))
  local genuine = 'k1:' .. hmac(string.char(10, 11), 'w1|key|' .. at)
  local forged = 'k1:' .. string.rep('0', 40)
  local token, reply = ` + token + `, ` + reply + `
  redis.call('HSET', keys[1], 'waitpoint_id', 'w1', 'waitpoint_key', 'key', 'created_at', at, 'waitpoint_token', token)
  redis.call('HSET', 'ff:{p}:copy', 'token', token)
  return {1, 'w1', reply}
end)
redis.register_function('t_use', function(keys, args)
  if redis.call('HGET', keys[1], 'waitpoint_token') == args[1] then return {1, 'same'} end
  return {0, 'other'}
end)
`
}

func TestTokens(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		token, reply string
		want         []string
	}{
		"genuine":         {"genuine", "genuine", nil},
		"forged":          {"forged", "forged", []string{"field ff:wp:{p}:w1.waitpoint_token", "field ff:{p}:copy.token", "reply"}},
		"forged in reply": {"genuine", "forged", []string{"reply"}},
		"other key id":    {"'k2' .. string.sub(genuine, 3)", "genuine", []string{"field ff:wp:{p}:w1.waitpoint_token", "field ff:{p}:copy.token", "reply"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.replay(t, tokenLibrary(c.token, c.reply), tokenTrace, Options{KeepGoing: true})
			got := differences(r)
			if len(got) != len(c.want) {
				t.Fatalf("differences %q", got)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], "t_mint "+want) {
					t.Errorf("difference %q, want %q", got[i], want)
				}
			}
		})
	}
	// A bridged record gets a genuine token, and the reply the same.
	library := strings.Replace(tokenLibrary("genuine", "genuine"), "'t_mint'", "'t_other'", 1)
	if r := b.replay(t, library, tokenTrace, Options{}); len(r.Failures) > 0 || r.Bridged["t_mint"] != 1 {
		t.Errorf("bridged %v: %q", r.Bridged, differences(r))
	}
}

func TestExpiredKeysAreIgnored(t *testing.T) {
	b := newBench(t)
	library := `#!lua name=e
redis.register_function('t_lease', function(keys) redis.call('SET', keys[1], 'x', 'PX', 30) return 1 end)
redis.register_function('t_nop', function() return 1 end)
`
	// Recorded as still there after the sleep, and as gone before it.
	for _, gone := range []string{`"delta":{"k":{"deleted":true}}`, `"note":"still there"`} {
		r := b.replay(t, library, tinyHead+
			`{"i":0,"fn":"t_lease","keys":["k"],"now_ms":1,"reply":1,"delta":{"k":{"whole":{"type":"string","string":"x","expires_at":"${t0+30}"}}}}
{"i":1,"fn":"t_nop","now_ms":1,"reply":1,`+gone+`}
{"i":2,"fn":"t_nop","sleep_ms_before":60,"now_ms":60,"reply":1}
{"i":3,"fn":"t_nop","now_ms":61,"reply":1,"state":{}}
`, Options{})
		if got := differences(r); len(got) > 0 {
			t.Errorf("%s: %q", gone, got)
		}
	}
}

func TestUnrecordedEffectsOfPlainCommands(t *testing.T) {
	b := newBench(t)
	library := `#!lua name=u
redis.register_function('t_nop', function() return 1 end)
`
	r := b.replay(t, library, tinyHead+
		`{"i":0,"cmd":["EVAL","redis.call('SET', 'made', '1') return 1","0"],"now_ms":1,"reply":1}
{"i":1,"fn":"t_nop","now_ms":1,"reply":1}
{"i":2,"cmd":["SET","k","1"],"now_ms":1,"reply":"OK","delta":{"k":{"whole":{"type":"string","string":"1"}}}}
{"i":3,"fn":"t_nop","now_ms":1,"reply":1,"state":{"k":{"type":"string","string":"1"}}}
`, Options{})
	want := []string{"t_nop type made | - | string", "t_nop value made | - | 1"}
	if got := differences(r); !slices.Equal(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
}

// A recording sees keys that no step names only with the next whole state.
func TestKeysRecordedLate(t *testing.T) {
	b := newBench(t)
	library := `#!lua name=s
redis.register_function('t_make', function() redis.call('SET', 'made', 'VALUE') return 1 end)
redis.register_function('t_nop', function() return 1 end)
`
	trace := tinyHead + `{"i":0,"fn":"t_make","now_ms":1,"reply":1}
{"i":1,"fn":"t_nop","now_ms":1,"reply":1,"delta":{"made":{"whole":{"type":"string","string":"right"}}},"state":{"made":{"type":"string","string":"right"}}}
`
	for name, c := range map[string]struct {
		library string
		want    []string
	}{
		"made":       {strings.Replace(library, "VALUE", "right", 1), nil},
		"made wrong": {strings.Replace(library, "VALUE", "wrong", 1), []string{"t_nop value made | right | wrong"}},
		"not made":   {strings.Replace(library, "redis.call('SET', 'made', 'VALUE')", "", 1), []string{"t_nop type made | string | -"}},
		"bridged":    {strings.Replace(library, "t_make", "t_other", 1), nil},
	} {
		if got := differences(b.replay(t, c.library, trace, Options{})); !slices.Equal(got, c.want) {
			t.Errorf("%s: differences %q, want %q", name, got, c.want)
		}
	}
}

// The key space is too large to be read as a whole after every step: changes of a call in undeclared keys must still be
// found, and attributed to the call where possible.
func TestLargeKeySpaces(t *testing.T) {
	b := newBench(t)
	const id = "00000001-0000-4000-8000-e00100000001"
	library := `#!lua name=l
redis.register_function('t_quiet', function(keys, args) return 1 end)
redis.register_function('t_near', function(keys, args) redis.call('HSET', 'rec:' .. args[1] .. ':extra', 'f', '2') return 1 end)
redis.register_function('t_new', function(keys, args) redis.call('SET', 'rec:new', '2') return 1 end)
redis.register_function('t_far', function(keys, args) redis.call('SET', 'rec:00000009-0000-4000-8000-e00100000009', '2') return 1 end)
`
	fill := `{"i":0,"cmd":["EVAL","for i = 1, 300 do redis.call('SET', string.format('rec:%08d-0000-4000-8000-e00100000001:text', i + 10), i) end redis.call('HSET', 'rec:` + id + `:extra', 'f', '1') redis.call('SET', 'rec:00000009-0000-4000-8000-e00100000009', '1') return 1","0"],"now_ms":1,"reply":1}
{"i":1,"cmd":["SET","first","1"],"now_ms":1,"reply":"OK","delta":{"first":{"whole":{"type":"string","string":"1"}}}}
`
	quiet := `{"i":3,"fn":"t_quiet","now_ms":1,"reply":1}
`
	for i := 4; i <= fullEvery; i++ {
		quiet += strings.Replace(`{"i":N,"fn":"t_quiet","now_ms":1,"reply":1}
`, "N", formatNumber(float64(i)), 1)
	}
	for function, want := range map[string]string{
		"t_near": "t_near field rec:" + id + ":extra.f | 1 | 2",
		"t_new":  "t_new type rec:new | - | string",
		"t_far":  "t_quiet value rec:00000009-0000-4000-8000-e00100000009 | 1 | 2",
	} {
		r := b.replay(t, library, tinyHead+fill+`{"i":2,"fn":"`+function+`","args":["`+id+`"],"now_ms":1,"reply":1}
`+quiet, Options{})
		if got := differences(r); len(got) == 0 || got[0] != want {
			t.Errorf("%s: differences %q, want %q", function, got, want)
		}
	}
}

func TestReports(t *testing.T) {
	b := newBench(t)
	r := b.replay(t, patched(t, "--close", `redis.call('HSET', keys[1], 'id', text(now() + 5))`), tinyTrace, Options{})
	var out strings.Builder
	r.Failures[0].Write(&out, 10)
	for _, want := range []string{"trace tiny, step 1: t_close", "KEYS[1] ff:{p}:core", "ARGV[1] id-1", `expected "id-1"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if !regexp.MustCompile(`"\d{13}‹t1\+5›"`).MatchString(out.String()) {
		t.Errorf("the report does not say how far the time is from the step's:\n%s", out.String())
	}
	out.Reset()
	r.Failures[0].WriteRow(&out)
	if want := `{"key":"${k0}","field":"id","recorded":"id-1","got":"${now}"}`; !strings.Contains(out.String(), want) {
		t.Errorf("the row lacks %s:\n%s", want, out.String())
	}
	if _, err := ParseDeviations([]byte("[" + strings.TrimSuffix(strings.TrimSpace(out.String()), ",") + "]")); err != nil {
		t.Errorf("the row cannot be read: %v\n%s", err, out.String())
	}
	out.Reset()
	s := Summarize([]*Result{r})
	s.Write(&out)
	if !strings.Contains(out.String(), "0 of 1 traces as recorded; 4 steps: 2 calls, 0 plain commands, 0 bridged") {
		t.Errorf("summary:\n%s", out.String())
	}
}
