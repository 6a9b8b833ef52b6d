package wireform

import (
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/headertest"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

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
	before := headertest.Text(t, sample)
	kept := map[int]string{lualib.Protocol: Text(before, lualib.Protocol)}
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
		err := compare(kept, headertest.Text(t, text))
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: want %q, got %v", x.name, x.want, err)
		}
	}
}
