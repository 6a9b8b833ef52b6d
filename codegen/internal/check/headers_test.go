package check

import (
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// faults gives the messages for a library text.
func faults(text string) string {
	var p header.Problems
	l := header.Read([]header.SourceFile{{Name: "x.lua", Text: text}}, &p)
	Headers(l, &p)
	if err := p.Err(); err != nil {
		return err.Error()
	}
	return ""
}

func TestFaultsAreFoundWithTheirLine(t *testing.T) {
	t.Parallel()
	const declared = `-- @template exec.core exec:{tag}:{execution_id}:core
-- @template workers   idx:workers

-- @function ff_x
-- @summary  Does x.
-- @key      core exec.core
-- @arg      execution_id execution_id
-- @reply    OK
-- @error    stale_lease
function F.ff_x(K, A)
  return reply.err('stale_lease', K.core, A.execution_id)
end
`
	if got := faults(declared); got != "" {
		t.Fatalf("the good header: %s", got)
	}
	for _, x := range []struct{ old, new, want string }{
		{"-- @summary  Does x.\n", "", "x.lua:4: function ff_x has no @summary"},
		{"exec.core\n-- @arg", "exec.nothing\n-- @arg", "x.lua:6: unknown template exec.nothing"},
		{"-- @template workers ", "-- @template queue ffx:{tag}:lane:{lane_id}:queue:{fair_key}\n-- @template workers ",
			"x.lua:2: parameter lane_id of template queue is free text with other parts after it"},
		{"-- @template workers ", "-- @template queue ffx:{tag}:lane:{lane_id:escaped}:queue:{fair_key}\n-- @template workers ", ""},
		{"-- @template workers ", "-- @template lane ffx:{tag}:lane:{lane_id:twice}:queue\n-- @template workers ", "malformed parameter"},
		{"core exec.core", "core workers", "x.lua:6: template workers has no {tag}"},
		{"execution_id execution_id\n", "execution_id uuid\n", `x.lua:7: @arg: unknown type "uuid" of execution_id`},
		{"K.core", "K.tore", "x.lua:11: ff_x uses K.tore, which its header does not declare"},
		{"A.execution_id", "A.lane_id", "x.lua:11: ff_x uses A.lane_id, which its header does not declare"},
		{"-- @error    stale_lease\n", "", "x.lua:10: error code stale_lease is declared by no header"},
		{"err('stale_lease'", "err('stale'", "x.lua:11: error code stale is declared by no header"},
		{"err('stale_lease'", "err('stale'", "x.lua:9: error code stale_lease is declared but occurs nowhere"},
		{"function F.ff_x", "function F.ff_y", "x.lua:4: header of ff_x is not followed by"},
		{"@flags", "", ""},
		{"-- @reply    OK\n", "", "x.lua:4: function ff_x has no @reply"},
		{"-- @reply    OK\n", "-- @reply    OK a:int\n-- @reply    OK b:int\n", "x.lua:9: two replies OK with the same number of fields"},
		{"-- @reply    OK\n", "-- @reply    OK a:int\n-- @reply    DUPLICATE a:text\n", "x.lua:9: field a has another type"},
		{"-- @reply    OK\n", "-- @reply    OK a:rest(text) b:int\n", "field a takes the rest of the reply"},
		{"-- @reply    OK\n", "-- @reply    OK a:list(ghost)\n", "no @record ghost"},
		{"-- @reply    OK\n", "-- @reply    OK a:list(b:int\n", "a ( without a )"},
		{"-- @reply    OK\n", "-- @reply    fine\n", "needs a status in capitals"},
		{"-- @arg      execution_id execution_id\n", "-- @arg      execution_id execution_id\n-- @arg      execution_id text\n", "x.lua:8: argument execution_id is declared twice"},
		{"-- @key      core exec.core\n", "-- @key      core exec.core\n-- @key      core exec.core\n", "x.lua:7: key role core is declared twice"},
		{"core exec.core", "core exec.core(lane=lane_id)", "template exec.core has no parameter lane"},
		{"-- @arg ", "-- @include ghost\n-- @arg ", "no @arguments ghost"},
		{"-- @error    stale_lease\n", "-- @error    set:ghost\n", "no @errors ghost"},
		{"-- @summary", "-- @flags    eventually\n-- @summary", `unknown flag "eventually"`},
		{"-- @reply", "-- @replies  OK\n-- @reply", "@replies: unknown tag"},
		{"\nend\n", "\n", "no `end` in the first column"},
		{"-- @reply    OK\n", "-- @reply    OK\n-- @writes_on lease_expired core\n", "@writes_on lease_expired: ff_x does not declare that error"},
		{"execution_id execution_id\n", "execution_id execution_id<result>\n", "field execution_id is a execution_id, which has no slot"},
		{"-- @template workers ", "-- @record x a:bytes\n-- @template workers ", "record x: field a needs the slot of the value, or <plain>"},
		{"-- @template workers ", "-- @record x a:bytes<ghost>\n-- @template workers ", `package payload has no slot "ghost"`},
		{"-- @template workers ", "-- @record x a:bytes<plain> b:value<result> c:json\n-- @template workers ", ""},
	} {
		if got := faults(strings.Replace(declared, x.old, x.new, 1)); !strings.Contains(got, x.want) {
			t.Errorf("%q in place of %q:\n got %q\nwant %q", x.new, x.old, got, x.want)
		}
	}
	if got := faults(declared + declared[strings.Index(declared, "-- @function"):]); !strings.Contains(got, "is declared at x.lua:4 already") {
		t.Errorf("duplicate function: %q", got)
	}
}

func TestLuaScopes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ text, want string }{
		{"local a = {}\nfunction a.f() return a.f() end\n", ""},
		{"local function f(n) return n > 0 and f(n - 1) end\n", ""},
		{"local a = {}\nfunction a.f() return b end\n", "x.lua:2: b is neither a local"},
		{"local a = {}\nfunction a.f() return a.g() end\n", "x.lua:2: a.g is defined nowhere"},
		{"local a = {}\nfunction a.f() end\nfunction a.f() end\n", "x.lua:3: a.f is defined at x.lua:2 already"},
		{"local function f() return g() end\nlocal function g() end\n", "x.lua:1: g is neither a local"},
		{"local t = tonumber('1')\n", "x.lua:1: tonumber does not exist yet while the library loads"},
		{"local function f() return tonumber('1') end\n", ""},
		{"local function f()\n  for i, v in ipairs({}) do v = i end\n  return v\nend\n", "x.lua:3: v is neither"},
		{"local function f()\n  repeat local x = 1 until x == 1\nend\n", ""},
		{"local a = {}\nlocal function f(a) return a.any end\n", "x.lua:2: the local a hides the module of that name"},
		{"local a = {}\nlocal function f() for a in next, {} do f(a) end end\n", "x.lua:2: the local a hides"},
		{"local a = {}\nlocal t = { f = a.f }\nfunction a.f() return t end\n", "x.lua:2: a.f is used while the library loads, before it is there"},
		{"local a = {}\nfunction a.f() end\nlocal t = { f = a.f }\n", ""},
		{"x = 1\n", "x.lua:1: x is neither a local"},
		{"local = 1\n", "does not parse"},
		{"local a, b = 1, 2\na, b = b, a\n", "x.lua:2: a is assigned and read again"},
		{"local a, b = {1}, 2\nb, a = a.x, a.y\n", ""},
		{"local a, b = {1}, 2\na, b = a.x, a.y + 1\n", "x.lua:2: a is assigned and read again"},
	} {
		var p header.Problems
		checkScopes([]header.SourceFile{{Name: "x.lua", Text: x.text}}, &header.Library{}, &p)
		got := ""
		if err := p.Err(); err != nil {
			got = err.Error()
		}
		if x.want == "" && got != "" || !strings.Contains(got, x.want) {
			t.Errorf("%q:\n got %q\nwant %q", x.text, got, x.want)
		}
	}
}

func TestTextsAreChecked(t *testing.T) {
	t.Parallel()
	const declared = "-- @template channel.wake ffx:wake:{lane_id}\n-- @message work channel.wake work {partition} {mark}\n"
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
		var p header.Problems
		Forms(header.Read([]header.SourceFile{{Name: "x.lua", Text: declared + x.more}}, &p), &p)
		got := ""
		if err := p.Err(); err != nil {
			got = err.Error()
		}
		if x.want == "" && got != "" || !strings.Contains(got, x.want) {
			t.Errorf("%q:\n got %q\nwant %q", x.more, got, x.want)
		}
	}
}
