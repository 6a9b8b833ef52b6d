package docgen

import (
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
	"github.com/flowfabric/flowfabric-go/codegen/internal/headertest"
)

func TestDocs(t *testing.T) {
	t.Parallel()
	_, l := headertest.Sample(t)
	docs := Functions(l)
	for _, want := range []string{"### ff_everything", "`stale_lease` (message)", "| 3 | idem | `idem:{tag}:{namespace}:{idempotency_key}`, optional"} {
		if !strings.Contains(docs, want) {
			t.Errorf("no %q in\n%s", want, docs)
		}
	}
}

func TestRowPage(t *testing.T) {
	t.Parallel()
	var p header.Problems
	l := header.Read([]header.SourceFile{{Name: "x.lua", Text: "-- @row r  A row\n-- @column kind byte its kind\n-- @column at time since when\n\nlocal x\n"}}, &p)
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	page, err := fillRowPage(l, "before\n"+rowBegin+rowEnd+"after\n")
	if err != nil || !strings.Contains(page, "| 1 | 6 | `at` | since when (Unix ms) |\n") {
		t.Errorf("page: %v\n%s", err, page)
	}
}
