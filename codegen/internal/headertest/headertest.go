// Package headertest reads the headers that tests of several packages use.
package headertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// Sample reads the headers of testdata/sample.lua, and returns its text, too.
func Sample(t *testing.T) (string, *header.Library) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "sample.lua"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text), readAll(t, []header.SourceFile{{Name: "lua/sample.lua", Text: string(text)}})
}

// Real reads the headers of the library.
func Real(t *testing.T) *header.Library {
	t.Helper()
	files, err := header.ReadSources(filepath.Join("..", "..", "..", "lua"))
	if err != nil {
		t.Fatal(err)
	}
	return readAll(t, files)
}

// Text reads the headers of a text.
func Text(t *testing.T, text string) *header.Library {
	t.Helper()
	return readAll(t, []header.SourceFile{{Name: "x.lua", Text: text}})
}

func readAll(t *testing.T, files []header.SourceFile) *header.Library {
	t.Helper()
	var p header.Problems
	l := header.Read(files, &p)
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	return l
}
