package luagen

import (
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

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
