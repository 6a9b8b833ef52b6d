package header

import (
	"slices"
	"testing"
)

func TestCollisionsGetContractNames(t *testing.T) {
	t.Parallel()
	l := &Library{Functions: []*Function{{Name: "ff_cancel_flow"}, {Name: "ffx_cancel_flow"}, {Name: "ff_claim_execution"}, {Name: "ff_x", GoName: "Other"}}}
	assignGoNames(l)
	var got []string
	for _, f := range l.Functions {
		got = append(got, f.GoName)
	}
	if want := []string{"ContractCancelFlow", "CancelFlow", "ClaimExecution", "Other"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestFaultsOfRows(t *testing.T) {
	t.Parallel()
	const declared = "-- @row r  A row\n-- @column a byte first\n-- @column b time second\n-- @column c text(3) third\n"
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
		var p Problems
		Read([]SourceFile{{"x.lua", declared + x.more + "\nlocal x = 1\n"}}, &p)
		got := ""
		if err := p.Err(); err != nil {
			got = err.Error()
		}
		if got != x.want {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
}
