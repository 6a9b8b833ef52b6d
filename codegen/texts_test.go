package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	gopherlua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

func textLibrary(text string) (*library, error) {
	var p problems
	l := readHeaders([]sourceFile{{"x.lua", text}}, &p)
	checkForms(l, &p)
	return l, p.err()
}

func TestTextsAreChecked(t *testing.T) {
	t.Parallel()
	const header = "-- @template channel.wake ffx:wake:{lane_id}\n-- @message work channel.wake work {partition} {mark}\n"
	for _, x := range []struct{ more, want string }{
		{"", ""},
		{"-- @message none channel.wake none {partition}\n", ""},
		{"-- @message work channel.wake other {partition}\n", "x.lua:3: work is declared at x.lua:2 already"},
		{"-- @message more channel.wake work {partition}\n", "x.lua:3: messages work and more of channel.wake cannot be distinguished"},
		{"-- @message here channel.gone here {id}\n", "x.lua:3: message here: no template channel.gone of a channel"},
		{"-- @message here channel.wake here {id} {id}\n", "x.lua:3: here has two parameters id"},
		{"-- @message here channel.wake\n", "x.lua:3: @message: needs a name, channels and a text"},
		{"-- @text pause\n", "x.lua:3: @text: needs a name and a text"},
		{"-- @text pause {since:date} {reason}\n", "x.lua:3: @text: unknown type date"},
		{"-- @text pause {since:unix_ms}{reason}\n", "since and reason are not separated"},
		{"-- @text pause {since?} {reason}\n", "since is optional and not the last part"},
		{"-- @text pause {a} {b:'x'} {c}\n", "the mark b is neither first nor last"},
		{"-- @text pause {a} {b:' x'}\n", ""},
		{"-- @list room {a} {b:int}\n", "nothing ends an element of list room"},
		{"-- @list room \"{a} {b:int}\\n\"\n", ""},
		{"-- @set kinds {a} {b}\n", "set kinds is not of one parameter"},
		{"-- @digits hint none=0 aside=+4\n", ""},
		{"-- @digits hint none=x\n", "hint: \"none=x\" is not name=digit"},
		{"-- @frame many channel.wake many {a}\n", "frame many has parameters"},
	} {
		_, err := textLibrary(header + x.more)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if x.want == "" && got != "" || !strings.Contains(got, x.want) {
			t.Errorf("%q:\n got %q\nwant %q", x.more, got, x.want)
		}
	}
}

// luaPrelude declares the functions and tables that the generated functions use.
const luaPrelude = "message, encode, decode = {}, {}, {}\nfunction is_set(x) return x ~= nil and x ~= '' end\n"

func allLuaTexts(l *library) string { return emitLuaTextsIf(l, func(string) bool { return true }) }

func TestTextsOfLua(t *testing.T) {
	t.Parallel()
	l, err := textLibrary(`
-- @template channel.due ffx:due
-- @template channel.worker ffx:worker:{worker_instance_id}
-- @template channel.done ffx:done
-- @message due channel.due {partition:any_partition} {at}
-- @message cancel channel.worker cancel {execution_id} {lease_id} {reason}
-- @message done channel.done {flow_id} {outcome} {result?}
-- @text pause {since:unix_ms} {reason}
-- @text admission {token:int} {epoch:int}{asking:' ?'}
-- @text ahead {ahead:'?'}{token:int} {limits}
-- @text limits "{count:int} {words}\n{limits:json}"
-- @text breach breach {node} {attempt:int} {words}
-- @list room "{quota} {permits:int}\n"
-- @list place " {partition}@{slot:int} "
-- @set kinds {kind}
-- @digits hint none=0 some=1 aside=+4
`)
	if err != nil {
		t.Fatal(err)
	}
	state := gopherlua.NewState()
	defer state.Close()
	const tests = `
assert(message.due('q7', '12') == 'q7 12')
assert(message.cancel('e', '', 'its time is up') == 'cancel e  its time is up')
assert(message.done('f', 'success', '') == 'f success')
assert(message.done('f', 'success', 'a b') == 'f success a b')
local function same(want, ...)
  local list = {}
  for i = 1, math.max(select('#', ...), 1) do list[i] = tostring((select(i, ...))) end
  local got = table.concat(list, ',')
  assert(got == want, got .. ' is not ' .. want)
end
same('12,', decode.pause('12 '))
same('12,so it is', decode.pause('12 so it is'))
same('nil', decode.pause('12'))
same('3,4,false', decode.admission('3 4'))
same('3,4,true', decode.admission('3 4 ?'))
same('nil', decode.admission('3 4 x'))
same('nil', decode.admission('waiting'))
same('true,3,x y', decode.ahead('?3 x y'))
same('false,3,x y', decode.ahead('3 x y'))
same('2,a b,7', decode.limits('2 a b\n[]'))
same('nil', decode.limits('2 a b'))
same('node', encode.breach_fault('a b', '1'))
same('attempt', encode.breach_fault('a', 'x'))
same('nil', encode.breach_fault('a', '1'))
assert(encode.admission('3', '4', true) == '3 4 ?' and encode.admission('3', '4') == '3 4')
local rooms = ''
for quota, permits in decode.room_list('a 1\nb-c 22\n') do rooms = rooms .. quota .. '=' .. permits .. ';' end
same('a=1;b-c=22;', rooms)
same('9', decode.place_of(' 11@8  1@9 ', 1))
same('nil', decode.place_of(' 11@8  1@9 ', 8))
assert(decode.HINT_NONE == 0 and decode.HINT_SOME == 1 and decode.HINT_ASIDE == 4)
assert(decode.has_kinds('\na\nb.c\n', 'b.c') and not decode.has_kinds('\na\nb.c\n', 'b'))
`
	if err := state.DoString(luaPrelude + allLuaTexts(l) + tests); err != nil {
		t.Fatal(err)
	}
}

