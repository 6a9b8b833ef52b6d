package luagen

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// hasModule reports whether a file defines fields of its module.
func hasModule(f header.SourceFile) bool {
	name := regexp.QuoteMeta(header.ModuleOf(f.Name))
	return regexp.MustCompile(`(?m)^(function )?` + name + `\.\w+`).MatchString(f.Text)
}

// Modules writes the declarations of the modules of the contract library, or of the composite calls. All are
// declared before the first file, so that functions can call each other whatever the order of the files.
func Modules(l *header.Library, composite bool) string {
	var names []string
	for _, f := range l.Files {
		if lualib.IsComposite(strings.TrimPrefix(f.Name, "lua/")) == composite && hasModule(f) {
			names = append(names, header.ModuleOf(f.Name))
		}
	}
	if composite {
		names = append(names, rowModules(l)...)
	} else {
		names = append(names, messageModule, encodeModule, decodeModule)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(luaHeader)
	for _, name := range names {
		fmt.Fprintf(&b, "local %s = {}\n", name)
	}
	return b.String()
}
