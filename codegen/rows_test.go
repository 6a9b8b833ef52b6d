package main

import (
	"strings"
	"testing"
)

func TestFaultsOfRows(t *testing.T) {
	t.Parallel()
	const header = "-- @row r  A row\n-- @column a byte first\n-- @column b time second\n-- @column c text(3) third\n"
	for name, x := range map[string]struct{ more, want string }{
		"none":                 {"-- @piece whole a..b c\n", ""},
		"without a row":        {"\nlocal x\n-- @column d byte fourth\n", "x.lua:7: @column without a @row above it"},
		"unknown type":         {"-- @column d word fourth\n", `x.lua:5: @column d: unknown type "word"`},
		"twice":                {"-- @column a byte again\n", "x.lua:5: @column a: is declared twice"},
		"values of a number":   {"-- @values a x y\n", "x.lua:5: @values a: the column is of type byte"},
		"bit of nothing":       {"-- @bit d x what it means\n", "x.lua:5: @bit d: the column does not exist"},
		"piece with a gap":     {"-- @piece p a c\n", "x.lua:5: @piece p: c is not where it should be"},
		"piece of no column":   {"-- @piece p a d\n", "x.lua:5: @piece p: d is not where it should be"},
		"the same row twice":   {"\n-- @row r  Another\n", "x.lua:6: row r is declared twice"},
		"columns from and out": {"-- @piece p b..a\n", "x.lua:5: @piece p: b is not where it should be"},
	} {
		if got := faults(header + x.more + "\nlocal x = 1\n"); got != x.want {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
}

func TestRowLayout(t *testing.T) {
	t.Parallel()
	var p problems
	l := readHeaders([]sourceFile{{"x.lua", `-- @row r  A row
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
	if err := p.err(); err != nil {
		t.Fatal(err)
	}
	text := emitLuaRows(l)
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
	page, err := fillRowPage(l, "before\n"+rowBegin+rowEnd+"after\n")
	if err != nil || !strings.Contains(page, "| 2 | 6 | `at` | since when (Unix ms) |\n") {
		t.Errorf("page: %v\n%s", err, page)
	}
}
