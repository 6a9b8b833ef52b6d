package header

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// ReadSources reads the hand-written files of the library in their order. A file below the directory that the order
// does not have is an error.
func ReadSources(dir string) ([]SourceFile, error) {
	files := os.DirFS(dir)
	order := lualib.Order(files)
	var unknown []string
	err := fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".lua" && !slices.Contains(order, name) {
			unknown = append(unknown, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("folders in internal/lualib does not contain the folder of %s", strings.Join(unknown, ", "))
	}
	var out []SourceFile
	for _, name := range order {
		if lualib.IsGenerated(name) {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		out = append(out, SourceFile{Name: "lua/" + name, Text: string(text)})
	}
	return out, nil
}
