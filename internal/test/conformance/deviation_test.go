package conformance

import (
	"strings"
	"testing"
)

func deviations(t *testing.T, rows string) *Deviations {
	t.Helper()
	d, err := ParseDeviations([]byte("[" + rows + "]"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDeviations(t *testing.T) {
	b := newBench(t)
	const why = `"hazard":"X1","reason":"it is better",`
	stamp := `redis.call('HSET', keys[1], 'stamp', text(now() + 5))`
	for name, c := range map[string]struct {
		mark, line, row string
		accepted        bool
	}{
		"field": {"--close", stamp,
			`"function":"t_close","changes":[{"key":"${k0}","field":"stamp","recorded":null,"got":"${now+5}"}]`, true},
		"other function": {"--close", stamp,
			`"function":["t_open","t_peek"],"changes":[{"key":"${k0}","field":"stamp","got":"${now+5}"}]`, false},
		"every function": {"--close", stamp,
			`"function":"*","changes":[{"key":"${k0}","field":"stamp","got":"${num}"}]`, true},
		"other value": {"--close", stamp,
			`"function":"t_close","changes":[{"key":"${k0}","field":"stamp","got":"${now+50000}"}]`, false},
		"other field": {"--close", stamp,
			`"function":"t_close","changes":[{"key":"${k0}","field":"stamps","got":"${any}"}]`, false},
		"recorded value": {"--open", `redis.call('HSET', keys[1], 'at', '1')`,
			`"function":"t_open","changes":[{"key":"${k0}","field":"at","recorded":"${now}","got":"1"}]`, true},
		"other recorded value": {"--open", `redis.call('HSET', keys[1], 'at', '1')`,
			`"function":"t_open","changes":[{"key":"${k0}","field":"at","recorded":"${now+9000}","got":"1"}]`, false},
		"only a part": {"--close", stamp + ` redis.call('HSET', keys[1], 'second', 'x')`,
			`"function":"t_close","changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, false},
		"too much": {"--close", stamp,
			`"function":"t_close","changes":[{"key":"${k0}","field":"stamp","got":"${any}"},{"key":"${k0}","field":"second","got":"x"}]`, false},
		"optional": {"--close", stamp,
			`"function":"t_close","changes":[{"key":"${k0}","field":"stamp","got":"${any}"},{"key":"${k0}","field":"second","got":"x","optional":true}]`, true},
		"removed field": {"--close", `redis.call('HDEL', keys[1], 'id')`,
			`"function":"t_close","changes":[{"key":"${k0}","field":"id","recorded":"${a0}","got":null}]`, true},
		"kept value": {"--close", `redis.call('HSET', keys[1], 'closed', '') redis.call('HDEL', keys[1], 'closed')`,
			`"function":"t_close","changes":[{"key":"${k0}","field":"closed","recorded":"${now+400}","got":null}]`, true},

		"reply": {"--open", `reply = {0, 'refused', args[1], '7'}`,
			`"function":"t_open","reply":[0,"refused","${a0}","${/[0-9]/}"]`, true},
		"reply with a rest": {"--open", `reply = {0, 'refused', '7'}`,
			`"function":"t_open","reply":[0,"refused","..."]`, true},
		"recorded reply elements": {"--open", `reply[5] = 'more'`,
			`"function":"t_open","reply":["${recorded}","${recorded}","${recorded}","${recorded}","more"]`, true},
		"reply type": {"--open", `reply = {'0', 'refused'}`,
			`"function":"t_open","reply":[0,"refused"]`, false},
		"reply length": {"--open", `reply = {0, 'refused', '7'}`,
			`"function":"t_open","reply":[0,"refused"]`, false},
		"reply error": {"--open", `reply = redis.error_reply('WRONG x')`,
			`"function":"t_open","reply":{"error":"WRONG"}`, true},

		"message": {"--close", `redis.call('PUBLISH', 'events', '{"a":"1","at":"' .. text(now()) .. '"}')`,
			`"function":"t_close","publish":[{"channel":"events","message":{"at":"${now}","a":"1"}}]`, true},
		"other message": {"--close", `redis.call('PUBLISH', 'events', '{"a":"2"}')`,
			`"function":"t_close","publish":[{"channel":"events","message":{"a":"1"}}]`, false},
		"second message": {"--open", `redis.call('PUBLISH', 'events', 'x')`,
			`"function":"t_open","publish":[{"channel":"events","message":"${any}"},{"channel":"${/ev.*/}","message":"x"}]`, true},

		"gone key": {"--open", `redis.call('DEL', keys[2])`,
			`"function":"t_open","changes":[{"key":"${k1}","part":"type","recorded":"zset","got":null}]`, true},
		"new key": {"--close", `redis.call('HSET', 'made:' .. args[1], 'f', 'v')`,
			`"function":"t_close","changes":[{"key":"made:${k0.id}","part":"type","got":"hash"},{"key":"made:id-1","field":"f","got":"v"}]`, true},
		"new key, any part": {"--close", `redis.call('SET', 'made', 'v', 'PX', 60000)`,
			`"function":"t_close","changes":[{"key":"made","got":"${any}"}]`, true},
		"new key with a field too many": {"--close", `redis.call('HSET', 'made', 'f', 'v', 'g', 'v')`,
			`"function":"t_close","changes":[{"key":"made","part":"type","got":"hash"},{"key":"made","field":"f","got":"v"}]`, false},
		"entry": {"--close", `redis.call('XADD', keys[3], '*', 'event', 'released', 'ts', text(now()))`,
			`"function":"t_close","changes":[{"key":"ff:${tag}:log","part":"entry","recorded":null,"got":["event","released","ts","${now}"]}]`, true},
		"other entry": {"--close", `redis.call('XADD', keys[3], '*', 'event', 'lost', 'ts', text(now()))`,
			`"function":"t_close","changes":[{"key":"${k2}","part":"entry","got":["event","released","ts","${now}"]}]`, false},
		"expiry": {"--close", `redis.call('PEXPIRE', keys[1], 90000)`,
			`"function":"t_close","changes":[{"key":"${k0}","part":"expiry","recorded":"${now+60000}","got":"${now+90000}"}]`, true},
		"value before": {"--close", `redis.call('ZADD', keys[2], 5, args[1]) redis.call('HSET', keys[1], 'old', 'o')`,
			`"function":"t_close","changes":[{"key":"${k1}","got":"${any}"},{"key":"${k0}","field":"old","got":"${before}${any}"}]`, true},

		"trace, step, note": {"--close", stamp,
			`"function":"t_close","when":{"trace":"t*y","steps":[0,1],"note":""},"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, true},
		"other trace": {"--close", stamp,
			`"function":"t_close","when":{"trace":["walk-*"]},"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, false},
		"other step": {"--close", stamp,
			`"function":"t_close","when":{"trace":"tiny","steps":[2]},"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, false},
		"other note": {"--close", stamp,
			`"function":"t_close","when":{"note":"again"},"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, false},
		"arguments and keys": {"--close", stamp,
			`"function":"t_close","when":{"args":{"0":"id-1","1":"${/[0-9]{13}/}","2":null},"keys":{"4":"${any}text"}},"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, true},
		"other argument": {"--close", stamp,
			`"function":"t_close","when":{"args":{"0":"id-2"}},"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, false},
		"recorded reply as a condition": {"--close", stamp,
			`"function":"t_close","when":{"reply":[1,"OK","..."]},"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, true},
		"other recorded reply": {"--close", stamp,
			`"function":"t_close","when":{"reply":[0,"..."]},"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, false},

		"given": {"--close", stamp,
			`"function":"t_close","when":{"given":[
				{"key":"${k0}","field":"id","is":"${a0}"},{"key":"${k0}","field":"old","exists":true,"set":false},
				{"key":"${k0}","field":"at","at_most":"${now}"},{"key":"${k0}","field":"at","above":"${now-9000}"},
				{"key":"ff:${tag}:all","field":"other","exists":true},{"key":"${k4}","is":"x$${any}","not":"y"},
				{"key":"nowhere","exists":false},{"key":"${k0}","field":"closed","is":null}]},
			"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, true},
		"given a write of the call itself": {"--close", stamp,
			`"function":"t_close","when":{"given":[{"key":"${k0}","field":"closed","exists":true}]},"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, false},
		"given a later time": {"--close", stamp,
			`"function":"t_close","when":{"given":[{"key":"${k0}","field":"at","above":"${now}"}]},"changes":[{"key":"${k0}","field":"stamp","got":"${any}"}]`, false},

		"refusal without a write": {"--refuse", `if true then return {0, 'refused'} end`,
			`"function":"t_close","instead_of":"before","reply":[0,"refused"]`, true},
		"refusal with a write": {"--refuse", `redis.call('HSET', keys[1], 'mark', '1') if true then return {0, 'refused'} end`,
			`"function":"t_close","instead_of":"before","reply":[0,"refused"]`, false},
		"refusal with the write that is said": {"--refuse", `redis.call('HSET', keys[1], 'mark', '1') if true then return {0, 'refused'} end`,
			`"function":"t_close","instead_of":"before","reply":[0,"refused"],"changes":[{"key":"${k0}","field":"mark","recorded":null,"got":"1"}]`, true},
		"refusal with a message": {"--refuse", `redis.call('PUBLISH', 'events', '1') if true then return {0, 'refused'} end`,
			`"function":"t_close","instead_of":"before","reply":[0,"refused"]`, false},
		"refusal with another reply": {"--refuse", `if true then return {0, 'gone'} end`,
			`"function":"t_close","instead_of":"before","reply":[0,"refused"]`, false},
		"refusal with the reply of the recording": {"--refuse", `if true then return {1, 'OK', 10, 'a', 'b'} end`,
			`"function":"t_close","instead_of":"before"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			library := strings.Replace(tinyLibrary, "keys, args)\n  if", "keys, args)\n  --refuse\n  if", 1)
			library = strings.Replace(library, c.mark, c.line, 1)
			d := deviations(t, "{"+why+c.row+"}")
			r := b.replay(t, library, tinyTrace, Options{Deviations: d})
			if got := len(r.Failures) == 0; got != c.accepted {
				t.Errorf("accepted: %v, want %v: %q", got, c.accepted, differences(r))
			}
			if c.accepted && (r.Accepted != 1 || d.Rows[0].used.Load() != 1) {
				t.Errorf("%d steps accepted, the row was used %d times", r.Accepted, d.Rows[0].used.Load())
			}
		})
	}
}

func TestDeviations_SeveralInOneStep(t *testing.T) {
	b := newBench(t)
	library := strings.Replace(tinyLibrary, "--close",
		`redis.call('HSET', keys[1], 'one', '1', 'two', '2') redis.call('PUBLISH', 'events', 'x')`, 1)
	rows := []string{
		`{"hazard":"A","reason":"r","function":"t_close","changes":[{"key":"${k0}","field":"one","got":"1"}]}`,
		`{"hazard":"B","reason":"r","function":"t_close","changes":[{"key":"${k0}","field":"two","got":"2"}]}`,
		`{"hazard":"C","reason":"r","function":"t_close","publish":[{"channel":"events","message":"x"}]}`,
	}
	r := b.replay(t, library, tinyTrace, Options{Deviations: deviations(t, strings.Join(rows, ","))})
	if got := differences(r); len(got) > 0 {
		t.Errorf("differences %q", got)
	}
	r = b.replay(t, library, tinyTrace, Options{Deviations: deviations(t, strings.Join(rows[:2], ","))})
	if got := differences(r); len(got) != 1 || !strings.HasPrefix(got[0], "t_close publish") {
		t.Errorf("differences %q", got)
	}
}

// A deviation in a reply must not reach the steps that refer to it, and one
// in the key space not those that read it.
func TestDeviations_DoNotAffectLaterSteps(t *testing.T) {
	b := newBench(t)
	library := strings.Replace(tinyLibrary, "--open",
		`redis.call('DEL', keys[1]) redis.call('HSET', keys[1], 'id', '?') reply = {0, 'refused'}`, 1)
	d := deviations(t, `{"hazard":"A","reason":"r","function":"t_open","reply":[0,"refused"],
		"changes":[{"key":"${k0}","got":null},{"key":"${k0}","field":"id","got":"?"}]}`)
	r := b.replay(t, library, tinyTrace, Options{Deviations: d})
	if got := differences(r); len(got) > 0 || r.Accepted != 1 {
		t.Errorf("differences %q, %d accepted", got, r.Accepted)
	}
}

func TestUnusedDeviations(t *testing.T) {
	b := newBench(t)
	d := deviations(t, `
		{"hazard":"A","reason":"r","function":"t_open","changes":[{"key":"${k0}","field":"x","got":"1"}]},
		{"hazard":"B","reason":"r","function":"t_missing","reply":[0]},
		{"hazard":"C","reason":"r","function":["t_open","t_missing"],"reply":[0]}`)
	r := b.replay(t, tinyLibrary, tinyTrace, Options{Deviations: d})
	unused := d.Unused(Summarize([]*Result{r}).Functions())
	if len(unused) != 1 || unused[0].Name() != "row 1 (A)" {
		t.Errorf("unused: %v", unused)
	}
	if len(r.Failures) > 0 {
		t.Errorf("differences %q", differences(r))
	}
}

func TestDeviationThatMustMatch(t *testing.T) {
	b := newBench(t)
	d := deviations(t, `{"hazard":"A","reason":"r","function":"t_open","always":true,"reply":[0]}`)
	r := b.replay(t, tinyLibrary, tinyTrace, Options{Deviations: d, KeepGoing: true})
	if got := differences(r); len(got) != 1 || !strings.Contains(got[0], "row 1 (A) applies") {
		t.Errorf("differences %q", got)
	}
}

func TestDeviations_MayDropFractions(t *testing.T) {
	b := newBench(t)
	trace := strings.ReplaceAll(tinyHead+tinyOpen, "${t0+500}", "${t0+500.5}")
	change := `{"key":"${k0}","field":"note","got":"${recorded.floor}"}`
	row := `{"hazard":"A14","reason":"r","function":"t_open","reply":["${recorded}","${recorded}","${recorded}","${recorded.floor}"],"changes":[` + change + `]}`
	if r := b.replay(t, tinyLibrary, trace, Options{Deviations: deviations(t, row)}); len(r.Failures) > 0 {
		t.Errorf("differences %q", differences(r))
	}
	if r := b.replay(t, tinyLibrary, trace, Options{}); len(r.Failures) != 1 {
		t.Errorf("a fraction was not missed: %q", differences(r))
	}
}

func TestBadDeviations(t *testing.T) {
	for name, row := range map[string]string{
		"unknown member":                `{"hazard":"A","reason":"r","function":"f","reply":[0],"whem":{}}`,
		"unknown change":                `{"hazard":"A","reason":"r","function":"f","changes":[{"key":"k","got":"1","want":"2"}]}`,
		"unknown condition":             `{"hazard":"A","reason":"r","function":"f","reply":[0],"when":{"given":[{"key":"k","equals":"1"}]}}`,
		"no reason":                     `{"hazard":"A","function":"f","reply":[0]}`,
		"no function":                   `{"hazard":"A","reason":"r","reply":[0]}`,
		"no difference":                 `{"hazard":"A","reason":"r","function":"f"}`,
		"no got":                        `{"hazard":"A","reason":"r","function":"f","changes":[{"key":"k","field":"f"}]}`,
		"unknown reference":             `{"hazard":"A","reason":"r","function":"f","changes":[{"key":"${key0}","field":"f","got":"1"}]}`,
		"bad expression":                `{"hazard":"A","reason":"r","function":"f","reply":["${/(/}"]}`,
		"wildcard in a key":             `{"hazard":"A","reason":"r","function":"f","reply":[0],"when":{"given":[{"key":"${any}","exists":true}]}}`,
		"condition without an operator": `{"hazard":"A","reason":"r","function":"f","reply":[0],"when":{"given":[{"key":"k","field":"f"}]}}`,
		"steps of many traces":          `{"hazard":"A","reason":"r","function":"f","reply":[0],"when":{"steps":[1]}}`,
		"unknown part":                  `{"hazard":"A","reason":"r","function":"f","changes":[{"key":"k","part":"thing","got":"1"}]}`,
		"unknown base":                  `{"hazard":"A","reason":"r","function":"f","reply":[0],"instead_of":"after"}`,
	} {
		if _, err := ParseDeviations([]byte("[" + row + "]")); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
