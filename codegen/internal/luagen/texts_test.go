package luagen

import (
	"strings"
	"testing"

	gopherlua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
	"github.com/flowfabric/flowfabric-go/codegen/internal/headertest"
)

// luaPrelude declares the functions and tables that the generated functions use.
const luaPrelude = "message, encode, decode = {}, {}, {}\nfunction is_set(x) return x ~= nil and x ~= '' end\n"

func allLuaTexts(l *header.Library) string { return Texts(l, func(string) bool { return true }) }

func TestTextsOfLua(t *testing.T) {
	t.Parallel()
	l := headertest.Text(t, `
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

func TestRowLayout(t *testing.T) {
	t.Parallel()
	var p header.Problems
	l := header.Read([]header.SourceFile{{Name: "x.lua", Text: `-- @row r  A row
-- @beside mark
-- @column kind  byte =7 its kind
-- @column state state how it stands
-- @values state open closed
-- @column at    time since when
-- @column id    text(4) its id
-- @piece  tail  at id

local at = r.AT_AT
local tail = r.TAIL
`}}, &p)
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	text := rows(l)
	for _, want := range []string{
		"r.BYTES = 12\n", "r.KIND = 7\n", "r.STATE = { 'open', 'closed' }\n", "r.AT_AT = 3\n", "r.TAIL = '<I6c4'\n",
		"function r.read(bytes, from, mark)\n", "struct.pack('<BBI6c4', 7, r.state, r.at, r.id)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "ID_AT") {
		t.Error("has an offset that the library does not use")
	}
}