func realLibrary(t *testing.T) *library {
	t.Helper()
	files, err := readSources(filepath.Join("..", "lua"))
	if err != nil {
		t.Fatal(err)
	}
	var p problems
	l := readHeaders(files, &p)
	checkForms(l, &p)
	if err := p.err(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLuaTextsMatchExamples writes and reads the examples of all messages and texts in Lua. The tests of
// internal/enginerpc do the same in Go.
func TestLuaTextsMatchExamples(t *testing.T) {
	t.Parallel()
	l := realLibrary(t)
	state := gopherlua.NewState()
	defer state.Close()
	if err := state.DoString(luaPrelude + allLuaTexts(l)); err != nil {
		t.Fatal(err)
	}
	run := func(name, code string) {
		if err := state.DoString(code); err != nil {
			t.Errorf("%s: %v\n%s", name, err, code)
		}
	}
	quote := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, "\\%03d", s[i])
		}
		return "'" + b.String() + "'"
	}
	for _, m := range l.forms {
		var args, values []string
		for i, x := range m.params() {
			value := quote(sampleOfPart(m, x).wire)
			switch {
			case x.mark != "":
				args, values = append(args, "true"), append(values, "true")
			case x.typ.kind == kindBytes && i == len(m.params())-1:
				position := len(m.sampleText()) - len(sampleOfPart(m, x).wire) + 1
				args, values = append(args, value), append(values, fmt.Sprint(position))
			default:
				args, values = append(args, value), append(values, value)
			}
		}
		text := quote(m.sampleText())
		same := func(call string) {
			run(m.name, fmt.Sprintf("local got, want = { %s }, { %s }\nfor i = 1, %d do assert(got[i] == want[i], i .. ': ' .. tostring(got[i])) end",
				call, strings.Join(values, ", "), len(values)))
		}
		switch m.kind {
		case formMessage:
			run(m.name, fmt.Sprintf("local text = message.%s(%s)\nassert(text == %s, text)", m.name, strings.Join(args, ", "), text))
		case formText:
			run(m.name, fmt.Sprintf("local text = encode.%s(%s)\nassert(text == %s, text)", m.name, strings.Join(args, ", "), text))
			same(fmt.Sprintf("decode.%s(%s)", m.name, text))
		case formList:
			names := make([]string, len(values))
			for i := range names {
				names[i] = fmt.Sprint("x", i)
			}
			run(m.name, fmt.Sprintf("local n = 0\nfor %s in decode.%s_list(%s .. %s) do\n  n = n + 1\n  local got, want = { %s }, { %s }\n"+
				"  for i = 1, %d do assert(got[i] == want[i], got[i]) end\nend\nassert(n == 2)",
				strings.Join(names, ", "), m.name, text, text, strings.Join(names, ", "), strings.Join(values, ", "), len(values)))
		}
	}
}

func TestChangesOfTextsOnTheWire(t *testing.T) {
	t.Parallel()
	const sample = `-- @template channel.wake ffx:wake:{lane_id}
-- @template channel.due ffx:due
-- @message work channel.wake work {partition} {mark}
-- @message none channel.wake none {partition}
-- @text pause {since:unix_ms} {reason}
-- @list room "{quota_policy_id} {permits:int}\n"
-- @set kinds {kind}
-- @frame many channel.due many
-- @digits hint none=0 some=1
`
	before, err := textLibrary(sample)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[int]string{lualib.Protocol: emitWireForm(before, lualib.Protocol)}
	for _, x := range []struct{ name, old, new, want string }{
		{"nothing", "", "", ""},
		{"name of a parameter", "{mark}", "{sign}", ""},
		{"another message", "-- @text pause", "-- @message gone channel.wake gone {id}\n-- @text pause", ""},
		{"another channel", "channel.wake none", "channel.wake,channel.due none", ""},
		{"optional part at the end", "none {partition}", "none {partition} {why?}", ""},
		{"message is gone", "@message none channel.wake none {partition}", "", "message none is gone"},
		{"other word", "channel.wake none {", "channel.wake empty {", "message none was `none {partition}` and is `empty {partition}`"},
		{"other order", "{partition} {mark}", "{mark} {partition}", "message work was"},
		{"part after free text", "{partition} {mark}", "{partition} {mark} {why?}", "message work was"},
		{"required part", "none {partition}", "none {partition} {why}", "message none was"},
		{"channel is gone", "work channel.wake", "work channel.due", "message work is no longer sent on ffx:wake:{lane_id}"},
		{"channel has another name", "ffx:wake:", "ffx:awake:", "message work is no longer sent on ffx:wake:{lane_id}"},
		{"type", "since:unix_ms", "since:ms", "text pause was `{since:unix_ms} {reason:text}` and is `{since:ms} {reason:text}`"},
		{"part of a text", "{reason}", "{reason} {by?}", "text pause was"},
		{"end of an element", `{permits:int}\n`, `{permits:int};`, "list room was"},
		{"list for a set", "@set kinds {kind}", `@list kinds "{kind}\n"`, "set kinds is a list now"},
		{"digit", "some=1", "some=2", "digits hint was `none=0 some=1` and is `none=0 some=2`"},
		{"frame", "channel.due many", "channel.due all", "frame many was `many` and is `all`"},
	} {
		text := strings.ReplaceAll(sample, x.old, x.new)
		if x.old != "" && text == sample {
			t.Fatalf("%s: the change changes nothing", x.name)
		}
		l, err := textLibrary(text)
		if err != nil {
			t.Fatal(err)
		}
		err = compareWireForms(kept, l)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: want %q, got %v", x.name, x.want, err)
		}
	}
}
