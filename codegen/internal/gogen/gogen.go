package gogen

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// Files makes the generated Go files, by their path from the module's root.
func Files(l *header.Library) (map[string]string, error) {
	outputs := map[string]string{}
	plans := makePlans(l)
	folders := map[string][]*plan{}
	for _, x := range plans {
		folder := path.Dir(strings.TrimPrefix(x.Pos.File, "lua/"))
		folders[folder] = append(folders[folder], x)
	}
	var errs []error
	add := func(path string) func(string, error) {
		return func(text string, err error) {
			if err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
			outputs[path] = text
			errs = append(errs, err)
		}
	}
	add(CallsFolder + "/keys_gen.go")(emitGoKeys(l))
	add(publicErrorFile)(emitPublicErrors(l))
	add(internalErrorFile)(emitInternalErrors(l))
	add(CallsFolder + "/texts_gen.go")(emitTexts(l))
	add(CallsFolder + "/texts_gen_test.go")(emitTextsTest(l))
	add(CallsFolder + "/calls_gen.go")(emitShared(l, plans))
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		add(CallsFolder + "/calls_" + strings.ReplaceAll(folder, "/", "_") + "_gen.go")(emitCalls(folders[folder]))
	}
	add(CallsFolder + "/calls_gen_test.go")(emitGolden(plans))
	add(rowFolder + "/layout_gen.go")(emitGoRows(l))
	return outputs, errors.Join(errs...)
}
