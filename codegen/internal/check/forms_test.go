package check

import (
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

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
