package wireform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/headertest"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

const wireSample = `-- @template ffx.partition ffx:{tag}
-- @template exec.core exec:{tag}:{execution_id}:core
-- @record   item name:text parts:list(size:int)
-- @arguments request lane_id:lane_id count:int

-- @function ffx_take
-- @summary  Takes.
-- @flags    repeatable
-- @key      partition ffx.partition
-- @key      core exec.core optional
-- @arg      execution_id execution_id
-- @include  request
-- @arg      note text optional
-- @reply    OK items:list(item) left:int?
-- @reply    TAKEN at:unix_ms
-- @error    stale_lease holder:text
function F.ffx_take(K, A)
end

-- @function ffx_both
-- @summary  Has flat replies and groups.
-- @key      partition ffx.partition
-- @group    pairs key:text value:bytes
-- @reply    OK
-- @reply    OK at:unix_ms
-- @reply    MANY all:rest(name:text value:bytes)
function F.ffx_both(K, A)
end

-- @function ff_take
-- @summary  Follows the contract.
-- @key      core exec.core
-- @arg      execution_id execution_id
-- @reply    OK at:unix_ms
function F.ff_take(K, A)
end
`

func TestChangesOfTheWireForm(t *testing.T) {
	t.Parallel()
	kept := map[int]string{lualib.Protocol: Text(headertest.Text(t, wireSample), lualib.Protocol)}
	for _, x := range []struct{ name, old, new, want string }{
		{"nothing", "", "", ""},
		{"optional argument at the end", "-- @arg      note text optional\n", "-- @arg      note text optional\n-- @arg      more int optional\n", ""},
		{"omittable argument at the end", "-- @arg      note text optional\n", "-- @arg      note text optional\n-- @arg      more int omittable\n", ""},
		{"group at the end", "-- @arg      note text optional\n", "-- @arg      note text optional\n-- @group    more a:int b:int\n", ""},
		{"key at the end", "core exec.core optional\n", "core exec.core optional\n-- @key      other exec.core optional\n", ""},
		{"key with another role", "core exec.core optional\n", "head exec.core optional\n", ""},
		{"argument that became optional", "count:int", "count:int optional", ""},
		{"value of a reply", "left:int?", "left:int? right:int?", ""},
		{"value of a record", "parts:list(size:int)\n", "parts:list(size:int colour:text) price:int\n", ""},
		{"error", "-- @error    stale_lease holder:text\n", "-- @error    stale_lease holder:text since:unix_ms\n-- @error    lease_expired\n", ""},
		{"function", "-- @function ff_take", "-- @function ffx_new\n-- @summary  New.\n-- @arg a int\n-- @reply OK\nfunction F.ffx_new(K, A)\nend\n\n-- @function ff_take", ""},
		{"reply that is gone", "-- @reply    TAKEN at:unix_ms\n", "", ""},

		{"function is gone", "_take", "_grab", "ff_take is gone"},
		{"argument in the middle", "-- @include  request\n", "-- @arg      more int optional\n-- @include  request\n",
			"ffx_take: `arg more int optional` replaces `arg lane_id lane_id`"},
		{"argument of a set", "lane_id:lane_id count:int", "lane_id:lane_id more:int count:int", "`arg more int` replaces `arg count int`"},
		{"argument is gone", "-- @arg      note text optional\n", "", "ffx_take: `arg note text optional` is gone"},
		{"argument with another name", "note text", "remark text", "`arg remark text optional` replaces `arg note text optional`"},
		{"argument of another type", "count:int", "count:ms", "`arg count ms` replaces `arg count int`"},
		{"argument became required", "note text optional", "note text", "`arg note text` was optional and is required now"},
		{"required argument", "-- @arg      note text optional\n", "-- @arg      note text optional\n-- @arg      more int\n", "`arg more int` is new and neither"},
		{"required key", "core exec.core optional\n", "core exec.core optional\n-- @key      other exec.core\n", "is new and neither"},
		{"another key", "-- @key      core exec.core\n", "-- @key      core ffx.partition\n",
			"ff_take: `key core ffx:{tag}` replaces `key core exec:{tag}:{execution_id}:core`"},
		{"pattern of a key", "{execution_id}:core", "{execution_id}:heart", "replaces"},
		{"field of a group", "key:text value:bytes", "key:text value:bytes more:int", "ffx_both: `group pairs key:text value:bytes more:int` replaces"},
		{"value in the middle", "OK items:list(item)", "OK count:int items:list(item)", "ffx_take: reply OK: `count:int` replaces `items:list(name:text parts:list(size:int))`"},
		{"value is gone", " left:int?\n", "\n", ""}, // programs take it as missing
		{"required value is gone", "TAKEN at:unix_ms", "TAKEN", "ffx_take: reply TAKEN: `at:unix_ms` is gone"},
		{"value may be missing", "TAKEN at:unix_ms", "TAKEN at:unix_ms?", "`at:unix_ms?` may be missing now"},
		{"field of a record", "item name:text", "item size:int name:text", "reply OK: items: `size:int` replaces `name:text`"},
		{"field of a nested array", "list(size:int)", "list(width:int)", "items: parts: `width:int` replaces `size:int`"},
		{"field of a flat rest", "rest(name:text value:bytes)", "rest(name:text value:bytes more:int)", "its elements lie flat and cannot grow"},
		{"status", "-- @reply    TAKEN", "-- @reply    LOST\n-- @reply    TAKEN", "ffx_take: answers `LOST`, which programs do not know"},
		{"replies that differ in length", "-- @reply    OK\n-- @reply    OK at:unix_ms\n-- @reply    MANY", "-- @reply    OK\n-- @reply    OK at:unix_ms by:text\n-- @reply    MANY", "distinguished by their number of values"},
		{"reply of the contract", "@reply    OK at:unix_ms\nfunction F.ff_take", "@reply    OK at:unix_ms by:text\nfunction F.ff_take", "ff_take: reply OK: `by:text` is new, in a reply of fixed length"},
		{"details of an error", "holder:text", "since:unix_ms", "error stale_lease: `since:unix_ms` replaces `holder:text`"},
		{"repeatable", "-- @flags    repeatable\n", "", "ffx_take is no longer repeatable"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			text := strings.ReplaceAll(wireSample, x.old, x.new)
			if x.name != "nothing" && text == wireSample {
				t.Fatal("the change changes nothing")
			}
			err := compare(kept, headertest.Text(t, text))
			if x.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), "-accept-wire-form") {
				t.Errorf("want %q, got %v", x.want, err)
			}
		})
	}
}

// TestWireFormOfTheLibrary fails where a change to the functions would break programs that share a server with this
// library.
func TestWireFormOfTheLibrary(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	l := headertest.Real(t)
	present := Text(l, lualib.Protocol)
	if err := Keep(root, l, map[string]string{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, File(lualib.Protocol))); err != nil {
		t.Errorf("run go run ./codegen: %v", err)
	}
	form, err := readWireForm("present", present)
	if err != nil {
		t.Fatal(err)
	}
	if functions := form.functions; len(functions) < 100 || len(functions["ffx_claim"].Args) == 0 || len(form.texts) < 10 {
		t.Errorf("the form has %d functions and %d texts", len(functions), len(form.texts))
	}
}
